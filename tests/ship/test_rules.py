"""Recording rules, alerts and dashboard, without a running cluster: by promtool and by their text."""

import json
import re

import pytest
import yaml
from chart import CHART
from promql import (
    alerts,
    dashboard,
    dashboard_expressions,
    help_in_the_source,
    metrics_in,
    metrics_in_the_source,
    panels,
    recording_rules,
)
from tools import ROOT

CASES = yaml.safe_load((ROOT / "tests/ship/alert_cases.yaml").read_text())
RULE_FILES = [str(CHART / "rules" / name) for name in ("recording.yaml", "alerts.yaml")]
MOST_ALERTS = 12


def test_promtool_has_nothing_against_the_rules(tools):
    tools.output_of("promtool", "check", "rules", *RULE_FILES)


@pytest.mark.parametrize("outcome", ["fires", "silent"])
@pytest.mark.parametrize("case", CASES)
def test_an_alert(tools, tmp_path, case, outcome):
    """Looked at in the series that Prometheus itself writes of alerts."""
    alert, at = case.split()[0], CASES[case]["at"]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if outcome == "fires" else []
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in CASES[case][outcome].items()],
        "promql_expr_test": [{
            "expr": f'count by (alertname) (ALERTS{{alertname="{alert}", alertstate="firing"}})',
            "eval_time": at,
            "exp_samples": expected,
        }],
    }  # fmt: skip
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": RULE_FILES, "evaluation_interval": "1m", "tests": [test]}))
    tools.output_of("promtool", "test", "rules", file)


def test_every_alert_has_a_case():
    assert {case.split()[0] for case in CASES} == set(alerts())
    assert all(set(case) == {"at", "fires", "silent"} for case in CASES.values())


def test_alerts_are_few_and_each_says_what_to_do():
    assert len(alerts()) <= MOST_ALERTS
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("page", "warn"), name
        assert rule["annotations"]["summary"] and len(rule["annotations"]["runbook"]) > 60, name


@pytest.mark.parametrize("source", ["recording rules", "alerts", "dashboard"])
def test_only_metrics_that_are_recorded_are_named(source):
    expressions = {
        "recording rules": list(recording_rules().values()),
        "alerts": [rule["expr"] for rule in alerts().values()],
        "dashboard": [expression for _, expression in dashboard_expressions()],
    }[source]
    named = {metric for expression in expressions for metric in metrics_in(expression)}
    assert named and named <= metrics_in_the_source(), named - metrics_in_the_source()


def test_every_metric_has_a_text_of_help():
    """Also those that a healthy cluster never records, and no page of one can show."""
    texts = help_in_the_source()
    written_by_hand = {name for name in metrics_in_the_source() if name.startswith("forebay_app_")}
    assert set(texts) == metrics_in_the_source() - written_by_hand
    for name, text in texts.items():
        assert re.fullmatch(r"[A-Z1].+\.", text), name
        unit = name.removesuffix("_total").split("_")[-1]
        assert unit not in ("seconds", "bytes") or text.startswith(unit.capitalize()), name


def test_recorded_names_are_those_of_the_rules():
    recorded = set(recording_rules())
    expressions = [rule["expr"] for rule in alerts().values()] + [text for _, text in dashboard_expressions()]
    named = {name for text in expressions for name in re.findall(r"forebay:[a-z0-9_:]+", text)}
    assert named and named <= recorded


def test_every_panel_says_what_it_shows():
    titles = [panel["title"] for panel in panels()]
    assert len(titles) == len(set(titles)) > 30
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]


def test_no_panel_lies_over_another():
    taken = set()
    for panel in dashboard()["panels"]:
        grid = panel["gridPos"]
        columns = range(grid["x"], grid["x"] + grid["w"])
        cells = {(x, y) for x in columns for y in range(grid["y"], grid["y"] + grid["h"])}
        assert not cells & taken and columns.stop <= 24, panel["title"]
        taken |= cells


def test_the_dashboard_can_be_narrowed_to_a_cluster_a_bucket_and_a_job():
    names = [variable["name"] for variable in dashboard()["templating"]["list"]]
    assert names == ["datasource", "forebay", "bucket", "app"]
    for _, expression in dashboard_expressions():
        assert "forebay=~" in expression, expression
    assert "localhost" not in json.dumps(dashboard())
