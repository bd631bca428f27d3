"""A real Prometheus over a running demo: what we ship returns data."""

import math
import re

import pytest
from cluster import PROCESSES, Demo, Prometheus, metrics_page
from processes import get
from promql import alerts, dashboard_expressions, recording_rules

# What a small set never makes happen: no block is evicted.
NEVER_OBSERVED = {"Age at eviction, half"}

# Of a worker that nobody asked for anything unusual. OPERATIONS: at most 5,000 a worker.
MOST_SERIES = 5_000

# Names of jobs that have series of their own; the rest are one.
MOST_APPS = 64


@pytest.fixture(scope="module")
def demo(forebay):
    with Demo(forebay) as demo:
        yield demo


@pytest.fixture(scope="module")
def prometheus(tools, demo, tmp_path_factory):
    with Prometheus(tools, tmp_path_factory.mktemp("prometheus"), demo.admin) as prometheus:
        all_up = lambda: prometheus.query("sum(up)") == [({}, PROCESSES)]  # noqa: E731
        prometheus.wait_for(all_up, "a scrape of every process")
        # Samples before, in between and after, so that every counter has a rate.
        for turn in range(2):
            demo.read_and_write(turn)
            demo.read_from_disk(turn)
            # The series of a job begin with its first read, and have no rate before the second sample.
            of_each_worker = lambda: len(prometheus.query("forebay_app_first_byte_seconds_count")) == len(demo.workers)  # noqa: E731
            prometheus.wait_for(of_each_worker, "the job at every worker")
        demo.change_the_ring()
        yield prometheus


def has_data(prometheus, expression):
    return len(prometheus.query(expression)) > 0


@pytest.mark.parametrize(("name", "expression"), list(recording_rules().items()), ids=list(recording_rules()))
def test_a_recording_rule_returns_data(prometheus, name, expression):
    prometheus.wait_for(lambda: has_data(prometheus, name), name)
    assert {labels["bucket"] for labels, _ in prometheus.query(name)} == {"demo"}
    assert all(math.isfinite(value) for _, value in prometheus.query(expression))


def test_hit_ratios_are_ratios(prometheus):
    for name in recording_rules():
        if "ratio" in name:
            prometheus.wait_for(lambda name=name: has_data(prometheus, name), name)
            assert all(0 <= value <= 1 for _, value in prometheus.query(name)), name


@pytest.mark.parametrize(("panel", "expression"), list(dashboard_expressions()))
def test_a_dashboard_expression_returns_data(prometheus, panel, expression):
    def holds():
        values = [value for _, value in prometheus.query(expression)]
        return values and (panel in NEVER_OBSERVED or any(map(math.isfinite, values)))

    prometheus.wait_for(holds, f"{panel}: {expression}")


def test_a_healthy_cluster_pages_nobody(prometheus):
    firing = {labels["alertname"] for labels, _ in prometheus.query('ALERTS{alertstate="firing"}')}
    assert firing & {name for name, rule in alerts().items() if rule["labels"]["severity"] == "page"} == set()


def test_prometheus_evaluates_every_rule(prometheus):
    prometheus.wait_for(lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()), "an evaluation")
    health = {rule["name"]: rule["health"] for rule in prometheus.rules()}
    assert health == dict.fromkeys([*recording_rules(), *alerts()], "ok")


def test_promtool_finds_nothing_wrong_with_the_metrics(tools, demo, prometheus):
    """Names, types, units, and a text of help for each."""
    for admin in demo.admin:
        page = metrics_page(admin)
        assert tools.run("promtool", "check", "metrics", input=page).stderr == ""


def test_a_thousand_jobs_and_buckets_do_not_make_a_thousand_series(open_worker):
    """Both are chosen by clients: a job by its User-Agent, a bucket by its path."""
    url = f"{open_worker.s3}/train/images/00000000"
    for number in range(1_000):
        status, _, _ = get(url, {"User-Agent": f"Boto3/1.43 md/Botocore#1.43 app/job-{number}"})
        assert status == 200
        assert get(f"{open_worker.s3}/bucket-{number}/key")[0] == 404
    page = metrics_page(open_worker.admin.removeprefix("http://"))
    series = [line for line in page.splitlines() if line and not line.startswith("#")]
    assert len(series) < MOST_SERIES
    # Histograms of few operations, and ten series of each job: far from the cap.
    assert len(series) < 1_000
    assert "bucket-7" not in page
    apps = set(re.findall(r'app="([^"]+)"', page))
    assert apps == {f"job-{number}" for number in range(MOST_APPS)} | {"other"}
    rest = f'forebay_app_first_byte_seconds_count{{app="other"}} {1_000 - MOST_APPS}'
    assert rest in series
