"""The world of each test: an origin, a worker in front of it, clients that reach the worker.

FOREBAY_BIN names the binary. With FOREBAY_CLIENTS_DIRECT=1 the clients reach the origin itself
and nothing is cached: what fails then is the test or the client, not Forebay.
"""

import contextlib
import itertools
import os
import random
import re
import subprocess
import sys
from pathlib import Path

# Where another package brings the AWS runtime, boto3 would sign with that and not by itself.
os.environ["BOTO_DISABLE_CRT"] = "true"

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

# Where programs are: those that came with the Python packages before those of the system.
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


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
def worker(origin):
    """The worker, or nothing where clients reach the origin itself."""
    if DIRECT:
        yield None
        return
    worker = worker_process.Worker.start(os.environ["FOREBAY_BIN"], origin.endpoint)
    yield worker
    assert worker.stop() == 0, "the worker ends cleanly on SIGTERM"


@pytest.fixture(scope="session")
def endpoint(origin, worker):
    """Where the clients go."""
    return worker.endpoint if worker else origin.endpoint


@pytest.fixture
def over_tls(worker, environment):
    """Sends clients to the worker's TLS port, and tells them whom to trust; its endpoint."""
    if not worker:
        pytest.skip("the origin has no TLS")
    environment["AWS_ENDPOINT_URL"] = worker.https
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        environment[name] = str(worker.certificate)
    return worker.https


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
def environment(endpoint, tmp_path):
    """All that a client has to be told, in the variables that most of them read."""
    return {
        "PATH": PATH,
        "HOME": str(tmp_path / "home"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": origin_server.REGION,
        "AWS_REGION": origin_server.REGION,
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        **{name.upper(): value for name, value in worker_process.CREDENTIALS.items()},
    }


@pytest.fixture
def in_environment(environment, monkeypatch):
    """Tells the same to clients in this process and to the workers that they fork."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Path(environment["HOME"]).mkdir()


@pytest.fixture
def run(environment):
    """Runs a program as in a shell with an empty home; its standard output."""

    def run(*command, stdin=None):
        result = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, timeout=HANGS_AFTER_SECONDS
        )
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout

    return run


@pytest.fixture
def prefix(request):
    """A place in the buckets that is this test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{name}-{next(PLACES)}/"


@pytest.fixture
def url(prefix):
    """Where an object of this test is, as most clients write it."""
    return lambda name: f"s3://{LIVE}/{prefix}{name}"


@pytest.fixture
def data():
    """Bytes that differ at every offset and from one seed to the next."""
    return lambda size, seed=0: random.Random(f"{size} {seed}").randbytes(size)


@pytest.fixture
def asks_nothing(origin):
    """A `with` in which no request for an object may reach the origin.

    Without a worker in between some have to: a client that remembers by itself proves nothing.
    """

    @contextlib.contextmanager
    def asks_nothing():
        with origin.asked() as asked:
            yield
        for_objects = [request for request in asked if request.is_for_an_object]
        if DIRECT:
            assert for_objects != [], "the client asked nothing at all"
        else:
            assert for_objects == []

    return asks_nothing
