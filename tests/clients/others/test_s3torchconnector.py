"""s3torchconnector through a worker: AWS' own client for torch, which asks for 8 MiB of everything."""

import pytest
import torch
import torch.distributed.checkpoint as dcp
from origin import REGION
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from torch.utils.data import DataLoader
from worker import LIVE

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("in_environment")

# By an IP address it would be path style anyway; by a name the default is a virtual host.
CONFIG = S3ClientConfig(force_path_style=True, max_attempts=1)


@pytest.fixture
def where(endpoint):
    return {"region": REGION, "endpoint": endpoint, "s3client_config": CONFIG}


@pytest.fixture
def url(prefix):
    return f"s3://{LIVE}/{prefix}"


@pytest.fixture
def bodies(origin, prefix, data):
    """Objects of several sizes, one of them longer than what it asks for at once."""
    sizes = [1, 9_000, 100_000, 20 * MIB + 1, *range(40_000, 40_012)]
    bodies = {f"{prefix}{n:02}": data(size, n) for n, size in enumerate(sizes)}
    for key, body in bodies.items():
        origin.s3.put_object(Bucket=LIVE, Key=key, Body=body)
    return bodies


def key_and_body(reader):
    return reader.key, reader.read()


def as_they_are(samples):
    return samples


def test_a_map_dataset_is_read_by_index_and_the_second_time_from_the_cache(
    where, url, bodies, asks_nothing
):
    def read():
        dataset = S3MapDataset.from_prefix(url, transform=key_and_body, **where)
        return dict(dataset[n] for n in reversed(range(len(dataset))))

    assert read() == bodies
    with asks_nothing():
        assert read() == bodies


def test_an_iterable_dataset_is_shared_by_workers_and_the_second_time_from_the_cache(
    where, url, bodies, asks_nothing
):
    def read():
        dataset = S3IterableDataset.from_prefix(url, transform=key_and_body, enable_sharding=True, **where)
        loader = DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=as_they_are)
        return dict(sample for batch in loader for sample in batch)

    assert read() == bodies
    with asks_nothing():
        assert read() == bodies


def weights(seed):
    numbers = torch.Generator().manual_seed(seed)
    return {"w": torch.randn(700, 1000, generator=numbers), "step": torch.tensor(seed)}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_checkpoint_is_loaded_as_saved_and_saved_anew_is_loaded_anew(where, url, asks_nothing):
    checkpoint = S3Checkpoint(**where)
    for step in (1, 2):
        with checkpoint.writer(url + "latest.pt") as file:
            torch.save(weights(step), file)

        def load():
            with checkpoint.reader(url + "latest.pt") as file:
                return torch.load(file, weights_only=True)

        assert same(load(), weights(step))
        with asks_nothing():
            assert same(load(), weights(step))


def test_a_distributed_checkpoint_is_loaded_as_saved(where, url, asks_nothing):
    place = {"region": REGION, "path": url + "step-1/", "s3client_config": CONFIG}
    dcp.save(weights(7), storage_writer=S3StorageWriter(**place), no_dist=True)

    def load():
        into = {"w": torch.zeros(700, 1000), "step": torch.tensor(0)}
        dcp.load(into, storage_reader=S3StorageReader(**place), no_dist=True)
        return into

    assert same(load(), weights(7))
    with asks_nothing():
        assert same(load(), weights(7))
