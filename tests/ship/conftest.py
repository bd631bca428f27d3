"""What the tests of chart, dashboard, image and documents share.

FOREBAY_BIN names the binary. FOREBAY_SHIP_TOOLS names a directory with helm, kubeconform,
kube-score, prometheus and promtool in bin/, and the published schemas; on a machine without Go it
is absent, and what needs it is not run.
"""

import os
import pathlib

import pytest
import schemas
from chart import Chart
from processes import Origin, Worker
from tools import Tools


@pytest.fixture(scope="session")
def forebay():
    """The binary under test."""
    return pathlib.Path(os.environ["FOREBAY_BIN"])


@pytest.fixture(scope="session")
def tools():
    if "FOREBAY_SHIP_TOOLS" not in os.environ:
        pytest.skip("there is no Go to build helm, kubeconform and kube-score with")
    return Tools(pathlib.Path(os.environ["FOREBAY_SHIP_TOOLS"]))


@pytest.fixture(scope="session")
def chart(tools):
    return Chart(tools)


@pytest.fixture(scope="session")
def schema_files(tools, tmp_path_factory):
    directory = tmp_path_factory.mktemp("schemas")
    schemas.write(tools.schemas, directory)
    return directory


@pytest.fixture(scope="session")
def origin(forebay):
    """An S3 origin that lets everybody in, with objects in the bucket `train`."""
    with Origin(forebay) as origin:
        yield origin


@pytest.fixture
def open_worker(forebay, origin, tmp_path):
    """A worker that serves everybody, in front of every bucket of the origin."""
    arguments = ["--origin", origin.endpoint, "--bucket", "*", "--anonymous-origin", "--auth", "none"]
    with Worker(forebay, tmp_path, arguments) as worker:
        yield worker
