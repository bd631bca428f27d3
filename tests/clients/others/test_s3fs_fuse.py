"""s3fs, the FUSE file system, through a worker: a bucket that is mounted, and asked HEAD by HEAD."""

import contextlib
import os
import shutil
import subprocess
import time

import pytest
from conftest import HANGS_AFTER_SECONDS
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024

pytestmark = [
    pytest.mark.skipif(not shutil.which("s3fs"), reason="s3fs is not installed: apt-get install s3fs"),
    pytest.mark.skipif(
        not os.access("/dev/fuse", os.W_OK), reason="no FUSE here: /dev/fuse cannot be opened"
    ),
]


@pytest.fixture
def mount(environment, endpoint, prefix, tmp_path):
    """Mounts this test's place in the bucket by a process that has read nothing yet."""
    environment["AWSACCESSKEYID"], environment["AWSSECRETACCESSKEY"] = CREDENTIALS.values()
    options = f"url={endpoint},endpoint={REGION},use_path_request_style,retries=1,multipart_size=5"

    @contextlib.contextmanager
    def mount():
        at = tmp_path / "mount"
        at.mkdir(exist_ok=True)
        command = ["s3fs", f"{LIVE}:/{prefix}".rstrip("/"), str(at), "-f", "-o", options]
        process = subprocess.Popen(command, env=environment)
        try:
            await_mount(at, process)
            yield at
        finally:
            if at.is_mount():
                subprocess.run(["fusermount", "-u", str(at)], check=True)
            process.terminate()
            process.wait(timeout=HANGS_AFTER_SECONDS)

    return mount


def await_mount(at, process):
    deadline = time.monotonic() + HANGS_AFTER_SECONDS
    while not at.is_mount():
        assert process.poll() is None, f"s3fs ended with code {process.poll()}"
        assert time.monotonic() < deadline, f"s3fs has mounted nothing in {HANGS_AFTER_SECONDS} s"
        time.sleep(0.05)


@pytest.fixture
def files(data):
    sizes = {"a": 0, "b c": 9_000, "d/e+ü": 100_000, "d/large": 12 * MIB + 1}
    return {name: data(size) for name, size in sizes.items()}


def read(at):
    return {str(path.relative_to(at)): path.read_bytes() for path in at.rglob("*") if path.is_file()}


def test_a_mount_shows_what_is_there_and_a_second_one_from_the_cache(
    mount, origin, prefix, files, asks_nothing
):
    origin.s3.put_object(Bucket=LIVE, Key=prefix, Body=b"", ContentType="application/x-directory")
    for name, body in files.items():
        origin.s3.put_object(Bucket=LIVE, Key=prefix + name, Body=body)
    with mount() as at:
        assert read(at) == files
    with asks_nothing(), mount() as at:
        assert read(at) == files


def test_what_is_written_in_one_mount_is_there_in_the_next(mount, origin, s3, prefix, files):
    origin.s3.put_object(Bucket=LIVE, Key=prefix, Body=b"", ContentType="application/x-directory")
    with mount() as at:
        (at / "d").mkdir()
        for name, body in files.items():
            (at / name).write_bytes(body)
        (at / "a").rename(at / "renamed")
        (at / "b c").write_bytes(b"anew")
        (at / "d/e+ü").unlink()
    with mount() as at:
        assert read(at) == {"renamed": b"", "b c": b"anew", "d/large": files["d/large"]}
    for name in ("b c", "d/large"):
        body = s3.get_object(Bucket=LIVE, Key=prefix + name)["Body"].read()
        assert body == origin.s3.get_object(Bucket=LIVE, Key=prefix + name)["Body"].read()
