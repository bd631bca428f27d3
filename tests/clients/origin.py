"""The origin behind the worker: moto's S3 as a process of its own, with a request log.

Every request is written to the log before it is answered. So once a client has its answer, all
that was asked of the origin for it can be counted, without waiting for anything.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import boto3
from botocore.config import Config

CREDENTIALS = {"aws_access_key_id": "origin-key", "aws_secret_access_key": "origin-secret"}
REGION = "us-east-1"


@dataclass(frozen=True)
class Asked:
    """One request that reached the origin."""

    method: str
    target: str

    @property
    def is_for_an_object(self):
        path = self.target.partition("?")[0]
        return len(path.strip("/").split("/")) > 1


class Origin:
    """A running origin, a client that reaches it directly, and what it was asked."""

    def __init__(self, process, endpoint, log_path):
        self.endpoint = endpoint
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, region_name=REGION, config=Config(retries={"total_max_attempts": 1}),
            **CREDENTIALS,
        )
        self._process = process
        self._log_path = log_path

    @classmethod
    def start(cls):
        log = tempfile.NamedTemporaryFile("w", prefix="forebay-origin-", suffix=".log", delete=False)
        log.close()
        process = subprocess.Popen(
            [sys.executable, "-B", __file__, log.name], stdout=subprocess.PIPE, text=True
        )
        endpoint = process.stdout.readline().strip()
        if not endpoint:
            raise RuntimeError(f"the origin ended at start with code {process.wait()}")
        return cls(process, endpoint, log.name)

    def stop(self):
        self._process.terminate()
        self._process.wait()
        os.unlink(self._log_path)

    @contextlib.contextmanager
    def asked(self):
        """The requests that arrive inside the `with`: a list that is filled at its end."""
        requests = []
        before = len(self._log())
        yield requests
        requests.extend(self._log()[before:])

    def _log(self):
        with open(self._log_path, encoding="utf-8") as log:
            return [Asked(**json.loads(line)) for line in log]


def serve(log_path):
    """The child process: says where it listens, then serves until it is ended."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    app = DomainDispatcherApplication(create_backend_app)
    log = open(log_path, "a", encoding="utf-8", buffering=1)

    def logged(environ, start_response):
        request = Asked(environ["REQUEST_METHOD"], environ["REQUEST_URI"])
        log.write(json.dumps(vars(request)) + "\n")
        return app(environ, start_response)

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_):
            pass

    server = make_server("127.0.0.1", 0, logged, threaded=True, request_handler=Quiet)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
