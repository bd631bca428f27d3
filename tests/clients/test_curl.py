"""curl through a worker: what signs with no SDK at all, and never tries twice."""

import pytest
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024
UNSIGNED = ("-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD")


@pytest.fixture
def curl(run):
    """Runs a signed `curl ARGS` that fails on an error status; its standard output."""
    keys = ":".join(CREDENTIALS.values())
    signed = ("--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", keys, *UNSIGNED)
    return lambda *args, stdin=None: run(
        "curl", "--silent", "--show-error", "--fail", *signed, *args, stdin=stdin
    )


@pytest.fixture
def url(endpoint, prefix):
    return lambda name: f"{endpoint}/{LIVE}/{prefix}{name}"


@pytest.fixture
def put(curl, url):
    """Writes an object from standard input, which is no web form although curl would call it one."""
    send = ("--request", "PUT", "--data-binary", "@-", "-H", "content-type: application/octet-stream")
    return lambda name, body, *args: curl(*send, *args, url(name), stdin=body)


@pytest.mark.parametrize("size", [0, 100_000, 12 * MIB + 1])
def test_what_is_put_is_read_and_the_second_time_from_the_cache(
    curl, url, origin, asks_nothing, prefix, data, tmp_path, size
):
    body = data(size)
    (tmp_path / "up").write_bytes(body)
    # Above one MiB curl asks whether it may send the body (Expect: 100-continue).
    curl("--upload-file", str(tmp_path / "up"), url("an%20object"))
    assert origin.s3.get_object(Bucket=LIVE, Key=prefix + "an object")["Body"].read() == body
    assert curl(url("an%20object")) == body
    with asks_nothing():
        assert curl(url("an%20object")) == body


@pytest.mark.parametrize(
    "asked, wanted",
    [("0-99", slice(0, 100)), ("-5000", slice(-5000, None)), ("90000-200000", slice(90_000, None))],
)
def test_a_range_is_read_exactly_and_the_second_time_from_the_cache(
    curl, url, origin, asks_nothing, prefix, data, asked, wanted
):
    body = data(100_000)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    assert curl("--range", asked, url("object")) == body[wanted]
    with asks_nothing():
        assert curl("--range", asked, url("object")) == body[wanted]


def test_a_download_goes_on_where_it_stopped(curl, url, origin, asks_nothing, prefix, data, tmp_path):
    body = data(300_000)
    origin.s3.put_object(Bucket=LIVE, Key=prefix + "object", Body=body)
    assert curl(url("object")) == body
    (tmp_path / "half").write_bytes(body[:123_456])
    with asks_nothing():
        curl("--continue-at", "-", "--output", str(tmp_path / "half"), url("object"))
    assert (tmp_path / "half").read_bytes() == body


def test_an_object_that_is_still_the_same_is_not_sent_again(curl, put, url, asks_nothing, tmp_path):
    put("object", b"x")
    etags = str(tmp_path / "etags")
    assert curl("--etag-save", etags, url("object")) == b"x"
    with asks_nothing():
        assert curl("--etag-compare", etags, url("object")) == b""


def test_head_says_what_get_says(curl, put, url, asks_nothing):
    put("object", b"12345", "-H", "x-amz-meta-label: 7")
    curl(url("object"))
    with asks_nothing():
        head = curl("--head", url("object")).decode().lower()
    assert "content-length: 5" in head
    assert "x-amz-meta-label: 7" in head


def test_a_list_names_what_was_put(curl, put, endpoint, prefix):
    put("one", b"x")
    # curl signs the query as it is given, so it has to be in order and encoded.
    query = "list-type=2&prefix=" + prefix.replace("/", "%2F")
    assert f"<Key>{prefix}one</Key>" in curl(f"{endpoint}/{LIVE}?{query}").decode()


def test_what_is_deleted_is_gone_although_it_was_cached(curl, put, url):
    put("object", b"x")
    assert curl(url("object")) == b"x"
    curl("--request", "DELETE", url("object"))
    with pytest.raises(AssertionError, match="404"):
        curl(url("object"))
