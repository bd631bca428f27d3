"""s3cmd through a worker: the oldest of the clients, with listings of version 1."""

import pytest
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024

CONFIG = """
[default]
access_key = {access}
secret_key = {secret}
host_base = {address}
host_bucket = {address}
bucket_location = {region}
use_https = False
max_retries = 1
"""


@pytest.fixture
def s3cmd(run, endpoint, tmp_path):
    """Runs `s3cmd ARGS`; its standard output."""
    access, secret = CREDENTIALS.values()
    address = endpoint.removeprefix("http://")
    config = tmp_path / "s3cfg"
    config.write_text(CONFIG.format(access=access, secret=secret, address=address, region=REGION))
    return lambda *args, stdin=None: run(
        "s3cmd", "--config", str(config), "--no-progress", *args, stdin=stdin
    )


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_put_is_read_and_the_second_time_from_the_cache(
    s3cmd, url, origin, asks_nothing, prefix, data, tmp_path, size
):
    body = data(size)
    (tmp_path / "up").write_bytes(body)
    s3cmd("put", "--multipart-chunk-size-mb", "5", str(tmp_path / "up"), url("an object"))
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "an object")["Body"].read() == body
    s3cmd("get", url("an object"), str(tmp_path / "first"))
    with asks_nothing():
        s3cmd("get", url("an object"), str(tmp_path / "second"))
    assert (tmp_path / "first").read_bytes() == body
    assert (tmp_path / "second").read_bytes() == body


def test_a_download_goes_on_where_it_stopped(s3cmd, url, origin, asks_nothing, prefix, data, tmp_path):
    body = data(300_000)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    s3cmd("get", url("object"), str(tmp_path / "whole"))
    (tmp_path / "half").write_bytes(body[:123_456])
    with asks_nothing():
        s3cmd("get", "--continue", url("object"), str(tmp_path / "half"))
    assert (tmp_path / "half").read_bytes() == body


def test_a_directory_is_synced_both_ways(s3cmd, url, asks_nothing, data, tmp_path):
    files = {f"d{n % 3}/file {n}+.bin": data(20_000 + n, n) for n in range(9)}
    for name, body in files.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / name).write_bytes(body)
    s3cmd("sync", str(tmp_path / "up") + "/", url("set/"))
    for down in ("first", "second"):
        s3cmd("sync", url("set/"), str(tmp_path / down) + "/")
        assert {name: (tmp_path / down / name).read_bytes() for name in files} == files


def test_listings_moves_and_removals_are_seen(s3cmd, url):
    # A move reads the source's ACL, and moto has none for an object that was put without.
    for name in ("a", "b/1", "b/2"):
        s3cmd("put", "--acl-public", "-", url(name), stdin=b"x")

    def listed(*args):
        return sorted(line.split()[-1] for line in s3cmd("ls", *args, url("")).decode().splitlines())

    assert listed() == [url("a"), url("b/")]
    s3cmd("mv", url("a"), url("c"))
    assert s3cmd("get", url("c"), "-") == b"x"
    s3cmd("rm", "--recursive", url("b/"))
    assert listed("--recursive") == [url("c")]
