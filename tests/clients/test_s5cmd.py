"""s5cmd through a worker: Go's SDK, and 50 MiB ranges asked of objects of any size."""

import pytest
from worker import LIVE

MIB = 1024 * 1024


@pytest.fixture
def s5cmd(run, endpoint):
    """Runs `s5cmd ARGS` without retries; its standard output."""
    options = ("--retry-count", "0", "--endpoint-url", endpoint)
    return lambda *args, stdin=None: run("s5cmd", *options, *args, stdin=stdin)


@pytest.mark.parametrize("size", [0, 100_000, 60 * MIB + 3])
def test_cp_writes_and_reads_and_the_second_time_from_the_cache(
    s5cmd, url, origin, asks_nothing, prefix, data, tmp_path, size
):
    body = data(size)
    (tmp_path / "up").write_bytes(body)
    s5cmd("cp", str(tmp_path / "up"), url("object"))
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")["Body"].read() == body
    s5cmd("cp", url("object"), str(tmp_path / "first"))
    with asks_nothing():
        s5cmd("cp", url("object"), str(tmp_path / "second"))
    assert (tmp_path / "first").read_bytes() == body
    assert (tmp_path / "second").read_bytes() == body


def test_cat_reads_what_pipe_wrote_and_the_second_time_from_the_cache(s5cmd, url, asks_nothing, data):
    for version in range(2):
        body = data(MIB + version)
        s5cmd("pipe", url("object"), stdin=body)
        assert s5cmd("cat", url("object")) == body
        with asks_nothing():
            assert s5cmd("cat", url("object")) == body


def test_a_directory_of_many_files_goes_up_and_down_at_once(s5cmd, url, asks_nothing, data, tmp_path):
    files = {f"d{n % 4}/file {n}+.bin": data(20_000 + n, n) for n in range(60)}
    for name, body in files.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / name).write_bytes(body)
    s5cmd("sync", str(tmp_path / "up") + "/", url("set/"))
    for down in ("first", "second"):
        s5cmd("cp", url("set/*"), str(tmp_path / down) + "/")
        assert {name: (tmp_path / down / name).read_bytes() for name in files} == files
    with asks_nothing():
        s5cmd("cp", url("set/*"), str(tmp_path / "third") + "/")


def test_listings_moves_and_removals_are_seen(s5cmd, url):
    for name in ("a", "b/1", "b/2"):
        s5cmd("pipe", url(name), stdin=b"x")

    def listed(pattern):
        return [line.split()[-1] for line in s5cmd("ls", url(pattern)).decode().splitlines()]

    assert listed("") == ["b/", "a"]
    s5cmd("mv", url("a"), url("c"))
    assert s5cmd("cat", url("c")) == b"x"
    s5cmd("rm", url("b/*"))
    assert listed("*") == ["c"]
