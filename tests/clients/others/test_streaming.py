"""mosaicml-streaming through a worker: MDS shards, shuffled, and a run resumed in mid-epoch."""

import json

import pytest
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from worker import FIXED, LIVE

SAMPLES = 400
BATCH = 16
COLUMNS = {"id": "int", "image": "bytes"}


@pytest.fixture(autouse=True)
def local_state(in_environment, endpoint, monkeypatch):
    """It has a variable of its own for the endpoint, and shared memory that outlives a dataset."""
    monkeypatch.setenv("S3_ENDPOINT_URL", endpoint)
    clean_stale_shared_memory()
    yield
    clean_stale_shared_memory()


@pytest.fixture
def open_dataset(tmp_path):
    """Opens a dataset on a machine that has no shard of it yet."""
    machines = iter(range(100))

    def open_dataset(remote):
        clean_stale_shared_memory()
        local = str(tmp_path / f"machine-{next(machines)}")
        return StreamingDataset(
            remote=remote, local=local, shuffle=True, shuffle_seed=11, batch_size=BATCH,
            num_canonical_nodes=1, validate_hash="xxh64", download_retry=1,
        )  # fmt: skip

    return open_dataset


def write(out, data):
    with MDSWriter(out=out, columns=COLUMNS, size_limit=300_000, hashes=["xxh64"]) as writer:
        for n in range(SAMPLES):
            writer.write({"id": n, "image": data(4_000 + n, n)})


def ids(loader):
    return [sample for batch in loader for sample in batch["id"].tolist()]


def test_a_second_machine_reads_every_sample_from_the_cache(open_dataset, asks_nothing, prefix, data):
    remote = f"s3://{FIXED}/{prefix}train"
    write(remote, data)
    wanted = {n: data(4_000 + n, n) for n in range(SAMPLES)}

    def read():
        return {sample["id"]: sample["image"] for sample in open_dataset(remote)}

    assert read() == wanted
    with asks_nothing():
        assert read() == wanted


def test_an_epoch_that_is_resumed_in_its_middle_goes_on_where_it_stopped(
    open_dataset, asks_nothing, prefix, data
):
    remote = f"s3://{LIVE}/{prefix}train"
    write(remote, data)
    whole = ids(StreamingDataLoader(open_dataset(remote), batch_size=BATCH))
    assert sorted(whole) == list(range(SAMPLES)) and whole != sorted(whole)

    loader = StreamingDataLoader(open_dataset(remote), batch_size=BATCH)
    batches = iter(loader)
    before = [n for _ in range(9) for n in next(batches)["id"].tolist()]
    state = json.dumps(loader.state_dict())
    del batches, loader

    resumed = StreamingDataLoader(open_dataset(remote), batch_size=BATCH)
    resumed.load_state_dict(json.loads(state))
    with asks_nothing():
        after = ids(resumed)
    assert before + after == whole
