"""Placement as README.md states it, apart from the Rust code. Needs `pip install xxhash`.

    python3 reference.py > placement.json
"""

import bisect
import json
import struct

import xxhash

MAX_OWNERS = 3
MAX_VIRTUAL_NODES = 100_000
UNIT_WEIGHT = 100


def positions(seed, virtual_nodes, members):
    for worker, weight in members:
        count = max(1, min(MAX_VIRTUAL_NODES, virtual_nodes * weight // UNIT_WEIGHT))
        for nth in range(count):
            yield xxhash.xxh3_64_intdigest(struct.pack("<QI", worker, nth), seed), worker


def block_hash(seed, rule, bucket, key, block):
    data = struct.pack("<Q", rule)
    for text in (bucket.encode(), key.encode()):
        data += struct.pack("<I", len(text)) + text
    return xxhash.xxh3_64_intdigest(data + struct.pack("<Q", block), seed)


def owners(ring, at):
    found = []
    first = bisect.bisect_left(ring, (at, 0))
    for _, worker in ring[first:] + ring[:first]:
        if worker not in found:
            found.append(worker)
        if len(found) == MAX_OWNERS:
            break
    return found


def case(about, seed, virtual_nodes, members, keys):
    ring = sorted(positions(seed, virtual_nodes, members))
    rows = []
    for rule, bucket, key, block in keys:
        at = block_hash(seed, rule, bucket, key, block)
        rows.append({
            "rule": f"{rule:016x}", "bucket": bucket, "key": key, "block": block,
            "hash": f"{at:016x}", "owners": [f"{worker:016x}" for worker in owners(ring, at)],
        })
    return {
        "about": about, "seed": f"{seed:016x}", "virtual_nodes": virtual_nodes,
        "members": [{"id": f"{worker:016x}", "weight": weight} for worker, weight in members],
        "keys": rows,
    }


def ids(count):
    """Worker ids that look random, and need no generator that may change."""
    return [xxhash.xxh3_64_intdigest(struct.pack("<Q", n), 0x666F7265626179) for n in range(count)]


RULE = 0x0123_4567_89AB_CDEF
NAMES = [
    ("train", "shards/000042.tar"), ("train", "a"), ("t", "rain/a"), ("train", "a/../b"),
    ("train", "//"), ("logs-2026.v1_x", "%2e%2e/"), ("train", "sp ace+&=?#"),
    ("train", "\u00fcml\u00e4ut/\u732b/\U0001f600"), ("train", "nul\0and\nline"),
]
LONGEST = [(RULE, "b" * 255, "k" * 1024, 7), (RULE, "b", "\u732b" * 341 + "k", 7)]
FEW = [(RULE, *name, block) for name in NAMES for block in (0, 1)]
FEW += [(RULE, "train", "a", block) for block in (2, 255, 256, 2**32, 2**61 - 1)]
FEW += [(rule, "train", "a", 0) for rule in (0, 1, 2**64 - 1)]
MANY = FEW + [(RULE, "train", f"shards/{n:06}.tar", n % 7) for n in range(40)]

print(json.dumps([
    case("no members", 0, 500, [], FEW[:3]),
    case("one member", 0, 500, [(0xAB, 100)], FEW[:3]),
    case("two members", 0, 500, [(0xAB, 100), (0xCD, 100)], FEW),
    case("three members as a cluster begins", 0, 500, [(n, 100) for n in ids(3)], MANY + LONGEST),
    case("sixteen members, not by id", 0, 500, [(n, 100) for n in ids(16)], MANY),
    case("weights", 0, 500, list(zip(ids(5), (0, 1, 50, 100, 333))), MANY),
    case("another seed", 2**64 - 59, 128, [(n, 100) for n in [0, 1, 2**64 - 1] + ids(7)], MANY),
    case("one virtual node each", 5, 1, [(n, 100) for n in ids(9)], MANY),
], indent=None, separators=(",", ":")).replace('{"rule"', '\n  {"rule"').replace('{"about"', '\n{"about"'))
