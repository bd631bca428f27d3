"""moto as the origin: an S3 in Python that knows checksums, and checks no signature."""

import shutil
import sys
import tempfile
from pathlib import Path

import processes

STARTS_WITHIN_SECONDS = 60


class Moto:
    """A running moto server."""

    API_NAME = ""

    def __init__(self):
        self._dir = Path(tempfile.mkdtemp(prefix="forebay-moto-"))
        self._daemons = processes.Daemons(self._dir)
        self.endpoint = None

    def __enter__(self):
        try:
            (port,) = processes.free_ports(1)
            command = [sys.executable, "-B", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            self._daemons.start(command)
            processes.wait_for_port(port, STARTS_WITHIN_SECONDS, self._daemons)
        except BaseException:
            self.__exit__()
            raise
        self.endpoint = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_):
        self._daemons.stop()
        shutil.rmtree(self._dir)
