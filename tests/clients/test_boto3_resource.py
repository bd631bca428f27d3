"""boto3's resources and its transfer manager through a worker."""

import io

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import NO_RETRIES
from origin import REGION
from worker import CREDENTIALS, FIXED, LIVE

MIB = 1024 * 1024

# The smallest parts that S3 allows, so that a few MiB make many of them at once.
IN_PARTS = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=8)


@pytest.fixture
def resource(endpoint):
    config = Config(retries=NO_RETRIES)
    return boto3.resource("s3", endpoint_url=endpoint, region_name=REGION, config=config, **CREDENTIALS)


@pytest.mark.parametrize("bucket", [LIVE, FIXED])
def test_an_object_is_read_line_by_line_and_the_second_time_from_the_cache(
    resource, origin, asks_nothing, prefix, bucket
):
    lines = [f"line {n} of a manifest".encode() for n in range(20_000)]
    origin.s3.put_object(Bucket=bucket, Key=prefix + "manifest", Body=b"\n".join(lines))
    manifest = resource.Object(bucket, prefix + "manifest")
    assert list(manifest.get()["Body"].iter_lines()) == lines
    with asks_nothing():
        assert list(manifest.get()["Body"].iter_lines()) == lines


@pytest.mark.parametrize("size", [100_000, 23 * MIB + 1])
def test_a_file_object_goes_up_and_down_in_parts_at_once(
    resource, origin, asks_nothing, prefix, data, size
):
    body, there = data(size), resource.Object(LIVE, prefix + "object")
    there.upload_fileobj(io.BytesIO(body), Config=IN_PARTS)
    assert origin.s3.get_object(Bucket=LIVE, Key=there.key)["Body"].read() == body

    def read():
        into = io.BytesIO()
        there.download_fileobj(into, Config=IN_PARTS)
        return into.getvalue()

    assert read() == body
    with asks_nothing():
        assert read() == body


def test_a_large_object_is_copied_in_parts(resource, prefix, data):
    body = data(11 * MIB)
    source, target = (resource.Object(LIVE, prefix + name) for name in ("source", "target"))
    source.upload_fileobj(io.BytesIO(body), Config=IN_PARTS)
    target.put(Body=b"older")
    assert target.get()["Body"].read() == b"older"
    target.copy({"Bucket": LIVE, "Key": source.key}, Config=IN_PARTS)
    assert target.get()["Body"].read() == body


def test_a_collection_is_listed_read_and_emptied(resource, asks_nothing, prefix, data):
    bucket = resource.Bucket(LIVE)
    bodies = {f"{prefix}sample {n:02}": data(10_000 + n, n) for n in range(12)}
    for key, body in bodies.items():
        bucket.put_object(Key=key, Body=body)

    def read():
        return {found.key: found.get()["Body"].read() for found in bucket.objects.filter(Prefix=prefix)}

    assert read() == bodies
    with asks_nothing():
        assert read() == bodies
    bucket.objects.filter(Prefix=prefix).delete()
    assert list(bucket.objects.filter(Prefix=prefix)) == []
    for key in bodies:
        with pytest.raises(ClientError, match="404"):
            bucket.Object(key).load()
