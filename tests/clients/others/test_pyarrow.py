"""pyarrow through a worker: the AWS SDK for C++, with its chunked, trailed uploads."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from origin import REGION
from pyarrow import fs as arrow_fs
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024


@pytest.fixture
def fs(endpoint):
    return arrow_fs.S3FileSystem(
        access_key=CREDENTIALS["aws_access_key_id"],
        secret_key=CREDENTIALS["aws_secret_access_key"],
        endpoint_override=endpoint,
        region=REGION,
        force_virtual_addressing=False,
    )


@pytest.fixture
def here(prefix):
    return f"{LIVE}/{prefix}"


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_written_is_read_and_the_second_time_from_the_cache(
    fs, origin, asks_nothing, prefix, here, data, size
):
    body = data(size)
    with fs.open_output_stream(here + "object") as stream:
        stream.write(body)
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")["Body"].read() == body

    def read():
        with fs.open_input_stream(here + "object") as stream:
            return stream.read()

    assert read() == body
    with asks_nothing():
        assert read() == body


def test_a_column_of_a_parquet_file_is_read_from_its_tail(fs, asks_nothing, here):
    table = pa.table({"n": range(200_000), "text": [f"row {n}" for n in range(200_000)]})
    pq.write_table(table, here + "table.parquet", filesystem=fs, row_group_size=20_000)
    wanted = table.select(["n"])
    assert pq.read_table(here + "table.parquet", columns=["n"], filesystem=fs) == wanted
    with asks_nothing():
        assert pq.read_table(here + "table.parquet", columns=["n"], filesystem=fs) == wanted


def test_listings_copies_and_removals_are_seen(fs, here, data):
    with fs.open_output_stream(here + "a/one") as stream:
        stream.write(data(1000))
    fs.copy_file(here + "a/one", here + "a/two")
    listed = fs.get_file_info(arrow_fs.FileSelector(here + "a"))
    assert sorted((info.base_name, info.size) for info in listed) == [("one", 1000), ("two", 1000)]
    fs.delete_file(here + "a/one")
    assert fs.get_file_info(here + "a/one").type == arrow_fs.FileType.NotFound
