"""The worker under test: `forebay serve` as a process of its own, in front of the origin."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import certificate
import origin

# A client that reaches the worker signs with these; the worker itself signs with the origin's.
CREDENTIALS = {"aws_access_key_id": "client-key", "aws_secret_access_key": "client-secret"}

CERTIFICATE = "certificate.pem"

# Objects here may change, and what is known of one stands for longer than any test runs, so
# that no test depends on how fast it is.
LIVE = "live-bucket"
# Objects here never change.
FIXED = "fixed-bucket"

CONFIG = """
[worker]
tls_listen = "127.0.0.1:0"
tls_certificate_file = "{certificate}"
tls_key_file = "{key}"

[[bucket]]
name = "{live}"
origin = "{origin}"
freshness = "bounded"
bound_seconds = 86400

[[bucket]]
name = "{fixed}"
origin = "{origin}"
freshness = "immutable"
"""


class Worker:
    """A running worker and where it listens."""

    def __init__(self, process, endpoint, https, directory):
        self.endpoint = endpoint
        self.https = https
        self.certificate = directory / CERTIFICATE
        self._process = process
        self._directory = directory

    @classmethod
    def start(cls, binary, origin_endpoint):
        directory = Path(tempfile.mkdtemp(prefix="forebay-clients-"))
        config = directory / "forebay.toml"
        pair = directory / CERTIFICATE, directory / "key.pem"
        certificate.write(*pair)
        names = {"live": LIVE, "fixed": FIXED, "certificate": pair[0], "key": pair[1]}
        config.write_text(CONFIG.format(origin=origin_endpoint, **names))
        command = [
            binary, "serve", "--config", str(config), "--cache-dir", str(directory / "cache"),
            "--capacity", "1GiB", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
        ]  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "FOREBAY_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
            "FOREBAY_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
            "AWS_ACCESS_KEY_ID": origin.CREDENTIALS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": origin.CREDENTIALS["aws_secret_access_key"],
            "AWS_REGION": origin.REGION,
        }
        (directory / "cache").mkdir()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if listening := re.search(r"\bs3=(http://\S+).* s3-tls=(https://\S+)", line):
                return cls(process, *listening.groups(), directory)
        raise RuntimeError(f"the worker ended at start with code {process.wait()}: {command}")

    def stop(self):
        """Ends it as an operator would; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=60)
        shutil.rmtree(self._directory)
        return code
