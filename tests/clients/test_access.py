"""Who may read: signatures and presigned URLs, checked on a hit exactly as on a miss."""

import pytest
from botocore import UNSIGNED
from botocore.exceptions import ClientError
from conftest import DIRECT, http
from worker import CREDENTIALS, LIVE

pytestmark = pytest.mark.skipif(DIRECT, reason="moto checks no signatures")

ACCESS_KEY = CREDENTIALS["aws_access_key_id"]
STRANGERS = {
    "InvalidAccessKeyId": {"aws_access_key_id": "nobody", "aws_secret_access_key": "x"},
    "SignatureDoesNotMatch": {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": "wrong"},
}
# boto3 signs a URL by the older scheme unless it is told otherwise.
SCHEMES = {"s3": "Signature=", "s3v4": "X-Amz-Signature="}


@pytest.fixture
def cached(s3, prefix, data):
    """The key of an object that is in the cache, and its bytes."""
    key, body = prefix + "an object", data(100_000)
    s3.put_object(Bucket=LIVE, Key=key, Body=body)
    assert s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body
    return key, body


@pytest.mark.parametrize("code", STRANGERS)
def test_a_stranger_gets_no_byte_of_a_cached_object(connect, cached, code):
    stranger = connect(credentials=STRANGERS[code])
    for ask in ({}, {"Range": "bytes=0-9"}):
        with pytest.raises(ClientError, match=code):
            stranger.get_object(Bucket=LIVE, Key=cached[0], **ask)
    with pytest.raises(ClientError, match="403"):
        stranger.head_object(Bucket=LIVE, Key=cached[0])


@pytest.mark.parametrize("code", STRANGERS)
def test_a_stranger_changes_and_lists_nothing(connect, s3, cached, code):
    stranger = connect(credentials=STRANGERS[code])
    key, body = cached
    for attempt in (
        lambda: stranger.put_object(Bucket=LIVE, Key=key, Body=b"changed"),
        lambda: stranger.delete_object(Bucket=LIVE, Key=key),
        lambda: stranger.list_objects_v2(Bucket=LIVE),
    ):
        with pytest.raises(ClientError, match=code):
            attempt()
    assert s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body


def test_who_signs_nothing_is_refused(connect, cached):
    anonymous = connect(signature_version=UNSIGNED)
    with pytest.raises(ClientError, match="AccessDenied"):
        anonymous.get_object(Bucket=LIVE, Key=cached[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_presigned_url_reads(connect, asks_nothing, cached, scheme):
    key, body = cached
    url = connect(signature_version=scheme).generate_presigned_url(
        "get_object", {"Bucket": LIVE, "Key": key}
    )
    assert SCHEMES[scheme] in url
    with asks_nothing():
        assert http("GET", url).content == body
        part = http("GET", url, headers={"Range": "bytes=-100"})
    assert (part.status_code, part.content) == (206, body[-100:])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_presigned_url_is_good_for_its_own_object_and_verb_alone(connect, cached, scheme):
    client = connect(signature_version=scheme)
    url = client.generate_presigned_url("get_object", {"Bucket": LIVE, "Key": cached[0]})
    assert http("GET", url.replace("/an%20object?", "/another?")).status_code == 403
    assert http("PUT", url, data=b"changed").status_code == 403
    assert http("DELETE", url).status_code == 403
    assert http("GET", url).content == cached[1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_presigned_url_ends(connect, cached, scheme):
    client = connect(signature_version=scheme)
    # It was over before it was signed, so nobody has to wait for it.
    url = client.generate_presigned_url("get_object", {"Bucket": LIVE, "Key": cached[0]}, ExpiresIn=-60)
    refused = http("GET", url)
    assert refused.status_code in (400, 403)
    assert cached[1][:16] not in refused.content


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_presigned_url_writes_and_the_next_read_sees_it(connect, s3, cached, scheme):
    key, _ = cached
    url = connect(signature_version=scheme).generate_presigned_url(
        "put_object", {"Bucket": LIVE, "Key": key}
    )
    assert http("PUT", url, data=b"by url").status_code == 200
    assert s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == b"by url"
