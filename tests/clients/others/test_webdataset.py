"""WebDataset through a worker: shards that are piped out of other programs, one process a shard."""

import io

import pytest
import webdataset as wds
from conftest import DIRECT
from origin import REGION
from worker import CREDENTIALS, LIVE

SHARDS = 4
SAMPLES_PER_SHARD = 25

KEYS = ":".join(CREDENTIALS.values())
PIPES = {
    "aws-cli": "aws s3 cp {url} -",
    "s5cmd": "s5cmd --endpoint-url $AWS_ENDPOINT_URL cat {url}",
    "curl": "curl --silent --fail -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'"
    f" --aws-sigv4 aws:amz:{REGION}:s3 --user {KEYS} $AWS_ENDPOINT_URL/{{path}}",
}


@pytest.fixture
def samples(data):
    """All samples by their keys: an image and its label."""
    count = SHARDS * SAMPLES_PER_SHARD
    return {f"{n:06}": {"jpg": data(5_000 + 97 * n, n), "cls": str(n % 10).encode()} for n in range(count)}


@pytest.fixture
def paths(s3, prefix, samples):
    """Where the shards are, as `bucket/key`."""
    keys = [f"{prefix}train-{n:06}.tar" for n in range(SHARDS)]
    for n, key in enumerate(keys):
        shard = io.BytesIO()
        with wds.TarWriter(shard) as writer:
            for name in list(samples)[n * SAMPLES_PER_SHARD : (n + 1) * SAMPLES_PER_SHARD]:
                writer.write({"__key__": name, **samples[name]})
        s3.put_object(Bucket=LIVE, Key=key, Body=shard.getvalue())
    return [f"{LIVE}/{key}" for key in keys]


def read(urls):
    dataset = wds.WebDataset(urls, shardshuffle=len(urls)).shuffle(20)
    return {sample["__key__"]: {part: sample[part] for part in ("jpg", "cls")} for sample in dataset}


@pytest.mark.usefixtures("in_environment")
@pytest.mark.parametrize("program", PIPES)
def test_all_samples_of_piped_shards_are_read_and_the_second_time_from_the_cache(
    paths, samples, asks_nothing, program
):
    urls = ["pipe:" + PIPES[program].format(url=f"s3://{path}", path=path) for path in paths]
    assert read(urls) == samples
    with asks_nothing():
        assert read(urls) == samples


@pytest.mark.skipif(DIRECT, reason="moto checks no signatures")
def test_shards_are_read_by_presigned_url(s3, paths, samples, asks_nothing):
    here = [dict(zip(("Bucket", "Key"), path.split("/", 1))) for path in paths]
    urls = [f"pipe:curl --silent --fail '{s3.generate_presigned_url('get_object', at)}'" for at in here]
    assert read(urls) == samples
    with asks_nothing():
        assert read(urls) == samples


@pytest.mark.usefixtures("in_environment")
def test_shards_that_are_written_through_a_pipe_are_read_back(origin, prefix, samples):
    pattern = f"pipe:aws s3 cp - s3://{LIVE}/{prefix}%06d.tar"
    with wds.ShardWriter(pattern, maxcount=SAMPLES_PER_SHARD, verbose=0) as writer:
        for name, sample in samples.items():
            writer.write({"__key__": name, **sample})
    listed = origin.s3.list_objects_v2(Bucket=LIVE, Prefix=prefix)
    assert listed["KeyCount"] == SHARDS
    urls = [f"pipe:aws s3 cp s3://{LIVE}/{entry['Key']} -" for entry in listed["Contents"]]
    assert read(urls) == samples
