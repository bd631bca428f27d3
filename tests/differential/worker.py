"""Forebay in front of the origin: one worker, with a key for each of s3-tests' users.

Each of them may do everything here, because who may do what is the origin's to say in these
tests; and the origin is always asked as the main user, since a bucket rule has one identity.
"""

import os
import shutil
import tempfile
from pathlib import Path

import processes
import users

STARTS_WITHIN_SECONDS = 60

# What is known of an object stands for longer than any run takes: what is read a second time
# is a hit, and no test depends on how fast it is.
CONFIG = """
[worker]
listen = "127.0.0.1:{port}"
admin_listen = "127.0.0.1:{admin_port}"

[[disk]]
path = "{dir}/cache"
capacity = "2GiB"

[[bucket]]
name = "*"
origin = "{origin}"
region = "us-east-1"
credentials = "static"
access_key_id = "{access_key}"
secret_key_file = "{dir}/origin.secret"
freshness = "bounded"
bound_seconds = 86400
"""

KEY = """
[[auth.key]]
id = "{id}"
secret_file = "{secret_file}"
grants = [{{ bucket = "*", read = true, write = true, list = true }}]
"""


class Worker:
    """A running worker with an empty cache."""

    def __init__(self, binary, origin_endpoint):
        self._binary = binary
        self._origin = origin_endpoint
        self._dir = Path(tempfile.mkdtemp(prefix="forebay-differential-"))
        self._daemons = processes.Daemons(self._dir)
        self.endpoint = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._daemons.stop()
            raise
        return self

    def __exit__(self, *_):
        self._daemons.stop()
        shutil.rmtree(self._dir)

    def _start(self):
        port, admin_port = processes.free_ports(2)
        config = self._dir / "forebay.toml"
        config.write_text(
            CONFIG.format(
                dir=self._dir, port=port, admin_port=admin_port, origin=self._origin,
                access_key=users.MAIN.access_key,
            )
            + "".join(self._key(user) for user in users.EVERYBODY)
        )  # fmt: skip
        self._secret("origin", users.MAIN.secret_key)
        (self._dir / "cache").mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._dir)}
        self._daemons.start([self._binary, "serve", "--config", str(config)], env=environment)
        processes.wait_for_port(port, STARTS_WITHIN_SECONDS, self._daemons)
        self.endpoint = f"http://127.0.0.1:{port}"

    def _key(self, user):
        path = self._secret(user.uid, user.secret_key)
        return KEY.format(id=user.access_key, secret_file=path)

    def _secret(self, name, secret):
        path = self._dir / f"{name}.secret"
        path.touch(mode=0o600)
        path.write_text(secret)
        return path
