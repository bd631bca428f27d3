"""Lance through a worker: a commit is a PUT that must fail if the version is there already."""

import lance
import pyarrow as pa
import pytest
from origin import REGION
from worker import CREDENTIALS, LIVE


@pytest.fixture
def options(endpoint):
    return {"endpoint": endpoint, "region": REGION, "allow_http": "true", **CREDENTIALS}


@pytest.fixture
def uri(prefix):
    return f"s3://{LIVE}/{prefix}table.lance"


def rows(start, count):
    numbers = range(start, start + count)
    return pa.table({"n": numbers, "text": [f"row {n}" for n in numbers]})


def test_a_table_is_read_as_written_and_the_second_time_from_the_cache(options, uri, asks_nothing):
    lance.write_dataset(rows(0, 50_000), uri, storage_options=options)

    def read():
        return lance.dataset(uri, storage_options=options).to_table()

    assert read() == rows(0, 50_000)
    with asks_nothing():
        assert read() == rows(0, 50_000)


def test_rows_are_taken_at_random_and_the_second_time_from_the_cache(options, uri, asks_nothing):
    lance.write_dataset(rows(0, 50_000), uri, storage_options=options)
    wanted = [7, 49_999, 123, 30_000]

    def take():
        return lance.dataset(uri, storage_options=options).take(wanted)["n"].to_pylist()

    assert take() == wanted
    with asks_nothing():
        assert take() == wanted


def test_an_append_is_a_version_that_the_next_reader_sees(options, uri):
    lance.write_dataset(rows(0, 1000), uri, storage_options=options)
    assert lance.dataset(uri, storage_options=options).count_rows() == 1000
    for n in (1, 2):
        lance.write_dataset(rows(1000 * n, 1000), uri, mode="append", storage_options=options)
        table = lance.dataset(uri, storage_options=options)
        assert table.version == n + 1
        assert table.to_table() == rows(0, 1000 * (n + 1))
    assert lance.dataset(uri, version=1, storage_options=options).to_table() == rows(0, 1000)


def test_of_two_commits_on_one_version_neither_is_lost(options, uri):
    lance.write_dataset(rows(0, 100), uri, storage_options=options)
    appends = [
        lance.LanceOperation.Append(
            lance.fragment.write_fragments(rows(start, 100), uri, storage_options=options)
        )
        for start in (100, 200)
    ]
    for append in appends:
        lance.LanceDataset.commit(uri, append, read_version=1, storage_options=options)
    table = lance.dataset(uri, storage_options=options)
    assert table.version == 3
    assert sorted(table.to_table()["n"].to_pylist()) == list(range(300))


def test_of_two_overwrites_of_one_version_the_second_is_refused(options, uri):
    lance.write_dataset(rows(0, 100), uri, storage_options=options)
    stale = lance.dataset(uri, storage_options=options)
    lance.dataset(uri, storage_options=options).update({"n": "n + 1"})
    with pytest.raises(OSError, match="(?i)conflict"):
        lance.LanceDataset.commit(
            uri,
            lance.LanceOperation.Delete([], [0], "true"),
            read_version=stale.version,
            storage_options=options,
        )
    assert lance.dataset(uri, storage_options=options).to_table()["n"].to_pylist() == list(range(1, 101))
