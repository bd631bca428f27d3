"""zarr through a worker, over s3fs and over obstore: many small objects, and shards read by parts."""

import numpy as np
import pytest
import zarr
from obstore.store import S3Store
from origin import REGION
from worker import CREDENTIALS, LIVE
from zarr.storage import FsspecStore, ObjectStore

VALUES = np.arange(600 * 600, dtype="int32").reshape(600, 600)


def over_s3fs(endpoint, prefix):
    options = {
        "key": CREDENTIALS["aws_access_key_id"],
        "secret": CREDENTIALS["aws_secret_access_key"],
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": REGION},
        "use_listings_cache": False,
    }
    return FsspecStore.from_url(f"s3://{LIVE}/{prefix}array", storage_options=options)


def over_obstore(endpoint, prefix):
    options = {"region": REGION, "client_options": {"allow_http": True}, **CREDENTIALS}
    return ObjectStore(S3Store(LIVE, prefix=prefix + "array", endpoint=endpoint, **options))


@pytest.fixture(params=[over_s3fs, over_obstore])
def store(request, endpoint, prefix):
    """Makes a store that has read nothing yet."""
    return lambda: request.param(endpoint, prefix)


def write(store, **kwargs):
    array = zarr.create_array(store(), shape=VALUES.shape, dtype=VALUES.dtype, chunks=(100, 100), **kwargs)
    array[:] = VALUES


@pytest.mark.parametrize("shards", [None, (300, 300)])
def test_an_array_is_read_as_written_and_the_second_time_from_the_cache(store, asks_nothing, shards):
    write(store, shards=shards)
    assert (zarr.open_array(store(), mode="r")[:] == VALUES).all()
    with asks_nothing():
        assert (zarr.open_array(store(), mode="r")[:] == VALUES).all()


def test_a_window_of_a_sharded_array_is_read_by_ranges(store, asks_nothing):
    write(store, shards=(300, 300))
    window = np.s_[250:420, 90:120]
    assert (zarr.open_array(store(), mode="r")[window] == VALUES[window]).all()
    with asks_nothing():
        assert (zarr.open_array(store(), mode="r")[window] == VALUES[window]).all()


def test_a_part_that_is_written_anew_is_what_the_next_read_sees(store):
    write(store)
    assert zarr.open_array(store(), mode="r")[150, 150] == VALUES[150, 150]
    zarr.open_array(store(), mode="r+")[100:200, 100:200] = -1
    wanted = VALUES.copy()
    wanted[100:200, 100:200] = -1
    assert (zarr.open_array(store(), mode="r")[:] == wanted).all()
