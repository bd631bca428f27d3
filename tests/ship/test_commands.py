"""Every command in README and docs: run, or, where it wants a cluster or an hour, held against what
is there: its flags against the program's help, its names against the chart and the workspace."""

import re
import tomllib

import pytest
import yaml
from chart import Objects
from cluster import Demo
from documents import FENCE, commands, documents
from processes import Worker
from promql import alerts
from tools import ROOT, output_of

ALL = commands()
# `show|drain`: one of several words.
ALTERNATIVES = re.compile(r"^[a-z]+(\|[a-z]+)+$")


def of(program, *starts):
    """The commands of a program; with `starts`, those whose next words these are."""
    own = [command for command in ALL if command.program == program]
    return [command for command in own if command.words[1 : 1 + len(starts)] == [*starts]]


def test_every_command_belongs_to_a_test_here():
    known = {"aws", "cargo", "docker", "export", "forebay", "head", "helm", "install", "kubectl"}
    strangers = [str(command) for command in ALL if command.program not in known]
    assert strangers == [], "teach a test in this file to run them"
    assert len(ALL) > 30


@pytest.mark.parametrize("command", of("cargo", "xtask"), ids=str)
def test_a_job_of_xtask_is_one_that_it_knows(command):
    job, *rest = command.words[2:]
    source = (ROOT / "crates/xtask/src/args.rs").read_text()
    assert f'"{job}" =>' in source
    for word in rest:
        if word.startswith("-"):
            assert f'"{word}"' in source, word
        elif job == "test":
            assert has_rust_tests(word), f"no test is called {word}"


@pytest.mark.parametrize("command", [c for c in of("cargo") if c.words[1] != "xtask"], ids=str)
def test_a_target_of_cargo_is_one_that_the_gate_builds(command):
    words = command.words[: command.words.index("--")] if "--" in command.words else command.words
    manifest = manifest_of(words[words.index("-p") + 1])
    for kind in ("test", "bench"):
        if f"--{kind}" in words:
            name = words[words.index(f"--{kind}") + 1]
            named = [target["name"] for target in tomllib.loads(manifest.read_text()).get(kind, [])]
            places = [manifest.parent / directory / f"{name}.rs" for directory in (f"{kind}s", f"{kind}es")]
            assert name in named or any(place.is_file() for place in places), name


def manifest_of(package):
    folder = "tests" if package == "forebay-tests" else f"crates/{package.removeprefix('forebay-')}"
    manifest = ROOT / folder / "Cargo.toml"
    assert tomllib.loads(manifest.read_text())["package"]["name"] == package
    return manifest


def has_rust_tests(word):
    module = word.split("::")[0]
    return any((ROOT / "tests" / suite / f"{module}.rs").is_file() for suite in ("promises", "cluster"))


@pytest.mark.parametrize("command", [c for c in of("forebay") if "demo" not in c.words], ids=str)
def test_a_command_of_forebay_has_its_words_and_flags(forebay, command):
    words = command.words[1:]
    subcommands = [word for word in words[:2] if ALTERNATIVES.match(word) or re.fullmatch("[a-z]+", word)]
    for path in expand(subcommands):
        help_text = output_of([forebay, *path, "--help"])
        for flag in (word for word in words if word.startswith("--")):
            assert re.search(rf"{flag}\b", help_text), f"forebay {' '.join(path)} has no {flag}"


def expand(words):
    """`ring show|drain` is two commands."""
    paths = [[]]
    for word in words:
        paths = [[*path, one] for path in paths for one in word.split("|")]
    return paths


def test_the_quick_start_is_run_as_it_stands(forebay, origin, tmp_path):
    """README's worker, with this machine's origin, ports and disk; its clients' variables as well."""
    serve = next(command for command in of("forebay", "serve") if "--origin" in command.words)
    replaced = {"--origin": origin.endpoint, "--cache-dir": str(tmp_path)}
    words = serve.words[2:]
    words = [replaced.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    exports = [dict(word.split("=", 1) for word in command.words[1:]) for command in of("export")]
    keys = next(variables for variables in exports if "FOREBAY_ACCESS_KEY_ID" in variables)
    ours = next(variables for variables in exports if variables.get("AWS_ACCESS_KEY_ID") == "...")
    client = [variables for variables in exports if variables not in (keys, ours)]
    client = {name: value for variables in client for name, value in variables.items()}
    assert client["AWS_ACCESS_KEY_ID"] == keys["FOREBAY_ACCESS_KEY_ID"]
    assert client["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9000"
    # The origin here knows no keys.
    with Worker(forebay, tmp_path, [*words, "--anonymous-origin"], keys | ours) as worker:
        script = (ROOT / "helm/forebay/scripts/first-hit.sh").read_text()
        for port, url in (("9000", worker.s3), ("9600", worker.admin)):
            script = script.replace(f":{port}", f":{url.rsplit(':', 1)[1]}")
        env = {"PATH": "/usr/bin:/bin", "HOST": "127.0.0.1", "BUCKET": "train", "OBJECT": "images/00000001"}
        assert output_of(["sh", "-c", script], env=env | client).endswith("OK\n")
        status = output_of([forebay, "status", "--endpoint", worker.admin])
        assert "ready" in status


def test_what_the_demo_invites_to_type_works(forebay):
    with Demo(forebay) as demo:
        for command in (demo.status, demo.ring_show):
            assert output_of([forebay, *command.split()])


@pytest.mark.parametrize("command", of("helm"), ids=str)
def test_a_command_of_helm(tools, command):
    verb, *words = command.words[1:]
    if verb == "template" and words:
        assert Objects(tools.output_of("helm", verb, *words, cwd=ROOT)).all
    elif verb == "install":
        assert "NOTES" in tools.output_of("helm", verb, *words, "--dry-run=client", cwd=ROOT)
    else:
        help_text = tools.output_of("helm", verb, "--help")
        assert all(re.search(rf"{word}\b", help_text) for word in words if word.startswith("--"))
        assert all((ROOT / word).exists() for word in words if word.startswith("helm/"))


@pytest.mark.parametrize("command", of("kubectl"), ids=str)
def test_what_kubectl_is_pointed_at_is_in_the_chart(tools, command):
    install = of("helm", "install")[0].words[2:]
    rendered = tools.output_of("helm", "template", *install, cwd=ROOT)
    names = {name.lower() for name in Objects(rendered).names()}
    pointed_at = [word for word in command.words if re.fullmatch(r"(daemonset|statefulset|service)/\S+", word)]
    assert pointed_at and set(pointed_at) <= names
    assert {"forebay-client-env", "forebay-client-keys"} <= {name.split("/")[1] for name in names}


@pytest.mark.parametrize("command", of("docker"), ids=str)
def test_what_docker_is_pointed_at_is_there(command):
    words = command.words
    assert (ROOT / words[words.index("-f") + 1]).is_file()
    # A machine with its own build of docker may have neither; both are plug-ins of the usual one.
    assert words[1] in ("buildx", "compose")


def test_a_secret_is_made_as_the_documents_say(tmp_path):
    command = of("head")[0]
    file = tmp_path / "secret"
    output_of(["sh", "-c", command.text.replace("docker/cluster.secret", str(file))])
    assert len(file.read_text().strip()) >= 32


def test_a_directory_for_a_disk_is_made_as_the_documents_say(tmp_path):
    command = of("install")[0]
    directory = tmp_path / "forebay"
    output_of([*command.words[:-1], directory])
    assert (directory.stat().st_uid, directory.stat().st_gid) == (65532, 65532)


@pytest.mark.parametrize("command", of("export"), ids=str)
def test_a_variable_is_one_that_somebody_reads(command):
    source = "\n".join(file.read_text() for file in (ROOT / "crates").glob("*/src/**/*.rs"))
    knobs = {"FOREBAY_" + flag.upper().replace("-", "_") for flag in re.findall(r'"--([a-z0-9-]+)"', source)}
    for name in (word.split("=")[0] for word in command.words[1:]):
        assert name in knobs or f'"{name}"' in source or name.startswith("AWS_"), name


def test_an_alert_that_is_named_is_one_of_the_rules():
    text = (ROOT / "docs/DEPLOY.md").read_text()
    assert set(re.findall(r"`(Forebay[A-Z]\w+)`", text)) <= set(alerts())
    for name, rule in alerts().items():
        assert (name in text) or rule["labels"]["severity"] != "page", name


def test_configuration_in_the_documents_is_well_formed():
    kinds = {"toml": tomllib.loads, "yaml": yaml.safe_load}
    seen = []
    for file in documents():
        for kind, block in FENCE.findall(file.read_text()):
            kind = "toml" if not kind and re.search(r"^\[\[?[a-z.]+\]\]?$", block, re.MULTILINE) else kind
            if kind in kinds:
                assert kinds[kind](block), (file, block)
                seen.append(kind)
    assert {"toml", "yaml"} <= set(seen)
