"""What the chart renders, object by object: each test is a promise to an operator."""

import base64
import json
import shutil

import pytest
import yaml
from chart import CHART, EXAMPLES, FULL, NAMESPACE, OLDER, Objects, container_of, environment, pod_of

RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
# The worker closes its store within this time after draining.
CLOSE_SECONDS = 10


def test_workers_are_a_daemonset_unless_asked_otherwise(chart):
    assert chart.least().worker()["kind"] == "DaemonSet"
    assert chart.least(worker__kind="StatefulSet").worker()["kind"] == "StatefulSet"


def test_voters_are_a_statefulset_with_a_claim_each(chart):
    spec = chart.least().meta()["spec"]
    assert spec["replicas"] == 3
    assert spec["podManagementPolicy"] == "Parallel"
    claim = spec["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    mounts = {mount["name"]: mount["mountPath"] for mount in container_of(chart.least().meta())["volumeMounts"]}
    assert mounts[claim["metadata"]["name"]] == "/var/lib/forebay"


def test_a_voters_number_is_its_ordinal_and_begins_with_one(chart):
    meta = chart.least().meta()
    assert meta["spec"]["ordinals"] == {"start": 1}
    number = environment(container_of(meta))["FOREBAY_META_ID"]
    assert number == {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_every_voter_is_named_once_and_as_it_calls_itself(chart, replicas):
    rendered = chart.least(meta__replicas=replicas)
    values = environment(container_of(rendered.meta()))
    own = values["FOREBAY_META_ADVERTISE"]
    expected = [f"{n}=" + own.replace("$(POD_NAME)", f"{FULL}-meta-{n}") for n in range(1, replicas + 1)]
    assert values["FOREBAY_INITIAL_VOTERS"].split(",") == expected
    assert all(entry.split("=")[1] in rendered.config() for entry in expected)


def test_voters_find_each_other_before_they_are_ready(chart):
    service = chart.least().find("Service", f"{FULL}-meta")["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert chart.least().meta()["spec"]["serviceName"] == f"{FULL}-meta"


def test_voters_are_never_two_on_a_node_unless_asked(chart):
    hard = pod_of(chart.least().meta())["affinity"]["podAntiAffinity"]
    soft = pod_of(chart.least(meta__antiAffinity="soft").meta())["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in hard
    assert list(soft) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_voters_are_spread_over_zones(chart):
    spread = pod_of(chart.least().meta())["topologySpreadConstraints"]
    assert spread[0]["topologyKey"] == "topology.kubernetes.io/zone"


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_meets_the_restricted_standard(chart, example):
    for name, pod in chart.example(example).pods():
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] == 65532, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        for container in pod["containers"] + pod.get("initContainers", []):
            assert container["securityContext"] == RESTRICTED, name


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_pod_gets_a_token_or_the_addresses_of_services(chart, example):
    for name, pod in chart.example(example).pods():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["enableServiceLinks"] is False, name


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_container_has_requests_and_a_limit_of_memory(chart, example):
    for name, pod in chart.example(example).pods():
        for container in pod["containers"]:
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name


def test_root_runs_only_where_disks_are_to_be_given_away(chart):
    assert "initContainers" not in pod_of(chart.least().worker())
    chown = pod_of(chart.least(worker__chownDisks=True).worker())["initContainers"][0]
    assert chown["command"] == ["chown", "65532:65532", "/cache/0"]
    assert chown["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}


@pytest.mark.parametrize("workload", ["worker", "meta"])
def test_probes_ask_the_admin_port(chart, workload):
    container = container_of(getattr(chart.least(), workload)())
    assert {"name": "admin", "containerPort": 9600} in container["ports"]
    for probe, path in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]:
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}


def test_a_start_may_take_ten_minutes(chart):
    probe = container_of(chart.least().worker())["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600


@pytest.mark.parametrize("drain_seconds", [0, 25, 300])
def test_the_grace_period_holds_all_of_the_drain(chart, drain_seconds):
    rendered = chart.least(worker__drainSeconds=drain_seconds)
    pod = pod_of(rendered.worker())
    before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before == 5
    assert pod["terminationGracePeriodSeconds"] > before + drain_seconds + CLOSE_SECONDS
    assert f"drain_seconds = {drain_seconds}\n" in rendered.config()


def test_the_own_nodes_worker_has_a_service(chart):
    service = chart.least().find("Service", FULL)["spec"]
    assert service["internalTrafficPolicy"] == "Local"
    shared = chart.least(worker__kind="StatefulSet").find("Service", FULL)["spec"]
    assert shared["internalTrafficPolicy"] == "Cluster"


def test_any_worker_has_a_service_that_prefers_the_nearest(chart):
    name = f"{FULL}-any"
    assert chart.least().find("Service", name)["spec"]["trafficDistribution"] == "PreferSameNode"
    assert chart.least(OLDER).find("Service", name)["spec"]["trafficDistribution"] == "PreferClose"


def test_workers_have_a_headless_service(chart):
    service = chart.least().find("Service", f"{FULL}-peers")["spec"]
    assert service["clusterIP"] == "None"
    assert [port["port"] for port in service["ports"]] == [9100, 9600]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_service_selects_the_pods_that_have_its_ports(chart, example):
    rendered = chart.example(example)
    workloads = [rendered.worker(), rendered.meta()]
    for service in rendered.of_kind("Service"):
        selector = service["spec"]["selector"].items()
        chosen = [w for w in workloads if selector <= w["spec"]["template"]["metadata"]["labels"].items()]
        assert len(chosen) == 1, service["metadata"]["name"]
        names = {port["name"] for port in container_of(chosen[0])["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


@pytest.mark.parametrize(
    ("settings", "kubernetes", "service"),
    [
        ({}, "1.36.3", f"{FULL}-any"),
        ({}, OLDER, FULL),
        ({"worker__kind": "StatefulSet"}, OLDER, f"{FULL}-any"),
        ({"clients__service": "local"}, "1.36.3", FULL),
        ({"clients__service": "any"}, OLDER, f"{FULL}-any"),
    ],
)
def test_jobs_are_pointed_at_a_service_that_answers(chart, settings, kubernetes, service):
    rendered = chart.least(kubernetes, **settings)
    data = rendered.find("ConfigMap", f"{FULL}-client-env")["data"]
    assert data == {"AWS_ENDPOINT_URL_S3": f"http://{service}.{NAMESPACE}.svc:9000", "AWS_REGION": "us-east-1"}
    assert rendered.find("Service", service)["spec"]["ports"][0]["port"] == 9000


def test_secrets_are_drawn_and_kept(chart):
    one = chart.least().find("Secret", f"{FULL}-cluster")
    assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert len(base64.b64decode(one["data"]["cluster.secret"])) >= 32
    keys = chart.least().find("Secret", f"{FULL}-client-keys")
    assert set(keys["data"]) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    other = chart.least(OLDER).find("Secret", f"{FULL}-cluster")
    assert other["data"] != one["data"], "each installation has a secret of its own"


def test_secrets_that_exist_are_used_instead(chart):
    rendered = chart.least(cluster__existingSecret="mine", clients__existingSecret="theirs")
    assert rendered.of_kind("Secret") == []
    for workload in (rendered.worker(), rendered.meta()):
        assert {"secretName": "mine", "defaultMode": 0o440} in [v.get("secret") for v in pod_of(workload)["volumes"]]
    key = environment(container_of(rendered.worker()))["FOREBAY_SECRET_ACCESS_KEY"]
    assert key["secretKeyRef"]["name"] == "theirs"


def test_no_secret_reaches_a_configmap_or_a_pod_as_text(chart):
    rendered = chart.least()
    drawn = [value for secret in rendered.of_kind("Secret") for value in secret["data"].values()]
    rest = json.dumps([item for item in rendered.all if item["kind"] != "Secret"])
    secret = [base64.b64decode(value).decode() for value in drawn if base64.b64decode(value).decode() != FULL]
    assert len(secret) == 2
    assert not any(value in rest for value in secret)


def test_an_anonymous_origin_is_asked_without_a_signature(chart):
    rendered = chart.least()
    assert 'credentials = "anonymous"' in rendered.config()
    assert "AWS_ACCESS_KEY_ID" not in environment(container_of(rendered.worker()))


def test_an_existing_secret_becomes_the_identity_at_the_origin(chart):
    rendered = chart.least(origin__auth="existingSecret", origin__existingSecret="s3-keys")
    assert 'credentials = "default"' in rendered.config()
    values = environment(container_of(rendered.worker()))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert values[name] == {"secretKeyRef": {"name": "s3-keys", "key": name}}


def test_irsa_is_an_annotation_of_the_account(chart):
    role = "arn:aws:iam::123456789012:role/reads"
    rendered = chart.least(origin__auth="irsa", origin__roleArn=role)
    account = rendered.find("ServiceAccount", FULL)
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    assert pod_of(rendered.worker())["serviceAccountName"] == FULL


def test_a_workload_identity_is_a_token_that_is_mounted(chart):
    role = "arn:aws:iam::123456789012:role/reads"
    pod = pod_of(chart.least(origin__auth="workloadIdentity", origin__roleArn=role).worker())
    values = environment(pod["containers"][0])
    assert values["AWS_ROLE_ARN"] == role
    mount = next(mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "identity")
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "identity")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert values["AWS_WEB_IDENTITY_TOKEN_FILE"] == f"{mount['mountPath']}/{token['path']}"


def test_voters_have_no_identity_at_the_origin(chart):
    meta = chart.least(origin__auth="existingSecret", origin__existingSecret="s3-keys").meta()
    assert not [name for name in environment(container_of(meta)) if name.startswith("AWS_")]


def test_clients_without_keys_have_to_be_asked_for(chart):
    assert 'mode = "keys"' in chart.least().config()
    open_to_all = chart.least(clients__auth="none")
    assert 'mode = "none"' in open_to_all.config()
    assert "FOREBAY_ACCESS_KEY_ID" not in environment(container_of(open_to_all.worker()))


def test_every_disk_of_the_list_is_mounted_and_configured(chart):
    disks = [{"hostPath": "/mnt/a"}, {"ephemeral": {"size": "1Ti"}, "capacity": "500GiB"}]
    rendered = chart.least(worker__disks=disks)
    pod = pod_of(rendered.worker())
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["disk-0"]["hostPath"] == {"path": "/mnt/a", "type": "Directory"}
    claim = volumes["disk-1"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "1Ti"
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert (mounts["disk-0"], mounts["disk-1"]) == ("/cache/0", "/cache/1")
    assert 'path = "/cache/1"\ncapacity = "500GiB"' in rendered.config()


def test_claims_belong_to_a_statefulset(chart):
    disks = [{"persistentVolumeClaim": {"size": "3Ti", "storageClass": "nvme"}}]
    workload = chart.least(worker__kind="StatefulSet", worker__disks=disks).worker()
    claim = workload["spec"]["volumeClaimTemplates"][0]
    assert claim["metadata"]["name"] == "disk-0" and claim["spec"]["storageClassName"] == "nvme"
    assert "disk-0" not in [volume["name"] for volume in pod_of(workload)["volumes"]]


@pytest.mark.parametrize(("limit", "capacity"), [("10Gi", "9216MiB"), ("100Mi", "90MiB"), ("1Ti", "943718MiB")])
def test_an_emptydir_is_never_filled_to_its_limit(chart, limit, capacity):
    rendered = chart.least(worker__disks=[{"emptyDir": {"sizeLimit": limit}}])
    assert f'capacity = "{capacity}"' in rendered.config()


def test_workers_tolerate_the_taint_of_gpu_nodes(chart):
    tolerations = pod_of(chart.least().worker())["tolerations"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in tolerations


def test_a_worker_tells_others_its_pods_address(chart):
    values = environment(container_of(chart.least().worker()))
    assert values["FOREBAY_DATA_ADVERTISE"] == "$(POD_IP):9100"
    assert values["FOREBAY_S3_ADVERTISE"] == "$(POD_IP):9000"
    assert list(values).index("POD_IP") < list(values).index("FOREBAY_DATA_ADVERTISE")


def test_a_port_of_the_node_is_taken_only_if_asked_for(chart):
    assert container_of(chart.least().worker())["ports"][0] == {"name": "s3", "containerPort": 9000}
    port = container_of(chart.least(worker__hostPort=9000).worker())["ports"][0]
    assert port["hostPort"] == 9000


def test_a_change_of_the_configuration_is_a_rollout(chart):
    def checksum(**settings):
        template = chart.least(**settings).worker()["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum(meta__antiAffinity="soft")
    assert checksum() != checksum(worker__cache__readAheadBlocks=2)


def test_a_new_version_of_the_chart_alone_is_none(chart, tmp_path):
    newer = tmp_path / "forebay"
    shutil.copytree(CHART, newer)
    about = newer / "Chart.yaml"
    about.write_text(about.read_text().replace("version: 0.1.0", "version: 0.1.1", 1))
    rendered = chart.of_directory(newer)
    for name in ("worker", "meta"):
        new, old = getattr(rendered, name)(), getattr(chart.least(), name)()
        assert new["metadata"]["labels"]["helm.sh/chart"] == "forebay-0.1.1"
        assert new["spec"]["template"] == old["spec"]["template"]


def test_a_rollout_takes_one_worker_at_a_time(chart):
    assert chart.least().worker()["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}


def test_a_majority_of_voters_survives_the_drain_of_nodes(chart):
    budget = chart.least().find("PodDisruptionBudget", f"{FULL}-meta")["spec"]
    assert budget["maxUnavailable"] == 1
    labels = chart.least().meta()["spec"]["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_workers_have_a_budget_only_where_drains_evict_them(chart):
    assert f"PodDisruptionBudget/{FULL}-worker" not in chart.least().names()
    assert f"PodDisruptionBudget/{FULL}-worker" in chart.least(worker__kind="StatefulSet").names()


def sources(policy, port):
    """Who may come in at a port."""
    rules = [rule for rule in policy["spec"]["ingress"] if {"port": port} in rule["ports"]]
    return [source for rule in rules for source in rule["from"]]


def components(found):
    label = "app.kubernetes.io/component"
    return sorted(source["podSelector"]["matchLabels"][label] for source in found if "podSelector" in source)


def test_only_workers_reach_the_data_port(chart):
    policy = chart.least().find("NetworkPolicy", f"{FULL}-worker")
    assert components(sources(policy, "data")) == ["worker"] and len(sources(policy, "data")) == 1


def test_only_workers_and_voters_reach_the_control_port(chart):
    policy = chart.least().find("NetworkPolicy", f"{FULL}-meta")
    assert components(sources(policy, "control")) == ["meta", "test", "worker"]
    assert len(sources(policy, "control")) == 3


def test_metrics_are_for_the_monitoring_namespace(chart):
    for name in ("worker", "meta"):
        policy = chart.least().find("NetworkPolicy", f"{FULL}-{name}")
        namespaces = [s for s in sources(policy, "admin") if "namespaceSelector" in s]
        assert namespaces == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


def test_clients_can_be_limited_to_namespaces(chart):
    training = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "training"}}}
    policy = chart.example("gpu-node-pool").find("NetworkPolicy", f"{FULL}-worker")
    assert training in sources(policy, "s3")
    assert {"namespaceSelector": {}} not in sources(policy, "s3")


def test_a_voter_reaches_nobody_but_voters_and_names(chart):
    egress = chart.least().find("NetworkPolicy", f"{FULL}-meta")["spec"]["egress"]
    assert [sorted(str(port["port"]) for port in rule["ports"]) for rule in egress] == [["control"], ["53", "53"]]


def test_every_pod_has_a_network_policy(chart):
    rendered = chart.least()
    wanted = {"worker", "meta", "test"}
    label = "app.kubernetes.io/component"
    policies = rendered.of_kind("NetworkPolicy")
    assert {p["spec"]["podSelector"]["matchLabels"][label] for p in policies} == wanted


def test_monitoring_objects_wait_for_their_kinds(chart):
    without = chart.least(apis=())
    assert not {"PodMonitor", "PrometheusRule"} & {item["kind"] for item in without.all}
    assert {"PodMonitor", "PrometheusRule"} <= {item["kind"] for item in chart.least().all}


def test_the_pod_monitor_finds_workers_and_voters(chart):
    rendered = chart.least()
    monitor = rendered.find("PodMonitor", FULL)["spec"]
    for workload in (rendered.worker(), rendered.meta()):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["podMetricsEndpoints"][0]["port"] == "admin"
    cluster = next(r for r in monitor["podMetricsEndpoints"][0]["relabelings"] if r["targetLabel"] == "forebay")
    assert cluster["replacement"] == f"{NAMESPACE}/fb"


def test_the_rules_are_those_of_the_files(chart):
    groups = chart.least().find("PrometheusRule", FULL)["spec"]["groups"]
    files = [yaml.safe_load((CHART / "rules" / name).read_text()) for name in ("recording.yaml", "alerts.yaml")]
    assert groups == [group for file in files for group in file["groups"]]


def test_the_dashboard_is_found_by_grafanas_sidecar(chart):
    dashboard = chart.least().find("ConfigMap", f"{FULL}-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["forebay.json"]) == json.loads((CHART / "dashboards/forebay.json").read_text())


def test_an_upgrade_begins_with_a_look_at_the_voters(chart):
    job = chart.least().find("Job", f"{FULL}-upgrade-check")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    arguments = container_of(job)["args"]
    assert arguments[0] == "status"
    assert f"--voters={FULL}-meta-1.{FULL}-meta.{NAMESPACE}.svc:9701," in arguments[1]
    assert "Job" not in [item["kind"] for item in chart.least(meta__upgradeCheck=False).all]


def test_helm_test_asks_a_worker_with_the_clients_keys(chart):
    pod = chart.least().find("Pod", f"{FULL}-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    container = pod["spec"]["containers"][0]
    assert container["envFrom"] == [{"secretRef": {"name": f"{FULL}-client-keys"}}]
    values = environment(container)
    assert values["HOST"] == f"{FULL}-peers.{NAMESPACE}.svc" and values["BUCKET"] == "train"


def test_helm_test_asks_for_a_bucket_in_which_reads_become_hits(chart):
    def bucket(*rules):
        buckets = [{"name": name, "freshness": mode} for name, mode in rules]
        pod = chart.least(buckets=buckets).find("Pod", f"{FULL}-test")["spec"]
        return environment(pod["containers"][0])["BUCKET"]

    assert bucket(("live", "strict"), ("one", "immutable"), ("two", "bounded")) == "one"
    assert bucket(("live", "strict")) == "live"


def test_the_image_is_named_by_tag_or_digest(chart):
    digest = "sha256:" + "0" * 64
    assert container_of(chart.least().worker())["image"] == "forebay:0.1.0"
    assert container_of(chart.least(image__tag="1.2.3").meta())["image"] == "forebay:1.2.3"
    assert container_of(chart.least(image__digest=digest).worker())["image"] == f"forebay@{digest}"


def test_the_notes_name_the_next_three_commands(chart):
    notes = chart.notes()
    assert "helm test fb --namespace ml" in notes
    assert f"configMapRef: {{name: {FULL}-client-env}}" in notes
    assert "forebay status" in notes
    assert "WARNING" not in notes


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ({"clients__auth": "none"}, "clients.auth is none"),
        ({"worker__disks": [{"emptyDir": {"sizeLimit": "1Gi"}}]}, "emptyDir"),
        ({"podDisruptionBudget__enabled": False}, "podDisruptionBudget is off"),
        ({"networkPolicy__enabled": False}, "networkPolicy is off"),
    ],
)
def test_the_notes_warn(chart, settings, warning):
    assert "WARNING: " in chart.notes(**settings) and warning in chart.notes(**settings)


def test_two_releases_share_no_name(chart, tools):
    command = ["template", "other", CHART, "-n", NAMESPACE, "-f", CHART / "examples/trial.yaml"]
    other = Objects(tools.output_of("helm", *command))
    assert not set(other.names()) & set(chart.example("trial").names())
