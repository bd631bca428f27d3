"""boto3 through a worker: every way to read, and every way to write that must be seen."""

import pytest
from botocore.exceptions import ClientError
from worker import FIXED, LIVE

MIB = 1024 * 1024


def fails_with(code):
    """The call is refused with this S3 code, or with this status where no body says a code."""
    return pytest.raises(ClientError, match=rf"\({code}\)")


def get(s3, key, bucket=LIVE, **kwargs):
    return s3.get_object(Bucket=bucket, Key=key, **kwargs)["Body"].read()


def seed(origin, key, body, bucket=LIVE, **kwargs):
    return origin.s3.put_object(Bucket=bucket, Key=key, Body=body, **kwargs)


# --- Reading


@pytest.mark.parametrize("bucket", [LIVE, FIXED])
@pytest.mark.parametrize("size", [0, 1, 100 * 1024, 3 * MIB + 7, 17 * MIB + 1])
def test_an_object_is_read_exactly_and_the_second_time_from_the_cache(
    s3, origin, asks_nothing, prefix, data, bucket, size
):
    body, key = data(size), prefix + "object"
    seed(origin, key, body, bucket)
    assert get(s3, key, bucket) == body
    with asks_nothing():
        assert get(s3, key, bucket) == body


def test_a_cold_small_object_costs_the_origin_one_request(s3, origin, prefix, data):
    key = prefix + "object"
    seed(origin, key, data(100_000))
    with origin.asked() as asked:
        get(s3, key)
    assert [request.method for request in asked if request.is_for_an_object] == ["GET"]


def test_an_answer_has_the_headers_of_the_origin(s3, origin, prefix, data):
    key = prefix + "object"
    about = {"ContentType": "image/webp", "Metadata": {"label": "7"}, "CacheControl": "no-store"}
    seed(origin, key, data(70_000), **about)
    kept = ["ETag", "LastModified", "ContentLength", "AcceptRanges", *about]
    direct = origin.s3.head_object(Bucket=LIVE, Key=key)
    for ask in (s3.head_object, s3.get_object, s3.head_object, s3.get_object):
        answer = ask(Bucket=LIVE, Key=key)
        assert {name: answer[name] for name in kept} == {name: direct[name] for name in kept}


RANGES = {
    "0-0": slice(0, 1),
    "0-99": slice(0, 100),
    "65535-65536": slice(65535, 65537),
    "1000-250000": slice(1000, 250_001),
    "299999-": slice(299_999, None),
    "123456-": slice(123_456, None),
    "-1": slice(-1, None),
    "-70000": slice(-70_000, None),
    "-900000": slice(None),
    "0-8388607": slice(None),
    "200000-52428799": slice(200_000, None),
}


@pytest.mark.parametrize("asked", RANGES)
def test_a_range_is_read_exactly_and_the_second_time_from_the_cache(
    s3, origin, asks_nothing, prefix, data, asked
):
    body, key = data(300_000), prefix + "object"
    seed(origin, key, body)
    first, end, _ = RANGES[asked].indices(len(body))

    def read():
        answer = s3.get_object(Bucket=LIVE, Key=key, Range=f"bytes={asked}")
        assert answer["Body"].read() == body[first:end]
        assert answer["ContentLength"] == end - first
        assert answer["ContentRange"] == f"bytes {first}-{end - 1}/{len(body)}"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206

    read()
    with asks_nothing():
        read()


def test_a_range_beyond_the_end_is_refused(s3, origin, prefix, data):
    key = prefix + "object"
    seed(origin, key, data(1000))
    for _cold_then_warm in range(2):
        with fails_with("InvalidRange"):
            get(s3, key, Range="bytes=1000-")
        assert len(get(s3, key)) == 1000


def test_any_range_of_a_cached_object_comes_from_the_cache(s3, origin, asks_nothing, prefix, data):
    body, key = data(2 * MIB), prefix + "object"
    seed(origin, key, body)
    assert get(s3, key) == body
    with asks_nothing():
        for first in range(0, 2 * MIB, 300_001):
            assert get(s3, key, Range=f"bytes={first}-{first + 70_000}") == body[first : first + 70_001]


def test_head_is_answered_from_the_cache_once_the_object_was_read(
    s3, origin, asks_nothing, prefix, data
):
    key = prefix + "object"
    etag = seed(origin, key, data(1000))["ETag"]
    get(s3, key)
    with asks_nothing():
        assert s3.head_object(Bucket=LIVE, Key=key)["ETag"] == etag


def test_what_is_not_there_is_not_found(s3, prefix):
    for _twice in range(2):
        with fails_with("NoSuchKey"):
            get(s3, prefix + "nothing")
        with fails_with("404"):
            s3.head_object(Bucket=LIVE, Key=prefix + "nothing")


def test_the_transfer_manager_downloads_in_parallel_parts(s3, origin, asks_nothing, prefix, data, tmp_path):
    body, key = data(40 * MIB + 5), prefix + "object"
    seed(origin, key, body, FIXED)
    s3.download_file(FIXED, key, str(tmp_path / "first"))
    assert (tmp_path / "first").read_bytes() == body
    with asks_nothing():
        s3.download_file(FIXED, key, str(tmp_path / "second"))
    assert (tmp_path / "second").read_bytes() == body


KEYS = [
    "a b", "a+b", "a%2Fb", "a//b", "a/../b", "./a", "a/", "ü/日本語", "a&b=c?d#e", "(a)'b'!*~", "%", "a\tb",
]  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_taken_literally(s3, origin, asks_nothing, prefix, name):
    key, body = prefix + name, name.encode()
    s3.put_object(Bucket=LIVE, Key=key, Body=body)
    assert get(origin.s3, key) == body
    assert get(s3, key) == body
    with asks_nothing():
        assert get(s3, key) == body
    listed = s3.list_objects_v2(Bucket=LIVE, Prefix=prefix)["Contents"]
    assert [entry["Key"] for entry in listed] == [key]


# --- Listing


def test_lists_of_both_versions_are_those_of_the_origin(s3, origin, prefix):
    for name in ("a", "b/1", "b/2", "c d", "e+f", "g/"):
        seed(origin, prefix + name, b"x")
    asks = [
        {"Prefix": prefix},
        {"Prefix": prefix, "Delimiter": "/"},
        {"Prefix": prefix, "Delimiter": ""},
        {"Prefix": prefix, "MaxKeys": 2},
        {"Prefix": prefix + "none/", "MaxKeys": 1},
        {"Prefix": prefix, "EncodingType": "url"},
    ]
    parts = ("Contents", "CommonPrefixes", "IsTruncated", "KeyCount")
    for ask in asks:
        for verb in ("list_objects", "list_objects_v2"):
            through = getattr(s3, verb)(Bucket=LIVE, **ask)
            direct = getattr(origin.s3, verb)(Bucket=LIVE, **ask)
            assert {p: through.get(p) for p in parts} == {p: direct.get(p) for p in parts}, (verb, ask)


def test_a_long_list_is_paged_through(s3, origin, prefix):
    keys = [f"{prefix}{number:03}" for number in range(25)]
    for key in keys:
        seed(origin, key, b"")
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=LIVE, Prefix=prefix, PaginationConfig={"PageSize": 10}
    )
    pages = [[entry["Key"] for entry in page["Contents"]] for page in pages]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert sum(pages, []) == keys


def test_the_bucket_is_there_and_another_is_not(s3):
    s3.head_bucket(Bucket=LIVE)
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket="no-such-bucket")


# --- Writing: after each write the next read sees it


@pytest.mark.parametrize("size", [0, 1, 5 * MIB])
def test_what_is_written_reaches_the_origin_and_the_next_read(s3, origin, prefix, data, size):
    key = prefix + "object"
    for version in range(3):
        body = data(size, version)
        put = s3.put_object(Bucket=LIVE, Key=key, Body=body, Metadata={"version": str(version)})
        answer = s3.get_object(Bucket=LIVE, Key=key)
        assert answer["Body"].read() == body == get(origin.s3, key)
        assert answer["ETag"] == put["ETag"]
        assert answer["Metadata"] == {"version": str(version)}


def test_what_was_read_right_after_a_write_stays_cached(s3, asks_nothing, prefix, data):
    body = data(100_000)
    for number in range(50):
        key = f"{prefix}{number}"
        s3.put_object(Bucket=LIVE, Key=key, Body=body)
        assert get(s3, key) == body
        with asks_nothing():
            assert get(s3, key) == body


def test_a_large_file_is_uploaded_in_parts(s3, origin, asks_nothing, prefix, data, tmp_path):
    key = prefix + "object"
    s3.put_object(Bucket=LIVE, Key=key, Body=b"older")
    assert get(s3, key) == b"older"
    body = data(20 * MIB + 3)
    (tmp_path / "file").write_bytes(body)
    s3.upload_file(str(tmp_path / "file"), LIVE, key)
    assert get(s3, key) == body == get(origin.s3, key)
    assert s3.head_object(Bucket=LIVE, Key=key)["ETag"].endswith('-3"')
    with asks_nothing():
        assert get(s3, key) == body


def test_a_multipart_upload_can_be_driven_by_hand(s3, origin, prefix, data):
    key = prefix + "object"
    here = {"Bucket": LIVE, "Key": key}
    here["UploadId"] = s3.create_multipart_upload(**here)["UploadId"]
    pieces = [data(5 * MIB, seed) for seed in range(2)] + [data(99, 9)]
    parts = [
        {"PartNumber": n, "ETag": s3.upload_part(**here, PartNumber=n, Body=piece)["ETag"]}
        for n, piece in enumerate(pieces, 1)
    ]
    assert [part["Size"] for part in s3.list_parts(**here)["Parts"]] == [5 * MIB, 5 * MIB, 99]
    with fails_with("NoSuchKey"):
        get(s3, key)
    s3.complete_multipart_upload(**here, MultipartUpload={"Parts": parts})
    assert get(s3, key) == b"".join(pieces) == get(origin.s3, key)


def test_an_aborted_multipart_upload_changes_nothing(s3, prefix, data):
    key = prefix + "object"
    s3.put_object(Bucket=LIVE, Key=key, Body=b"stays")
    here = {"Bucket": LIVE, "Key": key}
    upload = s3.create_multipart_upload(**here)["UploadId"]
    s3.upload_part(**here, UploadId=upload, PartNumber=1, Body=data(5 * MIB))
    s3.abort_multipart_upload(**here, UploadId=upload)
    assert get(s3, key) == b"stays"
    with fails_with("NoSuchUpload"):
        s3.list_parts(**here, UploadId=upload)


def test_a_copy_is_seen_where_something_else_was_read_before(s3, origin, prefix, data):
    source, target = prefix + "from here", prefix + "to"
    s3.put_object(Bucket=LIVE, Key=source, Body=data(90_000), Metadata={"is": "kept"})
    s3.put_object(Bucket=LIVE, Key=target, Body=b"older")
    assert get(s3, target) == b"older"
    s3.copy_object(Bucket=LIVE, Key=target, CopySource={"Bucket": LIVE, "Key": source})
    answer = s3.get_object(Bucket=LIVE, Key=target)
    assert answer["Body"].read() == data(90_000) == get(origin.s3, target)
    assert answer["Metadata"] == {"is": "kept"}


def test_a_part_can_be_copied_from_another_object(s3, prefix, data):
    body, source, key = data(6 * MIB), prefix + "source", prefix + "object"
    s3.put_object(Bucket=LIVE, Key=source, Body=body)
    here = {"Bucket": LIVE, "Key": key}
    here["UploadId"] = s3.create_multipart_upload(**here)["UploadId"]
    copied = s3.upload_part_copy(
        **here, PartNumber=1, CopySource={"Bucket": LIVE, "Key": source}, CopySourceRange="bytes=5-5242884"
    )
    part = {"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}
    s3.complete_multipart_upload(**here, MultipartUpload={"Parts": [part]})
    assert get(s3, key) == body[5:5242885]


def test_what_is_deleted_is_gone_although_it_was_cached(s3, prefix):
    key = prefix + "object"
    s3.put_object(Bucket=LIVE, Key=key, Body=b"x")
    assert get(s3, key) == b"x"
    s3.delete_object(Bucket=LIVE, Key=key)
    with fails_with("NoSuchKey"):
        get(s3, key)
    with fails_with("404"):
        s3.head_object(Bucket=LIVE, Key=key)


def test_many_are_deleted_in_one_request(s3, prefix):
    keys = [f"{prefix}{number} <&>" for number in range(12)]
    for key in keys:
        s3.put_object(Bucket=LIVE, Key=key, Body=b"x")
        assert get(s3, key) == b"x"
    doomed = keys[:-1]
    answer = s3.delete_objects(Bucket=LIVE, Delete={"Objects": [{"Key": key} for key in doomed]})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == sorted(doomed)
    for key in doomed:
        with fails_with("NoSuchKey"):
            get(s3, key)
    assert get(s3, keys[-1]) == b"x"


def test_an_object_that_was_missing_is_found_once_it_is_written(s3, prefix):
    key = prefix + "object"
    with fails_with("NoSuchKey"):
        get(s3, key)
    s3.put_object(Bucket=LIVE, Key=key, Body=b"now")
    assert get(s3, key) == b"now"


def test_tags_pass_through(s3, origin, prefix):
    here = {"Bucket": LIVE, "Key": prefix + "object"}
    s3.put_object(**here, Body=b"x")
    tags = [{"Key": "split", "Value": "train + test"}]
    s3.put_object_tagging(**here, Tagging={"TagSet": tags})
    assert s3.get_object_tagging(**here)["TagSet"] == tags == origin.s3.get_object_tagging(**here)["TagSet"]


# --- Conditions


def test_a_condition_on_a_cached_object_is_decided_by_the_cache(s3, origin, asks_nothing, prefix, data):
    key, body = prefix + "object", data(1000)
    etag = seed(origin, key, body)["ETag"]
    assert get(s3, key) == body
    modified = s3.head_object(Bucket=LIVE, Key=key)["LastModified"]
    with asks_nothing():
        assert get(s3, key, IfMatch=etag) == body
        assert get(s3, key, IfNoneMatch='"other"') == body
        with fails_with("304"):
            get(s3, key, IfNoneMatch=etag)
        with fails_with("304"):
            get(s3, key, IfModifiedSince=modified)
        with fails_with("304"):
            s3.head_object(Bucket=LIVE, Key=key, IfNoneMatch=etag)


def test_if_match_on_another_version_fails(s3, origin, prefix, data):
    key = prefix + "object"
    seed(origin, key, data(1000))
    for _cold_then_warm in range(2):
        with fails_with("PreconditionFailed"):
            get(s3, key, IfMatch='"other"')
        with fails_with("PreconditionFailed"):
            get(s3, key, IfMatch='"other"', Range="bytes=0-9")
        assert len(get(s3, key)) == 1000


def test_a_cold_conditional_read_is_decided_by_the_origin(s3, origin, prefix):
    key = prefix + "object"
    etag = seed(origin, key, b"x")["ETag"]
    with fails_with("304"):
        get(s3, key, IfNoneMatch=etag)
    assert get(s3, key, IfMatch=etag) == b"x"


def test_of_two_creations_the_first_stands(s3, prefix):
    here = {"Bucket": LIVE, "Key": prefix + "manifest"}
    s3.put_object(**here, Body=b"first", IfNoneMatch="*")
    with fails_with("PreconditionFailed"):
        s3.put_object(**here, Body=b"second", IfNoneMatch="*")
    assert get(s3, here["Key"]) == b"first"
