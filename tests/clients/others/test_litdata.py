"""litdata through a worker: its index by boto3, its chunks by obstore, and no plain http."""

import shutil

import pytest
from litdata import StreamingDataLoader, StreamingDataset, optimize
from worker import LIVE

SAMPLES = 300


@pytest.fixture
def options(over_tls, in_environment):
    """What litdata is told of the endpoint."""
    return {"endpoint_url": over_tls}


@pytest.fixture
def samples(data):
    return [{"id": n, "image": data(3_000 + n, n)} for n in range(SAMPLES)]


def sample_of(sample):
    return sample


@pytest.fixture
def url(samples, options, prefix):
    """A data set that litdata wrote through the endpoint."""
    url = f"s3://{LIVE}/{prefix}train"
    optimize(
        sample_of, samples, output_dir=url, chunk_bytes="200KB", num_workers=1, num_uploaders=1,
        storage_options=options, keep_data_ordered=True, start_method="spawn", verbose=False,
    )  # fmt: skip
    return url


@pytest.fixture
def open_dataset(url, options, tmp_path):
    """Opens it on a machine that has no chunk of it yet; where the chunks go is part of its state."""
    chunks = tmp_path / "chunks"

    def open_dataset(**kwargs):
        shutil.rmtree(chunks, ignore_errors=True)
        return StreamingDataset(url, cache_dir=str(chunks), storage_options=options, **kwargs)

    return open_dataset


def test_a_second_machine_reads_every_sample_from_the_cache(open_dataset, samples, asks_nothing):
    assert list(open_dataset()) == samples
    with asks_nothing():
        assert list(open_dataset()) == samples


def ids(loader):
    return [sample for batch in loader for sample in batch["id"].tolist()]


def test_a_shuffled_epoch_that_is_resumed_goes_on_where_it_stopped(open_dataset, asks_nothing):
    def loader():
        return StreamingDataLoader(open_dataset(shuffle=True, seed=7), batch_size=10, num_workers=0)

    whole = ids(loader())
    assert sorted(whole) == list(range(SAMPLES)) and whole != sorted(whole)

    stopped = loader()
    batches = iter(stopped)
    before = [n for _ in range(11) for n in next(batches)["id"].tolist()]
    state = stopped.state_dict()
    del batches, stopped

    resumed = loader()
    resumed.load_state_dict(state)
    with asks_nothing():
        assert before + ids(resumed) == whole
