"""Processes that the tests start and end: the binary's origin, workers, whatever else listens."""

import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.parse

# Long enough for a machine that does much else meanwhile.
STARTS_WITHIN_SECONDS = 120
ENDS_WITHIN_SECONDS = 60

SIZE_BYTES = 100 << 10
# 64 objects, named train/images/00000000 and on.
OBJECTS = {
    "bucket": "train", "prefix": "images/", "count": 64,
    "size_min_bytes": SIZE_BYTES, "size_max_bytes": SIZE_BYTES,
}  # fmt: skip


class Process(contextlib.AbstractContextManager):
    """A program that says in a line of its output that it is there."""

    def __init__(self, command, announcement, environment=None):
        environment = {"PATH": os.environ["PATH"], "AWS_EC2_METADATA_DISABLED": "true"} | (environment or {})
        self.process = subprocess.Popen(
            [str(word) for word in command], env=environment, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines = []
        self._arriving = queue.SimpleQueue()
        # To its end, so that a full pipe never stops it.
        threading.Thread(target=self._read, daemon=True).start()
        self.announced = self._wait_for(announcement)

    def _read(self):
        for line in self.process.stdout:
            self._arriving.put(line.rstrip("\n"))
        self._arriving.put(None)

    def _wait_for(self, announcement):
        """The match in the line that announces it."""
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        with contextlib.suppress(queue.Empty):
            while (line := self._arriving.get(timeout=max(0, deadline - time.monotonic()))) is not None:
                self.lines.append(line)
                if found := re.search(announcement, line):
                    return found
        self.end()
        raise AssertionError(f"{self.process.args} did not say {announcement!r}:\n" + "\n".join(self.lines))

    def end(self):
        """Ends it as an operator would; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def __exit__(self, *_):
        self.end()


class Origin(Process):
    """The S3 origin of the demo, on loopback, open to everybody."""

    def __init__(self, forebay):
        config = {"anonymous": True, "patterns": [OBJECTS]}
        command = [forebay, "demo-origin", "--config", json.dumps(config)]
        super().__init__(command, r"(http://\S+)")
        self.endpoint = self.announced[1]


class Worker(Process):
    """`forebay serve` on free ports of loopback."""

    def __init__(self, forebay, directory, arguments, environment=None):
        cache = pathlib.Path(directory) / "cache"
        cache.mkdir(exist_ok=True)
        command = [
            forebay, "serve", "--cache-dir", cache, "--capacity", "1GiB",
            "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *arguments,
        ]  # fmt: skip
        super().__init__(command, r"listening s3=(\S+) admin=(\S+)", environment)
        self.s3, self.admin = self.announced[1], self.announced[2]


def get(url, headers=None):
    """Status, headers and body of a GET."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=STARTS_WITHIN_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
