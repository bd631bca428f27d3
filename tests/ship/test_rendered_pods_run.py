"""What the chart tells a pod, told to the real binary: files and variables as rendered.

Replaced are only addresses of other pods and paths, which on this machine are others.
"""

import pytest
from chart import CHART, EXAMPLES, FULL, container_of, environment
from processes import Process, Worker, get
from tools import run

SECRET = "0123456789abcdef0123456789abcdef"
CLIENT = {"AWS_ACCESS_KEY_ID": "client", "AWS_SECRET_ACCESS_KEY": "client-secret"}


def variables(workload, known):
    """A container's environment, with what Kubernetes would fill in taken from `known`."""
    filled = {}
    for name, value in environment(container_of(workload)).items():
        if isinstance(value, dict):
            value = known.get(name, "")
        for other, text in known.items():
            value = value.replace(f"$({other})", text)
        filled[name] = value
    return filled


@pytest.fixture
def secret_file(tmp_path):
    file = tmp_path / "cluster.secret"
    file.write_text(SECRET)
    file.chmod(0o440)
    return file


@pytest.fixture
def run_worker(forebay, origin, secret_file, tmp_path):
    """Runs the worker of what was rendered."""

    def run_worker(rendered):
        config = rendered.config()
        for endpoint in ("aws", "https://s3.storage.example.com"):
            config = config.replace(f'origin = "{endpoint}"', f'origin = "{origin.endpoint}"')
        # The origin here has one bucket, and lets everybody in.
        for name in ("noaa-goes16", "training-sets"):
            config = config.replace(f'name = "{name}"', 'name = "train"')
        config = config.replace('name = "checkpoints"', 'name = "*"').replace('"default"', '"anonymous"')
        config = config.replace("/etc/forebay/secret/cluster.secret", str(secret_file))
        config = config.replace('"/cache/', f'"{tmp_path}/').replace("0.0.0.0:9600", "127.0.0.1:0")
        for path in ("0", "1"):
            (tmp_path / path).mkdir(exist_ok=True)
        file = tmp_path / "forebay.toml"
        file.write_text(config)
        known = {
            "POD_IP": "127.0.0.1",
            "FOREBAY_ACCESS_KEY_ID": CLIENT["AWS_ACCESS_KEY_ID"],
            "FOREBAY_SECRET_ACCESS_KEY": CLIENT["AWS_SECRET_ACCESS_KEY"],
        }
        # Voters of other pods are not there: the worker serves alone until they are.
        ports = {"FOREBAY_LISTEN": "127.0.0.1:0", "FOREBAY_DATA_LISTEN": "127.0.0.1:0"}
        # And at its end there is nobody to hand over to.
        limits = {"FOREBAY_CAPACITY": "100MiB", "FOREBAY_DRAIN_SECONDS": "1"}
        env = variables(rendered.worker(), known) | ports | limits
        return Process([forebay, "serve", "--config", file], r"listening s3=(\S+) admin=(\S+)", env)

    return run_worker


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_worker_starts_with_what_was_rendered(chart, run_worker, example):
    with run_worker(chart.example(example)) as worker:
        assert get(f"{worker.announced[2]}/readyz")[0] == 200


def test_a_voter_starts_with_what_was_rendered(chart, forebay, secret_file, tmp_path):
    meta = chart.least(meta__replicas=1).meta()
    env = variables(meta, {"POD_NAME": f"{FULL}-meta-1", "FOREBAY_META_ID": "1"})
    assert env["FOREBAY_INITIAL_VOTERS"] == f"1={env['FOREBAY_META_ADVERTISE']}"
    env |= {
        "FOREBAY_META_DIR": str(tmp_path / "meta"),
        "FOREBAY_META_LISTEN": "127.0.0.1:0",
        "FOREBAY_ADMIN_LISTEN": "127.0.0.1:0",
        "FOREBAY_SECRET_FILE": str(secret_file),
    }
    with Process([forebay, "serve"], r"listening .*admin=(\S+)", env) as voter:
        assert get(f"{voter.announced[1]}/readyz")[0] == 200
        assert b"forebay_raft_voters" in get(f"{voter.announced[1]}/metrics")[2]


def test_helm_tests_script_sees_a_hit(chart, forebay, origin, tmp_path):
    """Its pod's script, with curl, against a worker that asks for signatures."""
    arguments = ["--origin", origin.endpoint, "--bucket", "train", "--anonymous-origin"]
    keys = {f"FOREBAY_{name.removeprefix('AWS_')}": value for name, value in CLIENT.items()}
    with Worker(forebay, tmp_path, arguments, keys) as worker:
        done = ask(chart.example("gpu-node-pool"), worker, {"BUCKET": "train"})
    assert done.returncode == 0 and done.stdout.endswith("OK\n"), done.stdout + done.stderr
    assert 'tier="' in done.stdout


def test_helm_tests_script_reads_an_object_that_is_there(chart, run_worker):
    rendered = chart.example("trial")
    with run_worker(rendered) as worker:
        done = ask(rendered, worker, {"BUCKET": "train", "OBJECT": "images/00000000"})
    assert done.returncode == 0 and "wrote" not in done.stdout, done.stdout + done.stderr


def test_helm_tests_script_fails_without_the_right_key(chart, run_worker):
    rendered = chart.example("trial")
    with run_worker(rendered) as worker:
        done = ask(rendered, worker, {"BUCKET": "train", "AWS_SECRET_ACCESS_KEY": "another"})
    assert done.returncode != 0 and "FAILED" in done.stderr


def ask(rendered, worker, settings):
    """Runs the script as the test's pod does, the ports of the worker in place of the pod's."""
    script = rendered.find("ConfigMap", f"{FULL}-test")["data"]["first-hit.sh"]
    assert script.rstrip() == (CHART / "scripts/first-hit.sh").read_text().rstrip()
    s3, admin = (worker.announced[n].rsplit(":", 1)[1] for n in (1, 2))
    script = script.replace(":9000", f":{s3}").replace(":9600", f":{admin}")
    env = {"PATH": "/usr/bin:/bin", "HOST": "127.0.0.1", "NEW_OBJECT": "new", "AWS_REGION": "us-east-1"}
    return run(["sh", "-c", script], env=env | CLIENT | settings)
