"""The image and the cluster of docker/compose.yaml, as far as they go without a registry."""

import os
import pathlib
import re
import stat
import sys
import time

import image as images
import pytest
import yaml
from compose import FILE, Compose, services
from processes import STARTS_WITHIN_SECONDS, get
from tools import ROOT, run

DOCKERFILE = ROOT / "docker/Dockerfile"
LIMIT_COMPRESSED_BYTES = 30 << 20
LABELS = {"title", "description", "licenses", "version", "revision"}


@pytest.fixture(scope="module")
def image(forebay, tmp_path_factory):
    assert os.geteuid() == 0, "the image's file system is made and entered as root: run this as root"
    return images.make(forebay, tmp_path_factory.mktemp("image") / "root")


def test_hadolint_has_nothing_against_the_dockerfile():
    # A wheel puts it beside the interpreter.
    hadolint = pathlib.Path(sys.executable).with_name("hadolint")
    done = run([hadolint, "--failure-threshold", "style", DOCKERFILE])
    assert (done.returncode, done.stdout) == (0, "")


def test_the_last_stage_is_the_file_system_that_is_tested_here():
    stages = re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.MULTILINE)
    assert "sh docker/rootfs.sh /forebay /rootfs" in stages[-2]
    last = stages[-1]
    assert last.startswith("scratch\n")
    assert re.findall(r"^(?:COPY|ADD|RUN) .*", last, re.MULTILINE) == ["COPY --from=build /rootfs /"]
    assert "\nUSER 65532:65532\n" in last and 'ENTRYPOINT ["/usr/bin/forebay"]' in last
    assert set(re.findall(r"org\.opencontainers\.image\.(\w+)=", last)) >= LABELS
    assert "linux/amd64,linux/arm64" in stages[0]


def test_the_image_is_small(image, capsys):
    size, compressed = image.size_bytes(), image.compressed_bytes()
    with capsys.disabled():
        print(f"\nimage: {size / (1 << 20):.1f} MiB, compressed {compressed / (1 << 20):.1f} MiB")
    assert compressed < LIMIT_COMPRESSED_BYTES


def test_there_is_nothing_in_it_but_the_binary_and_its_libraries(image):
    programs = [
        path.relative_to(image.directory).as_posix()
        for path in image.directory.rglob("*")
        if path.is_file() and path.stat().st_mode & stat.S_IXUSR and ".so" not in path.name
    ]
    assert programs == ["usr/bin/forebay"]
    certificates = (image.directory / "etc/ssl/certs/ca-certificates.crt").read_text()
    assert certificates.count("BEGIN CERTIFICATE") > 100
    privileged = [path for path in image.directory.rglob("*") if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert privileged == []


def test_nothing_in_it_can_be_written(image):
    done = run(image.command(["serve", "--origin", "http://127.0.0.1:1", "--bucket", "x", "--auth", "none",
                              "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                              "--cache-dir", "/cache"]))  # fmt: skip
    assert done.returncode != 0 and "Read-only file system" in done.stdout + done.stderr


def test_a_read_through_it_is_a_hit_as_nobody_special_over_a_read_only_root(image, tmp_path):
    """Origin, a voter and two workers of the compose file; the group of three has a majority with two."""
    with Compose(image, tmp_path) as compose:
        compose.start("origin", r"http://\S+")
        for name in ("meta-1", "meta-2"):
            compose.start(name, "forebay listening")
        workers = [compose.start(name, "forebay listening") for name in ("worker-1", "worker-2")]
        urls = [f"http://{compose.address[name]}:9000/train/images/00000007" for name in ("worker-1", "worker-2")]
        status, headers, body = get(urls[0])
        assert (status, headers["x-forebay-cache"]) == (200, "miss")
        for url in urls:
            assert read_until_hit(url) == body
        for worker in workers:
            status = pathlib.Path(f"/proc/{worker.process.pid}/status").read_text()
            assert re.search(r"^Uid:\t65532\t65532\t65532\t65532$", status, re.MULTILINE)
            assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)


def read_until_hit(url):
    """The bytes of the first hit: until a worker is in the ring, it asks the origin."""
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        status, headers, body = get(url)
        assert status == 200
        if headers["x-forebay-cache"] in ("hit", "peer"):
            return body
    raise AssertionError(f"{url} is still no hit")


def test_every_service_of_ours_is_restricted():
    assert len(services()) == 7
    for name, service in services().items():
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_ports_are_published_on_loopback_alone():
    for name, service in yaml.safe_load(FILE.read_text())["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_what_is_mounted_is_there():
    compose = yaml.safe_load(FILE.read_text())
    named = set(compose["volumes"])
    for name, service in compose["services"].items():
        for entry in service.get("volumes", []):
            source = entry.split(":")[0]
            assert source in named or (FILE.parent / source).exists(), (name, source)
    secret = compose["secrets"]["cluster"]["file"].removeprefix("./")
    assert (FILE.parent / ".gitignore").read_text().split() == [secret]


def test_prometheus_scrapes_every_service_of_ours_that_has_metrics(tools, tmp_path):
    file = FILE.parent / "prometheus.yaml"
    config = yaml.safe_load(file.read_text())
    (tmp_path / "rules").symlink_to(ROOT / "helm/forebay/rules")
    (tmp_path / "prometheus.yml").write_text(file.read_text())
    tools.output_of("promtool", "check", "config", tmp_path / "prometheus.yml")
    targets = [target for entry in config["scrape_configs"][0]["static_configs"] for target in entry["targets"]]
    assert sorted(targets) == sorted(f"{name}:9600" for name in services() if name != "origin")


def test_grafana_finds_prometheus_and_the_dashboard():
    grafana = FILE.parent / "grafana"
    source = yaml.safe_load((grafana / "datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and source["isDefault"] is True
    provider = yaml.safe_load((grafana / "dashboards/forebay.yaml").read_text())["providers"][0]
    mounts = yaml.safe_load(FILE.read_text())["services"]["grafana"]["volumes"]
    assert f"../helm/forebay/dashboards:{provider['options']['path']}:ro" in mounts
