"""rclone through a worker: its own listings (version 1), checks and multipart uploads."""

import pytest
from worker import LIVE

MIB = 1024 * 1024


@pytest.fixture
def rclone(environment, endpoint, run):
    """Runs `rclone ARGS` without retries, with a remote `s3:` and no config file; its standard output."""
    options = {
        "CONFIG": "",
        "RETRIES": "1",
        "LOW_LEVEL_RETRIES": "1",
        "CONFIG_S3_TYPE": "s3",
        "CONFIG_S3_PROVIDER": "Other",
        "CONFIG_S3_ENV_AUTH": "true",
        "CONFIG_S3_ENDPOINT": endpoint,
    }
    environment.update({f"RCLONE_{name}": value for name, value in options.items()})
    return lambda *args, stdin=None: run("rclone", *args, stdin=stdin)


@pytest.fixture
def remote(prefix):
    return lambda name: f"s3:{LIVE}/{prefix}{name}"


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_written_is_read_and_the_second_time_from_the_cache(
    rclone, remote, origin, asks_nothing, prefix, data, tmp_path, size
):
    body = data(size)
    (tmp_path / "up").write_bytes(body)
    in_parts = ["--s3-upload-cutoff", "5Mi", "--s3-chunk-size", "5Mi"]
    rclone("copyto", *in_parts, str(tmp_path / "up"), remote("object"))
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")["Body"].read() == body
    assert rclone("cat", remote("object")) == body
    with asks_nothing():
        assert rclone("cat", remote("object")) == body


def test_a_directory_goes_up_and_down_and_is_found_equal(rclone, remote, asks_nothing, data, tmp_path):
    files = {f"d{n % 3}/file {n}+ü.bin": data(20_000 + n, n) for n in range(12)}
    for name, body in files.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / name).write_bytes(body)
    rclone("copy", str(tmp_path / "up"), remote("set"))
    rclone("check", "--download", str(tmp_path / "up"), remote("set"))
    with asks_nothing():
        rclone("copy", remote("set"), str(tmp_path / "down"))
    assert {name: (tmp_path / "down" / name).read_bytes() for name in files} == files


def test_a_file_is_read_in_ranges_by_several_streams(
    rclone, remote, origin, asks_nothing, prefix, data, tmp_path
):
    body = data(20 * MIB + 5)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    streams = [
        "--multi-thread-streams",
        "4",
        "--multi-thread-cutoff",
        "4Mi",
        "--multi-thread-chunk-size",
        "4Mi",
    ]
    rclone("copyto", *streams, remote("object"), str(tmp_path / "first"))
    with asks_nothing():
        rclone("copyto", *streams, remote("object"), str(tmp_path / "second"))
        assert rclone("cat", "--offset", "70000", "--count", "99", remote("object")) == body[70_000:70_099]
    assert (tmp_path / "first").read_bytes() == body
    assert (tmp_path / "second").read_bytes() == body


def test_an_overwritten_object_is_read_anew(rclone, remote):
    for body in (b"older", b"newer and longer"):
        rclone("rcat", remote("object"), stdin=body)
        assert rclone("cat", remote("object")) == body


def test_listings_moves_and_removals_are_seen(rclone, remote):
    for name in ("a", "b/1", "b/2"):
        rclone("rcat", remote(name), stdin=b"x")

    def listed(*args):
        return sorted(rclone("lsf", *args, remote("")).decode().split())

    assert listed() == ["a", "b/"]
    rclone("moveto", remote("a"), remote("c"))
    assert rclone("cat", remote("c")) == b"x"
    rclone("delete", remote("b"))
    assert listed("--recursive", "--files-only") == ["c"]
