"""A running `forebay demo`, and a Prometheus that scrapes all of its processes."""

import json
import os
import pathlib
import re
import time
import urllib.parse

from chart import CHART
from processes import STARTS_WITHIN_SECONDS, Process, get
from tools import output_of

PORT_OF_METRICS = re.compile(r'^admin_listen = "(.+)"$', re.MULTILINE)
PROCESSES = 6

# Often, because the tests wait for a few scrapes, and not so often that a busy machine misses them.
SCRAPE = "2s"


class Demo(Process):
    """Three workers and three voters that have read three epochs, and stay up."""

    def __init__(self, forebay):
        # Without --dir, it finds a place on a disk by itself.
        super().__init__([forebay, "demo", "--keep", "--objects", "300", "--shards", "1"], r"^stop: Ctrl-C")
        self._forebay = forebay
        text = "\n".join(self.lines)
        self.workers = re.search(r"^endpoints (.+?)   bucket", text, re.MULTILINE)[1].split()
        self.environment = dict(re.findall(r"\b(AWS_[A-Z0-9_]+)=(\S+)", text))
        self.status = re.search(r"^forebay (status .+)$", text, re.MULTILINE)[1]
        self.ring_show = re.search(r"^forebay (ring show .+)$", text, re.MULTILINE)[1]
        self._control = self.ring_show.split()[2:]
        self._directory = pathlib.Path(self._control[-1]).parent
        files = self._directory.glob("*.toml")
        self.admin = sorted(PORT_OF_METRICS.search(file.read_text())[1] for file in files)
        assert len(self.admin) == PROCESSES, self.admin

    def read_and_write(self, turn):
        """The chart's own test through each worker: a write, a miss, a hit."""
        for number in range(len(self.workers)):
            self._read_twice(number, {"NEW_OBJECT": f"new-{turn}-{number}"})

    def read_from_disk(self, turn):
        """Objects that are cached, and not in memory any more, through each worker."""
        for file in self._directory.glob("worker-*/segments/*"):
            with file.open("rb") as segment:
                os.fsync(segment.fileno())
                os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for number in range(len(self.workers)):
            self._read_twice(number, {"OBJECT": f"images/{turn:08}"})

    def _read_twice(self, number, settings):
        host = urllib.parse.urlsplit(self.workers[number]).hostname
        env = {"PATH": "/usr/bin:/bin", "HOST": host, "BUCKET": "demo", "AWS_SDK_UA_APP_ID": "first-hit"} | self.environment | settings
        output_of(["sh", CHART / "scripts/first-hit.sh"], env=env)

    def change_the_ring(self):
        """A worker leaves and comes back: commands that the voters commit."""
        worker = urllib.parse.urlsplit(self.workers[-1]).hostname + ":9100"
        for verb in ("drain", "undrain"):
            output_of([self._forebay, "ring", verb, worker, *self._control])


class Prometheus(Process):
    """Prometheus over some admin ports, with the rules of the chart."""

    def __init__(self, tools, directory, targets):
        config = {
            "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": SCRAPE},
            "rule_files": [str(CHART / "rules/*.yaml")],
            "scrape_configs": [{
                "job_name": "forebay",
                "static_configs": [{"targets": targets, "labels": {"forebay": "test/demo"}}],
            }],
        }  # fmt: skip
        file = directory / "prometheus.yaml"
        file.write_text(json.dumps(config))
        command = [
            tools.path("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={directory}/data",
            "--web.listen-address=127.0.0.1:0",
        ]  # fmt: skip
        super().__init__(command, "Server is ready to receive web requests")
        self.address = re.search(r'msg="Listening on" address=(\S+)', "\n".join(self.lines))[1]

    def query(self, expression):
        """The result now: a list of (labels, value)."""
        found = self._ask("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return [(item["metric"], float(item["value"][1])) for item in found]

    def rules(self):
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def _ask(self, what):
        answer = json.loads(get(f"http://{self.address}/api/v1/{what}")[2])
        assert answer["status"] == "success", (what, answer)
        return answer["data"]

    def wait_for(self, holds, what):
        """Until it holds: a few scrapes, unless something is wrong."""
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not come in {STARTS_WITHIN_SECONDS} s"
            time.sleep(0.5)


def metrics_page(admin):
    status, _, body = get(f"http://{admin}/metrics")
    assert status == 200
    return body.decode()
