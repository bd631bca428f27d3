"""The chart, rendered as `helm` does it for a cluster of the newest Kubernetes."""

import functools
import json

import yaml
from tools import ROOT

CHART = ROOT / "helm/forebay"
EXAMPLES = sorted(path.stem for path in (CHART / "examples").glob("*.yaml"))

NEWEST = "1.36.3"
# Without a node-local preference of cluster-wide services.
OLDER = "1.32.0"
MONITORING = ("monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule")

RELEASE, NAMESPACE = "fb", "ml"
# Of names in this release.
FULL = "fb-forebay"

# The least that has to be said.
LEAST = {"origin.auth": "anonymous", "origin.region": "us-east-1", "buckets[0].name": "train"}


class Chart:
    """Renders it; the same question is asked of helm once."""

    def __init__(self, tools):
        self._tools = tools
        self._text = functools.cache(self._render)

    def example(self, name, kubernetes=NEWEST):
        return Objects(self._text((), name, kubernetes, MONITORING))

    def least(self, kubernetes=NEWEST, apis=MONITORING, **settings):
        """With the required values, and `settings`: `worker__kind="StatefulSet"`."""
        given = {name.replace("__", "."): value for name, value in settings.items()}
        return Objects(self._text(arguments(least_with(given)), None, kubernetes, apis))

    def of_directory(self, directory):
        """Another chart, with the required values."""
        command = ["template", RELEASE, directory, "-n", NAMESPACE, "--kube-version", NEWEST, *arguments(LEAST)]
        return Objects(self._tools.output_of("helm", *command))

    def text(self, name):
        """An example as helm prints it."""
        return self._text((), name, NEWEST, MONITORING)

    def refusal(self, settings):
        """What helm says against these values, alone."""
        done = self._tools.run("helm", "template", RELEASE, CHART, *arguments(settings))
        assert done.returncode != 0, "helm rendered what it should have refused"
        return done.stderr

    def notes(self, **settings):
        given = {name.replace("__", "."): value for name, value in settings.items()}
        # Without a cluster, helm shows the notes only of a release that it pretends to install.
        command = ["install", RELEASE, CHART, "--dry-run=client", "-n", NAMESPACE]
        text = self._tools.output_of("helm", *command, *arguments(least_with(given)))
        return text.split("NOTES:")[1]

    def _render(self, settings, example, kubernetes, apis):
        command = ["template", RELEASE, CHART, "-n", NAMESPACE, "--kube-version", kubernetes]
        for api in apis:
            command += ["--api-versions", api]
        if example:
            command += ["-f", CHART / "examples" / f"{example}.yaml"]
        return self._tools.output_of("helm", *command, *settings)


class Objects:
    """What was rendered, to be asked by kind and name."""

    def __init__(self, text):
        self.all = [item for item in yaml.safe_load_all(text) if item]

    def find(self, kind, name):
        found = [item for item in self.all if (item["kind"], item["metadata"]["name"]) == (kind, name)]
        assert len(found) == 1, f"{len(found)} of {kind} {name} among {self.names()}"
        return found[0]

    def names(self):
        return [f"{item['kind']}/{item['metadata']['name']}" for item in self.all]

    def of_kind(self, kind):
        return [item for item in self.all if item["kind"] == kind]

    def worker(self):
        return next(
            item for item in self.all
            if item["kind"] in ("DaemonSet", "StatefulSet") and item["metadata"]["name"] == f"{FULL}-worker"
        )  # fmt: skip

    def meta(self):
        return self.find("StatefulSet", f"{FULL}-meta")

    def pods(self):
        """Every pod that the chart makes: (name, spec)."""
        for item in self.all:
            if item["kind"] == "Pod":
                yield item["metadata"]["name"], item["spec"]
            elif item["kind"] in ("DaemonSet", "StatefulSet", "Job"):
                yield item["metadata"]["name"], item["spec"]["template"]["spec"]

    def config(self):
        return self.find("ConfigMap", FULL)["data"]["forebay.toml"]


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def container_of(workload):
    return pod_of(workload)["containers"][0]


def environment(container):
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def arguments(settings):
    """`--set` for each; values of other types than text as JSON, so that lists can be given."""
    words = []
    for name, value in settings.items():
        is_text = isinstance(value, str)
        words += ["--set", f"{name}={value}"] if is_text else ["--set-json", f"{name}={json.dumps(value)}"]
    return tuple(words)


def least_with(given):
    """The required values and those; a list of buckets replaces the one bucket."""
    return {name: value for name, value in LEAST.items() if "buckets" not in given or "bucket" not in name} | given
