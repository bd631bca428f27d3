"""Polars through a worker: suffix ranges first, unsigned payloads on reads."""

import polars as pl
import pytest
from origin import REGION
from worker import CREDENTIALS

TABLE = pl.DataFrame({"n": range(200_000), "text": [f"row {n}" for n in range(200_000)]})


@pytest.fixture
def options(endpoint):
    return {"aws_endpoint_url": endpoint, "aws_region": REGION, "aws_allow_http": "true", **CREDENTIALS}


def test_a_parquet_file_is_read_as_written_and_the_second_time_from_the_cache(options, url, asks_nothing):
    TABLE.write_parquet(url("table.parquet"), storage_options=options, row_group_size=20_000)
    assert pl.read_parquet(url("table.parquet"), storage_options=options).equals(TABLE)
    with asks_nothing():
        assert pl.read_parquet(url("table.parquet"), storage_options=options).equals(TABLE)


def test_a_lazy_scan_reads_only_what_it_needs_and_the_second_time_from_the_cache(
    options, url, asks_nothing
):
    TABLE.write_parquet(url("table.parquet"), storage_options=options, row_group_size=20_000)

    def scan():
        lazy = pl.scan_parquet(url("table.parquet"), storage_options=options)
        return lazy.filter(pl.col("n") == 123_456).select("text").collect().item()

    assert scan() == "row 123456"
    with asks_nothing():
        assert scan() == "row 123456"


def test_a_pattern_names_all_files_of_a_table(options, url):
    for n in range(3):
        TABLE[n * 1000 : (n + 1) * 1000].write_parquet(url(f"part-{n}.parquet"), storage_options=options)
    read = pl.scan_parquet(url("part-*.parquet"), storage_options=options).collect()
    assert read.equals(TABLE[:3000])


def test_lines_of_json_and_of_csv_are_read_as_written(options, url, asks_nothing):
    TABLE.lazy().sink_csv(url("table.csv"), storage_options=options)
    TABLE.lazy().sink_ndjson(url("table.jsonl"), storage_options=options)
    for read, name in ((pl.scan_csv, "table.csv"), (pl.scan_ndjson, "table.jsonl")):
        assert read(url(name), storage_options=options).collect().equals(TABLE)
        with asks_nothing():
            assert read(url(name), storage_options=options).collect().equals(TABLE)


def test_an_overwritten_file_is_read_anew(options, url):
    for rows in (1000, 2000):
        TABLE[:rows].write_parquet(url("table.parquet"), storage_options=options)
        assert pl.read_parquet(url("table.parquet"), storage_options=options).equals(TABLE[:rows])
