"""DuckDB's httpfs through a worker: small ranges at the tail of parquet files."""

from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import pytest
from origin import REGION
from worker import CREDENTIALS

# DuckDB would fetch it from its own server; the package on PyPI carries the same, signed.
[HTTPFS] = Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension")


@pytest.fixture
def connect(endpoint):
    """Makes a database in memory that has read nothing yet."""
    access, secret = CREDENTIALS.values()
    address = endpoint.removeprefix("http://")

    def connect():
        database = duckdb.connect()
        database.load_extension(str(HTTPFS))
        database.sql(
            f"CREATE SECRET (TYPE s3, KEY_ID '{access}', SECRET '{secret}', REGION '{REGION}',"
            f" ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)"
        )
        return database

    return connect


def write(connect, url, rows=200_000):
    numbers = f"SELECT i AS n, 'row ' || i AS text FROM range({rows}) t(i)"
    connect().sql(f"COPY ({numbers}) TO '{url}' (FORMAT parquet, ROW_GROUP_SIZE 20000)")


def test_a_parquet_file_is_read_as_written_and_the_second_time_from_the_cache(connect, url, asks_nothing):
    write(connect, url("table.parquet"))
    whole = f"SELECT count(*), sum(n), min(text), max(text) FROM '{url('table.parquet')}'"
    wanted = [(200_000, 19_999_900_000, "row 0", "row 99999")]
    assert connect().sql(whole).fetchall() == wanted
    with asks_nothing():
        assert connect().sql(whole).fetchall() == wanted


def test_one_row_of_one_column_is_found_by_its_statistics(connect, url, asks_nothing):
    write(connect, url("table.parquet"))
    one = f"SELECT text FROM '{url('table.parquet')}' WHERE n = 123456"
    assert connect().sql(one).fetchall() == [("row 123456",)]
    with asks_nothing():
        assert connect().sql(one).fetchall() == [("row 123456",)]


def test_a_pattern_names_all_files_of_a_table(connect, url):
    for n in range(3):
        write(connect, url(f"part-{n}.parquet"), rows=1000)
    counted = connect().sql(f"SELECT count(*) FROM '{url('part-*.parquet')}'")
    assert counted.fetchall() == [(3000,)]


def test_an_overwritten_file_is_read_anew(connect, url):
    for rows in (1000, 2000):
        write(connect, url("table.parquet"), rows)
        counted = connect().sql(f"SELECT count(*), max(n) FROM '{url('table.parquet')}'")
        assert counted.fetchall() == [(rows, rows - 1)]
