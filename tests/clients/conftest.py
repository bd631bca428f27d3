"""The world of each test: an origin, a worker in front of it, clients that reach the worker.

FOREBAY_BIN names the binary. With FOREBAY_CLIENTS_DIRECT=1 the clients reach the origin itself
and nothing is cached: what fails then is the test or the client, not Forebay.
"""

import contextlib
import itertools
import os
import random
import re

import boto3
import origin as origin_server
import pytest
import requests
import worker as worker_process
from botocore.config import Config
from worker import FIXED, LIVE

DIRECT = os.environ.get("FOREBAY_CLIENTS_DIRECT") == "1"

PLACES = itertools.count(1)

# A request that fails is a failure here, not something to be hidden by another try.
NO_RETRIES = {"total_max_attempts": 1}

# No test waits for time to pass; a program that says nothing for so long has hung.
HANGS_AFTER_SECONDS = 120


def http(method, url, **kwargs):
    """A request by no S3 client at all."""
    return requests.request(method, url, timeout=HANGS_AFTER_SECONDS, **kwargs)


def pytest_report_header():
    return "endpoint: " + ("the origin itself, nothing is cached" if DIRECT else "a worker")


@pytest.fixture(scope="session")
def origin():
    server = origin_server.Origin.start()
    for bucket in (LIVE, FIXED):
        server.s3.create_bucket(Bucket=bucket)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def endpoint(origin):
    """Where the clients go."""
    if DIRECT:
        yield origin.endpoint
        return
    worker = worker_process.Worker.start(os.environ["FOREBAY_BIN"], origin.endpoint)
    yield worker.endpoint
    assert worker.stop() == 0, "the worker ends cleanly on SIGTERM"


@pytest.fixture(scope="session")
def connect(endpoint):
    """Makes a boto3 client of the worker; `config` goes to botocore."""

    def connect(credentials=worker_process.CREDENTIALS, **config):
        config = Config(**{"retries": NO_RETRIES, **config})
        region = origin_server.REGION
        return boto3.client("s3", endpoint_url=endpoint, region_name=region, config=config, **credentials)

    return connect


@pytest.fixture(scope="session")
def s3(connect):
    return connect()


@pytest.fixture
def prefix(request):
    """A place in the buckets that is this test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{name}-{next(PLACES)}/"


@pytest.fixture
def data():
    """Bytes that differ at every offset and from one seed to the next."""
    return lambda size, seed=0: random.Random(f"{size} {seed}").randbytes(size)


@pytest.fixture
def asks_nothing(origin):
    """A `with` in which no request for an object may reach the origin."""

    @contextlib.contextmanager
    def asks_nothing():
        with origin.asked() as asked:
            yield
        assert DIRECT or [request for request in asked if request.is_for_an_object] == []

    return asks_nothing
