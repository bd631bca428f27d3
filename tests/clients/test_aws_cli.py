"""The aws command line through a worker."""

import json

import pytest
from conftest import DIRECT, http
from worker import LIVE

MIB = 1024 * 1024


@pytest.fixture
def aws(run):
    """Runs `aws ARGS` without retries; its standard output."""
    return lambda *args, stdin=None: run("aws", *args, stdin=stdin)


@pytest.mark.parametrize("size", [0, 100_000, 20 * MIB + 3])
def test_cp_writes_and_reads_and_the_second_time_from_the_cache(
    aws, url, origin, asks_nothing, prefix, data, tmp_path, size
):
    body = data(size)
    (tmp_path / "up").write_bytes(body)
    aws("s3", "cp", str(tmp_path / "up"), url("object"))
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")["Body"].read() == body
    aws("s3", "cp", url("object"), str(tmp_path / "first"))
    with asks_nothing():
        aws("s3", "cp", url("object"), str(tmp_path / "second"))
    assert (tmp_path / "first").read_bytes() == body
    assert (tmp_path / "second").read_bytes() == body


def test_cp_streams_through_standard_input_and_output(aws, url, data):
    body = data(9 * MIB)
    aws("s3", "cp", "-", url("object"), stdin=body)
    assert aws("s3", "cp", url("object"), "-") == body


def test_an_overwritten_object_is_read_anew(aws, url):
    for body in (b"older", b"newer and longer"):
        aws("s3", "cp", "-", url("object"), stdin=body)
        assert aws("s3", "cp", url("object"), "-") == body


def test_sync_mirrors_both_ways_and_has_nothing_left_to_do(aws, url, data, tmp_path):
    files = {f"d{n % 3}/file {n}+.bin": data(1000 + n, n) for n in range(9)}
    for name, body in files.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / name).write_bytes(body)
    aws("s3", "sync", str(tmp_path / "up"), url(""))
    aws("s3", "sync", url(""), str(tmp_path / "down"))
    assert {name: (tmp_path / "down" / name).read_bytes() for name in files} == files
    assert aws("s3", "sync", url(""), str(tmp_path / "down")) == b""


def test_ls_lists_prefixes_and_objects(aws, url):
    for name in ("a", "b/1", "b/2"):
        aws("s3", "cp", "-", url(name), stdin=b"x")
    flat = aws("s3", "ls", url("")).decode().split("\n")
    assert [line.split()[-1] for line in flat if line] == ["b/", "a"]
    deep = aws("s3", "ls", "--recursive", url("")).decode().split("\n")
    assert [line.split("/", 1)[1] for line in deep if line] == ["a", "b/1", "b/2"]


@pytest.mark.parametrize(
    "asked, wanted",
    {
        "0-99": slice(0, 100),
        "70000-70099": slice(70_000, 70_100),
        "99000-": slice(99_000, None),
        "-5000": slice(-5000, None),
        "0-8388607": slice(None),
    }.items(),
)
def test_a_range_is_read_exactly_and_the_second_time_from_the_cache(
    aws, origin, asks_nothing, prefix, data, tmp_path, asked, wanted
):
    body = data(100_000)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    get = ["s3api", "get-object", "--bucket", LIVE, "--key", prefix + "object", "--range", f"bytes={asked}"]
    aws(*get, str(tmp_path / "first"))
    with asks_nothing():
        aws(*get, str(tmp_path / "second"))
    assert (tmp_path / "first").read_bytes() == body[wanted]
    assert (tmp_path / "second").read_bytes() == body[wanted]


def test_head_object_is_what_the_origin_says(aws, origin, prefix, data):
    here = {"Bucket": LIVE, "Key": prefix + "object"}
    origin.s3.put_object(**here, Body=data(5000), Metadata={"label": "7"}, ContentType="image/png")
    head = json.loads(aws("s3api", "head-object", "--bucket", LIVE, "--key", here["Key"]))
    direct = origin.s3.head_object(**here)
    for name in ("ETag", "ContentLength", "ContentType", "Metadata"):
        assert head[name] == direct[name]


def test_copies_moves_and_removals_are_seen(aws, url, prefix):
    aws("s3", "cp", "-", url("one"), stdin=b"x")
    aws("s3", "cp", url("one"), url("two"))
    aws("s3", "mv", url("two"), url("three"))
    assert aws("s3", "cp", url("three"), "-") == b"x"
    aws("s3", "rm", url("one"))
    listed = aws("s3", "ls", "--recursive", url("")).decode().split()
    assert listed[3:] == [prefix + "three"]
    aws("s3", "rm", "--recursive", url(""))
    left = ["s3api", "list-objects-v2", "--bucket", LIVE, "--prefix", prefix, "--query", "Contents"]
    assert json.loads(aws(*left)) is None


@pytest.mark.skipif(DIRECT, reason="moto checks no signatures")
def test_a_url_from_presign_reads(aws, url, data):
    aws("s3", "cp", "-", url("object"), stdin=data(1000))
    assert http("GET", aws("s3", "presign", url("object")).decode().strip()).content == data(1000)
