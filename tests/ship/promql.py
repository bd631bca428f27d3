"""Every expression that we ship, and what it names."""

import json
import re

import yaml
from chart import CHART
from tools import ROOT

# As in the rules: a slow machine has scraped often enough by then, and not forgotten the traffic.
TEST_RANGE = "5m"

METRIC = re.compile(r"\bforebay_[a-z_]+\b")
OF_A_FAMILY = re.compile(r'name: "(forebay_[a-z_]+)"')
DESCRIBED = re.compile(r'describe_(?:counter|gauge|histogram)!\(\s*"(forebay_[a-z_]+)",\s*"(.+)"')
OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def recording_rules():
    """name -> expression."""
    return {rule["record"]: rule["expr"] for rule in rules("recording.yaml")}


def alerts():
    """name -> rule."""
    return {rule["alert"]: rule for rule in rules("alerts.yaml")}


def rules(name):
    text = (CHART / "rules" / name).read_text()
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((CHART / "dashboards/forebay.json").read_text())


def panels():
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def dashboard_expressions():
    """(panel, expression) with Grafana's variables filled in."""
    fill = {"$__rate_interval": TEST_RANGE, "$__range": TEST_RANGE, "$forebay": ".*", "$bucket": ".*", "$app": ".*"}
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in fill.items():
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            yield panel["title"], expression


def metrics_in(expression):
    """The metrics that an expression names, without what a histogram adds to its name."""
    return {OF_A_HISTOGRAM.sub("", name) for name in METRIC.findall(without_recorded(expression))}


def without_recorded(expression):
    """Recorded names have a colon: `forebay:served_bytes:rate5m`."""
    return re.sub(r"\bforebay:[a-z0-9_:]+", "", expression)


def metrics_in_the_source():
    """Names that the crates record: the only ones that may be used."""
    names = set()
    for file in (ROOT / "crates").glob("*/src/**/*.rs"):
        names |= set(re.findall(r'\b(?:counter|gauge|histogram)!\(\s*"(forebay_[a-z_]+)"', file.read_text()))
        # Where a function is handed the name.
        names |= set(re.findall(r'of\("(forebay_[a-z_]+)"', file.read_text()))
        # Those that are written on the page by hand.
        names |= set(re.findall(OF_A_FAMILY, file.read_text()))
    return names


def help_in_the_source():
    """name -> text of help, of what is described to the recorder."""
    files = (ROOT / "crates").glob("*/src/**/*.rs")
    return dict(found for file in files for found in DESCRIBED.findall(file.read_text()))
