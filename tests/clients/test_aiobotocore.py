"""aiobotocore through a worker: botocore under asyncio, many requests at once over one pool."""

import asyncio

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError
from conftest import NO_RETRIES
from origin import REGION
from worker import CREDENTIALS, FIXED, LIVE

MIB = 1024 * 1024


@pytest.fixture
def with_client(endpoint):
    """Runs `work(client)` to its end; its result."""

    async def connected(work):
        config = AioConfig(retries=NO_RETRIES)
        connect = get_session().create_client(
            "s3", endpoint_url=endpoint, region_name=REGION, config=config, **CREDENTIALS
        )
        async with connect as client:
            return await work(client)

    return lambda work: asyncio.run(connected(work))


async def get(client, key, bucket=LIVE, **kwargs):
    answer = await client.get_object(Bucket=bucket, Key=key, **kwargs)
    async with answer["Body"] as body:
        return await body.read()


@pytest.mark.parametrize("bucket", [LIVE, FIXED])
def test_many_objects_are_read_at_once_and_the_second_time_from_the_cache(
    with_client, origin, asks_nothing, prefix, data, bucket
):
    bodies = {f"{prefix}sample {n}": data(100_000 + n, n) for n in range(24)}
    for key, body in bodies.items():
        origin.s3.put_object(Bucket=bucket, Key=key, Body=body)

    async def read_all(client):
        return await asyncio.gather(*(get(client, key, bucket) for key in bodies))

    assert with_client(read_all) == list(bodies.values())
    with asks_nothing():
        assert with_client(read_all) == list(bodies.values())


def test_one_object_is_read_in_ranges_at_once(with_client, origin, asks_nothing, prefix, data):
    body, key = data(12 * MIB + 1), prefix + "object"
    origin.s3.put_object(Bucket=LIVE, Key=key, Body=body)

    async def read(client):
        ranges = [f"bytes={start}-{start + MIB - 1}" for start in range(0, len(body), MIB)]
        return b"".join(await asyncio.gather(*(get(client, key, Range=part) for part in ranges)))

    assert with_client(read) == body
    with asks_nothing():
        assert with_client(read) == body


def test_a_body_that_is_streamed_in_pieces_is_whole(with_client, origin, prefix, data):
    body, key = data(3 * MIB + 7), prefix + "object"
    origin.s3.put_object(Bucket=LIVE, Key=key, Body=body)

    async def read(client):
        answer = await client.get_object(Bucket=LIVE, Key=key)
        async with answer["Body"] as stream:
            return b"".join([piece async for piece in stream.iter_chunks(10_000)])

    assert with_client(read) == body


def test_what_is_written_in_parts_is_what_the_next_read_sees(with_client, origin, prefix, data):
    pieces, key = [data(5 * MIB, 1), data(5 * MIB, 2), data(99)], prefix + "object"
    here = {"Bucket": LIVE, "Key": key}

    async def write_and_read(client):
        await client.put_object(**here, Body=b"older")
        assert await get(client, key) == b"older"
        upload = {"UploadId": (await client.create_multipart_upload(**here))["UploadId"]}
        done = await asyncio.gather(
            *(
                client.upload_part(**here, **upload, PartNumber=n, Body=piece)
                for n, piece in enumerate(pieces, 1)
            )
        )
        parts = [{"PartNumber": n, "ETag": part["ETag"]} for n, part in enumerate(done, 1)]
        await client.complete_multipart_upload(**here, **upload, MultipartUpload={"Parts": parts})
        return await get(client, key)

    body = b"".join(pieces)
    assert with_client(write_and_read) == body
    assert origin.s3.get_object(**here)["Body"].read() == body


def test_a_list_is_paged_through_and_what_is_deleted_is_gone(with_client, prefix):
    keys = [f"{prefix}{n:02}" for n in range(25)]

    async def work(client):
        await asyncio.gather(*(client.put_object(Bucket=LIVE, Key=key, Body=b"x") for key in keys))
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=LIVE, Prefix=prefix, PaginationConfig={"PageSize": 7}
        )
        listed = [entry["Key"] async for page in pages for entry in page["Contents"]]
        assert await get(client, keys[0]) == b"x"
        await client.delete_object(Bucket=LIVE, Key=keys[0])
        with pytest.raises(ClientError, match="NoSuchKey"):
            await get(client, keys[0])
        return listed

    assert with_client(work) == keys
