"""Clients of several SDKs over the worker's TLS port, with a certificate that they check."""

import boto3
import obstore
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError
from conftest import NO_RETRIES
from obstore.store import S3Store
from origin import REGION
from worker import CREDENTIALS, LIVE

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [0, 100_000, 20 * MIB + 3])
def test_boto3_writes_and_reads_and_the_second_time_from_the_cache(
    over_tls, worker, origin, asks_nothing, prefix, data, tmp_path, size
):
    trusted = {"verify": str(worker.certificate), "config": Config(retries=NO_RETRIES), **CREDENTIALS}
    s3 = boto3.client("s3", endpoint_url=over_tls, region_name=REGION, **trusted)
    body, key = data(size), prefix + "object"
    (tmp_path / "up").write_bytes(body)
    # Over TLS the body goes unsigned, in chunks with a checksum behind them.
    s3.upload_file(str(tmp_path / "up"), LIVE, key)
    assert origin.s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body
    assert s3.get_object(Bucket=LIVE, Key=key)["Body"].read() == body
    with asks_nothing():
        s3.download_file(LIVE, key, str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == body


def test_a_client_that_does_not_know_the_certificate_is_not_served(over_tls):
    s3 = boto3.client(
        "s3", endpoint_url=over_tls, region_name=REGION, config=Config(retries=NO_RETRIES), **CREDENTIALS
    )
    with pytest.raises(SSLError):
        s3.head_bucket(Bucket=LIVE)


def test_the_aws_command_line_writes_and_reads_and_the_second_time_from_the_cache(
    over_tls, run, asks_nothing, prefix, data
):
    body, url = data(9 * MIB), f"s3://{LIVE}/{prefix}object"
    run("aws", "s3", "cp", "-", url, stdin=body)
    assert run("aws", "s3", "cp", url, "-") == body
    with asks_nothing():
        assert run("aws", "s3", "cp", url, "-") == body


def test_obstore_writes_and_reads_and_the_second_time_from_the_cache(
    over_tls, in_environment, asks_nothing, prefix, data
):
    store = S3Store(LIVE, endpoint=over_tls, region=REGION, retry_config={"max_retries": 0}, **CREDENTIALS)
    body, key = data(12 * MIB + 1), prefix + "object"
    obstore.put(store, key, body)
    assert bytes(obstore.get(store, key).bytes()) == body
    with asks_nothing():
        assert bytes(obstore.get(store, key).bytes()) == body


def test_curl_writes_and_reads_and_the_second_time_from_the_cache(
    over_tls, run, asks_nothing, prefix, data, tmp_path
):
    body, url = data(3 * MIB), f"{over_tls}/{LIVE}/{prefix}object"
    (tmp_path / "up").write_bytes(body)
    signed = ("--aws-sigv4", f"aws:amz:{REGION}:s3", "--user", ":".join(CREDENTIALS.values()))
    curl = (
        "curl",
        "--silent",
        "--show-error",
        "--fail",
        *signed,
        "-H",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD",
    )
    run(*curl, "--upload-file", str(tmp_path / "up"), url)
    assert run(*curl, url) == body
    with asks_nothing():
        assert run(*curl, url) == body
