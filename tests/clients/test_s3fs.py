"""s3fs through a worker: what pandas, Hugging Face datasets and many loaders read with."""

import pytest
import s3fs
from conftest import NO_RETRIES
from origin import REGION
from worker import CREDENTIALS, FIXED, LIVE

MIB = 1024 * 1024


@pytest.fixture
def fs(endpoint):
    """A file system that remembers nothing itself, so that every question reaches the worker."""
    fs = s3fs.S3FileSystem(
        key=CREDENTIALS["aws_access_key_id"],
        secret=CREDENTIALS["aws_secret_access_key"],
        endpoint_url=endpoint,
        client_kwargs={"region_name": REGION},
        config_kwargs={"retries": NO_RETRIES},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    fs.retries = 1
    return fs


@pytest.fixture
def here(prefix):
    return f"{LIVE}/{prefix}"


@pytest.mark.parametrize("bucket", [LIVE, FIXED])
@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_a_file_is_read_exactly_and_the_second_time_from_the_cache(
    fs, origin, asks_nothing, prefix, data, bucket, size
):
    body = data(size)
    origin.s3.put_object(Bucket=bucket, Key=prefix + "object", Body=body)
    assert fs.cat(f"{bucket}/{prefix}object") == body
    with asks_nothing():
        assert fs.cat(f"{bucket}/{prefix}object") == body


def test_an_open_file_is_read_by_blocks_and_seeks(fs, origin, asks_nothing, prefix, here, data):
    body = data(3 * MIB)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)

    def read():
        with fs.open(here + "object", block_size=256 * 1024) as file:
            head = file.read(1000)
            file.seek(2 * MIB)
            middle = file.read(300_000)
            file.seek(-8, 2)
            return head, middle, file.read()

    wanted = body[:1000], body[2 * MIB : 2 * MIB + 300_000], body[-8:]
    assert read() == wanted
    with asks_nothing():
        assert read() == wanted


@pytest.mark.parametrize("start, end", [(0, 10), (5, 200_000), (199_990, None), (-10, None), (0, -5)])
def test_a_range_is_read_exactly_and_the_second_time_from_the_cache(
    fs, origin, asks_nothing, prefix, here, data, start, end
):
    body = data(200_000)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    assert fs.cat_file(here + "object", start=start, end=end) == body[start:end]
    with asks_nothing():
        assert fs.cat_file(here + "object", start=start, end=end) == body[start:end]


def test_many_ranges_are_read_at_once(fs, origin, prefix, here, data):
    bodies = {f"{here}{n}": data(150_000, n) for n in range(20)}
    for path, body in bodies.items():
        origin.s3.put_object(Bucket=LIVE, Key=path.partition("/")[2], Body=body)
    paths = list(bodies)
    parts = fs.cat_ranges(paths, [70_000] * 20, [80_000] * 20)
    assert parts == [bodies[path][70_000:80_000] for path in paths]
    assert fs.cat(paths) == bodies


def test_listings_and_questions_are_answered(fs, here):
    fs.pipe({here + name: b"x" * n for n, name in enumerate(["a", "b/1", "b/c/2"], 1)})
    assert fs.ls(here, detail=False) == [here + "a", here + "b"]
    assert fs.find(here) == [here + "a", here + "b/1", here + "b/c/2"]
    assert fs.glob(here + "*/1") == [here + "b/1"]
    assert fs.info(here + "b/c/2")["size"] == 3
    assert fs.isdir(here + "b") and not fs.isdir(here + "a")
    assert fs.exists(here + "a") and not fs.exists(here + "nothing")
    with pytest.raises(FileNotFoundError):
        fs.cat(here + "nothing")


def test_what_is_written_is_what_the_next_read_sees(fs, origin, prefix, here, data):
    for version in range(3):
        body = data(1000 + version, version)
        fs.pipe_file(here + "object", body)
        assert fs.cat(here + "object") == body
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")["Body"].read() == body


def test_a_large_file_is_written_in_parts(fs, origin, prefix, here, data):
    body = data(17 * MIB)
    fs.pipe_file(here + "object", b"older")
    assert fs.cat(here + "object") == b"older"
    with fs.open(here + "object", "wb", block_size=5 * MIB) as file:
        for start in range(0, len(body), MIB):
            file.write(body[start : start + MIB])
    assert fs.cat(here + "object") == body
    direct = origin.s3.get_object(Bucket=LIVE, Key=prefix + "object")
    assert direct["Body"].read() == body
    assert "-" in direct["ETag"]


def test_directories_go_up_and_down(fs, here, data, tmp_path):
    files = {f"d{n}/file {n}": data(1000, n) for n in range(4)}
    for name, body in files.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True)
        (tmp_path / "up" / name).write_bytes(body)
    fs.put(str(tmp_path / "up") + "/", here + "set/", recursive=True)
    fs.get(here + "set/", str(tmp_path / "down") + "/", recursive=True)
    assert {name: (tmp_path / "down" / name).read_bytes() for name in files} == files


def test_copies_moves_and_removals_are_seen(fs, here, data):
    body = data(70_000)
    fs.pipe_file(here + "one", body)
    fs.pipe_file(here + "two", b"older")
    assert fs.cat(here + "two") == b"older"
    fs.cp_file(here + "one", here + "two")
    assert fs.cat(here + "two") == body
    fs.mv(here + "two", here + "three")
    assert fs.cat(here + "three") == body
    assert not fs.exists(here + "two")
    fs.rm(here, recursive=True)
    assert fs.find(here) == []
    with pytest.raises(FileNotFoundError):
        fs.cat(here + "one")


def test_of_two_exclusive_creations_the_first_stands(fs, here):
    fs.pipe_file(here + "manifest", b"first", mode="create")
    with pytest.raises(FileExistsError):
        fs.pipe_file(here + "manifest", b"second", mode="create")
    assert fs.cat(here + "manifest") == b"first"
