"""minio-py through a worker: an SDK of its own, with its own signing and multipart uploads."""

import io

import pytest
from conftest import DIRECT, http
from minio import Minio
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024


@pytest.fixture
def minio(endpoint):
    access, secret = CREDENTIALS.values()
    address = endpoint.removeprefix("http://")
    return Minio(address, access_key=access, secret_key=secret, region=REGION, secure=False)


def get(minio, key, **kwargs):
    response = minio.get_object(LIVE, key, **kwargs)
    try:
        return response.read()
    finally:
        response.close()
        response.release_conn()


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_written_is_read_and_the_second_time_from_the_cache(
    minio, origin, asks_nothing, prefix, data, size
):
    body, key = data(size), prefix + "an object"
    minio.put_object(LIVE, key, io.BytesIO(body), len(body), part_size=5 * MIB)
    assert origin.s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body
    assert get(minio, key) == body
    with asks_nothing():
        assert get(minio, key) == body


def test_a_file_goes_up_and_down(minio, asks_nothing, prefix, data, tmp_path):
    body, key = data(300_000), prefix + "object"
    (tmp_path / "up").write_bytes(body)
    minio.fput_object(LIVE, key, str(tmp_path / "up"), metadata={"label": "7"})
    minio.fget_object(LIVE, key, str(tmp_path / "first"))
    with asks_nothing():
        minio.fget_object(LIVE, key, str(tmp_path / "second"))
        assert minio.stat_object(LIVE, key).metadata["x-amz-meta-label"] == "7"
    assert (tmp_path / "first").read_bytes() == body
    assert (tmp_path / "second").read_bytes() == body


def test_a_range_is_read_exactly_and_the_second_time_from_the_cache(
    minio, origin, asks_nothing, prefix, data
):
    body, key = data(300_000), prefix + "object"
    origin.s3.put_object(Bucket=LIVE, Key=key, Body=body)
    assert get(minio, key, offset=70_000, length=100_000) == body[70_000:170_000]
    with asks_nothing():
        assert get(minio, key, offset=70_000, length=100_000) == body[70_000:170_000]


def test_listings_copies_and_removals_are_seen(minio, prefix):
    for name in ("a", "b/1", "b/2"):
        minio.put_object(LIVE, prefix + name, io.BytesIO(b"x"), 1)

    def listed(**kwargs):
        return [
            entry.object_name.removeprefix(prefix) for entry in minio.list_objects(LIVE, prefix, **kwargs)
        ]

    assert listed() == ["a", "b/"]
    minio.copy_object(LIVE, prefix + "c", CopySource(LIVE, prefix + "a"))
    assert get(minio, prefix + "c") == b"x"
    doomed = [DeleteObject(prefix + name) for name in ("a", "b/1")]
    assert list(minio.remove_objects(LIVE, doomed)) == []
    assert listed(recursive=True) == ["b/2", "c"]
    with pytest.raises(S3Error, match="NoSuchKey"):
        get(minio, prefix + "a")


@pytest.mark.skipif(DIRECT, reason="moto checks no signatures")
def test_a_presigned_url_writes_and_reads(minio, prefix, data):
    body, key = data(1000), prefix + "an object"
    assert http("PUT", minio.presigned_put_object(LIVE, key), data=body).status_code == 200
    assert http("GET", minio.presigned_get_object(LIVE, key)).content == body
