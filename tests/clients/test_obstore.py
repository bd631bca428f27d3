"""obstore through a worker: the object_store crate, below Lance, Polars, zarr and litdata."""

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, NotModifiedError
from obstore.store import S3Store
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024


@pytest.fixture
def store(endpoint):
    return S3Store(
        LIVE,
        endpoint=endpoint,
        region=REGION,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        **CREDENTIALS,
    )


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_written_is_read_and_the_second_time_from_the_cache(
    store, origin, asks_nothing, prefix, data, size
):
    body, key = data(size), prefix + "object"
    obstore.put(store, key, body)
    assert origin.s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body
    assert bytes(obstore.get(store, key).bytes()) == body
    with asks_nothing():
        assert bytes(obstore.get(store, key).bytes()) == body


def test_ranges_offsets_and_suffixes_are_read_exactly(store, origin, asks_nothing, prefix, data):
    body, key = data(300_000), prefix + "object"
    origin.s3.put_object(Bucket=LIVE, Key=key, Body=body)

    def read():
        suffix = obstore.get(store, key, options={"range": {"suffix": 65_536}})
        offset = obstore.get(store, key, options={"range": {"offset": 299_000}})
        parts = obstore.get_ranges(store, key, starts=[0, 200_000], lengths=[10, 70_000])
        return [bytes(part) for part in (suffix.bytes(), offset.bytes(), *parts)]

    wanted = [body[-65_536:], body[299_000:], body[:10], body[200_000:270_000]]
    assert read() == wanted
    with asks_nothing():
        assert read() == wanted


def test_of_two_creations_the_first_stands(store, prefix):
    key = prefix + "manifest"
    obstore.put(store, key, b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, key, b"second", mode="create")
    assert bytes(obstore.get(store, key).bytes()) == b"first"


def test_an_object_that_is_still_the_same_is_not_sent_again(store, prefix, asks_nothing):
    key = prefix + "object"
    etag = obstore.put(store, key, b"x")["e_tag"]
    obstore.get(store, key).bytes()
    with asks_nothing(), pytest.raises(NotModifiedError):
        obstore.get(store, key, options={"if_none_match": etag})
