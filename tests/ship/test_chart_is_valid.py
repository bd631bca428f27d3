"""The chart by the judgement of others: helm, the schemas of Kubernetes, kube-score."""

import json

import pytest
from chart import CHART, EXAMPLES, LEAST, NEWEST, RELEASE

# What kube-score wants and we do not do, and why.
ALLOWED = {
    "container-resource-requests-equal-limits": "page cache counts as memory: the limit is above what is needed",
    "container-cpu-requests-equal-limits": "a limit of CPU would stall reads while the node is idle",
    "container-memory-requests-equal-limits": "as container-resource-requests-equal-limits",
    "container-image-pull-policy": "tags are those of releases, and digests can be given",
    "container-ephemeral-storage-request-and-limit": "nothing is written but to volumes; an emptyDir has its own limit",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_helm_lint_has_nothing_against_it(tools, example):
    said = tools.output_of("helm", "lint", "--strict", CHART, "-f", CHART / "examples" / f"{example}.yaml")
    assert "[WARNING]" not in said and "[ERROR]" not in said


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_object_follows_the_newest_schemas(tools, chart, schema_files, tmp_path, example):
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(chart.text(example))
    where = f"{schema_files}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    said = tools.output_of(
        "kubeconform", "-strict", "-output", "json", "-summary", "-schema-location", where, rendered
    )
    counts = json.loads(said)["summary"]
    assert counts == {"valid": len(chart.example(example).all), "invalid": 0, "errors": 0, "skipped": 0}


def test_a_field_that_kubernetes_does_not_know_is_found(tools, schema_files, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {internalTraficPolicy: Local}\n")
    where = f"{schema_files}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = tools.run("kubeconform", "-strict", "-schema-location", where, wrong)
    assert done.returncode != 0 and "internalTraficPolicy" in done.stdout + done.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_kube_score_finds_only_what_is_allowed(tools, chart, tmp_path, example):
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(chart.text(example))
    options = ["--kubernetes-version", "v" + NEWEST.rsplit(".", 1)[0], "--output-format", "json"]
    options += ["--all-default-optional", "--ignore-container-cpu-limit"]
    findings = [
        (item["object_name"], check["check"]["id"], [comment["summary"] for comment in check["comments"]])
        for item in json.loads(tools.run("kube-score", "score", *options, rendered).stdout)
        for check in item["checks"]
        if not check["skipped"] and check["grade"] < 10
    ]
    assert {check for _, check, _ in findings} - set(ALLOWED) == set(), findings


def test_what_is_allowed_is_still_found(tools, chart, tmp_path):
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(chart.text("gpu-node-pool"))
    options = ["--output-format", "json", "--all-default-optional", "--ignore-container-cpu-limit"]
    items = json.loads(tools.run("kube-score", "score", *options, rendered).stdout)
    found = {check["check"]["id"] for item in items for check in item["checks"] if check["grade"] < 10}
    assert set(ALLOWED) <= found, "take what is no longer found out of the list"


def test_required_values_are_two(chart):
    """With a region, where the origin is AWS itself."""
    assert "auth" in chart.refusal({})
    assert "buckets" in chart.refusal({"origin.auth": "anonymous", "origin.endpoint": "http://s3:9000"})
    assert chart.least(origin__endpoint="http://s3:9000").all


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"origin.secretAccessKey": "hunter2"}, "secretAccessKey"),
        ({"origin.accessKeyId": "AKIA"}, "accessKeyId"),
        ({"clients.secret": "hunter2"}, "secret"),
        ({"cluster.secret": "hunter2"}, "secret"),
        ({"worker.env": {"AWS_SECRET_ACCESS_KEY": "hunter2"}}, "AWS_SECRET_ACCESS_KEY"),
        ({"origin.auth": "literal"}, "auth"),
        ({"origin.auth": "irsa"}, "roleArn"),
        ({"origin.auth": "existingSecret"}, "existingSecret"),
        ({"origin.endpoint": "https://user@s3"}, "endpoint"),
        ({"origin.region": ""}, "region"),
        ({"worker.disks": []}, "disks"),
        ({"worker.disks": [{"hostPath": "/a", "emptyDir": {"sizeLimit": "1Gi"}}]}, "disks"),
        ({"worker.disks": [{"emptyDir": {}}]}, "sizeLimit"),
        ({"worker.disks": [{"persistentVolumeClaim": {"size": "1Gi"}}]}, "StatefulSet"),
        ({"worker.kind": "Deployment"}, "kind"),
        ({"meta.replicas": 2}, "replicas"),
        ({"image.tag": "latest"}, "tag"),
        ({"buckets": [{"name": "train", "freshness": "eternal"}]}, "freshness"),
        ({"wroker.kind": "DaemonSet"}, "wroker"),
    ],
)
def test_a_wrong_value_is_refused_by_name(chart, settings, complaint):
    said = chart.refusal(LEAST | settings)
    assert complaint in said
    assert "hunter2" not in said


def test_the_chart_says_which_kubernetes_it_wants(tools):
    command = ["template", RELEASE, CHART, "-f", CHART / "examples/trial.yaml"]
    done = tools.run("helm", *command, "--kube-version", "1.31.0")
    assert done.returncode != 0 and "kubeVersion" in done.stderr
