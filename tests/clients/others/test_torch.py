"""torch's DataLoader through a worker: forked processes, each with a boto3 client of its own."""

import hashlib

import boto3
import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from worker import FIXED

SAMPLES = 64


class Objects(Dataset):
    """A sample is an object; a client is made where it is first needed, so in each worker."""

    def __init__(self, keys):
        self.keys = keys
        self.s3 = None

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        self.s3 = self.s3 or boto3.client("s3")
        body = self.s3.get_object(Bucket=FIXED, Key=self.keys[index])["Body"].read()
        return index, torch.frombuffer(bytearray(body), dtype=torch.uint8)


class Ranges(Objects):
    """A sample is a range of one large object."""

    SIZE = 40_000

    def __getitem__(self, index):
        self.s3 = self.s3 or boto3.client("s3")
        start = index * self.SIZE
        wanted = f"bytes={start}-{start + self.SIZE - 1}"
        body = self.s3.get_object(Bucket=FIXED, Key=self.keys[index], Range=wanted)["Body"].read()
        return index, torch.frombuffer(bytearray(body), dtype=torch.uint8)


def as_they_are(samples):
    return samples


def epoch(dataset, seed):
    """One shuffled pass: the digest of each sample, by its index."""
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        dataset, batch_size=8, shuffle=True, generator=order, num_workers=2, collate_fn=as_they_are
    )
    return {index: digest(sample.numpy().tobytes()) for batch in loader for index, sample in batch}


def digest(body):
    return hashlib.sha256(body).hexdigest()


@pytest.mark.usefixtures("in_environment")
def test_a_second_shuffled_epoch_comes_from_the_cache(origin, asks_nothing, prefix, data):
    bodies = {f"{prefix}{n:04}": data(30_000 + n, n) for n in range(SAMPLES)}
    for key, body in bodies.items():
        origin.s3.put_object(Bucket=FIXED, Key=key, Body=body)
    wanted = {n: digest(body) for n, body in enumerate(bodies.values())}
    dataset = Objects(list(bodies))
    assert epoch(dataset, seed=1) == wanted
    with asks_nothing():
        assert epoch(dataset, seed=2) == wanted


@pytest.mark.usefixtures("in_environment")
def test_samples_at_random_offsets_of_one_object_come_from_the_cache(origin, asks_nothing, prefix, data):
    body = data(SAMPLES * Ranges.SIZE)
    origin.s3.put_object(Bucket=FIXED, Key=prefix + "all", Body=body)
    starts = range(0, len(body), Ranges.SIZE)
    wanted = {n: digest(body[start : start + Ranges.SIZE]) for n, start in enumerate(starts)}
    dataset = Ranges([prefix + "all"] * SAMPLES)
    assert epoch(dataset, seed=1) == wanted
    with asks_nothing():
        assert epoch(dataset, seed=2) == wanted
