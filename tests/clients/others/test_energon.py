"""megatron-energon through a worker: a data set that is prepared and read over NVIDIA's MSC."""

import itertools
import json
from dataclasses import dataclass

import pytest
import webdataset as wds
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    SampleDecoder,
    WorkerConfig,
    basic_sample_keys,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from origin import REGION
from worker import CREDENTIALS, LIVE

SHARDS = 3
SAMPLES_PER_SHARD = 40
BATCH = 8
WORKERS = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(autouse=True)
def msc(in_environment, endpoint, monkeypatch, tmp_path):
    """MSC knows of endpoints by a config file; `msc://forebay/` is ours."""
    access, secret = CREDENTIALS.values()
    options = {"base_path": LIVE, "region_name": REGION, "endpoint_url": endpoint}
    credentials = {"access_key": access, "secret_key": secret}
    profile = {
        "storage_provider": {"type": "s3", "options": options},
        "credentials_provider": {"type": "S3Credentials", "options": credentials},
    }
    config = tmp_path / "msc.json"
    config.write_text(json.dumps({"profiles": {"forebay": profile}}))
    monkeypatch.setenv("MSC_CONFIG", str(config))


@pytest.fixture
def samples(data):
    count = SHARDS * SAMPLES_PER_SHARD
    return {f"{n:06}": {"txt": f"caption {n}", "bin": data(3_000 + n, n)} for n in range(count)}


@pytest.fixture
def url(run, prefix, samples, tmp_path):
    """A data set that energon has prepared on a disk, and that went up through the endpoint.

    Over MSC, `energon prepare` forks with its connection open and lets both sides use it.
    """
    shards = tmp_path / "train"
    shards.mkdir()
    with wds.ShardWriter(f"{shards}/%06d.tar", maxcount=SAMPLES_PER_SHARD, verbose=0) as writer:
        for name, sample in samples.items():
            writer.write({"__key__": name, **sample})
    run(
        "energon", "prepare", str(shards), "--non-interactive", "--split-ratio", "1,0,0",
        "--sample-type", "CrudeWebdataset", "--num-workers", "1", "--no-progress",
    )  # fmt: skip
    run("aws", "s3", "sync", str(shards), f"s3://{LIVE}/{prefix}train")
    return f"msc://forebay/{prefix}train"


@dataclass
class Captioned(Sample):
    caption: str
    image: bytes


@stateless
def cook(sample):
    return Captioned(**basic_sample_keys(sample), caption=sample["txt"], image=sample["bin"])


class AsTheyAre(DefaultTaskEncoder):
    """Hands samples on as they are, and batches as lists of them."""

    cookers = [Cooker(cook)]
    decoder = SampleDecoder()

    @stateless
    def batch(self, samples):
        return samples


def open_loader(url):
    dataset = get_train_dataset(
        url, worker_config=WORKERS, batch_size=BATCH, shuffle_buffer_size=20,
        max_samples_per_sequence=10, repeat=False, task_encoder=AsTheyAre(),
    )  # fmt: skip
    return get_savable_loader(dataset)


def read(batches):
    samples = [sample for batch in batches for sample in batch]
    return [(sample.__key__.rpartition("/")[2], sample.caption, sample.image) for sample in samples]


def test_every_sample_is_read_shuffled_and_the_second_time_from_the_cache(url, samples, asks_nothing):
    wanted = [(name, sample["txt"], sample["bin"]) for name, sample in samples.items()]
    first = read(open_loader(url))
    assert sorted(first) == wanted != first
    with asks_nothing():
        assert sorted(read(open_loader(url))) == wanted


def test_a_loader_that_is_restored_in_mid_epoch_goes_on_where_it_stopped(url, asks_nothing):
    whole = read(open_loader(url))
    stopped = open_loader(url)
    before = read(itertools.islice(stopped, 6))
    state = stopped.save_state_rank()
    resumed = open_loader(url)
    with asks_nothing():
        resumed.restore_state_rank(state)
        assert before + read(resumed) == whole
