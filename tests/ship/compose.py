"""The processes of docker/compose.yaml that are ours, run in the image's file system.

Every service gets an address of loopback by its name, and variables tell it to listen there. Nothing
else of the file is changed, but that workers do not take their time to hand over when all end.
"""

import random

import yaml
from image import volume
from tools import ROOT

FILE = ROOT / "docker/compose.yaml"
OF_A_WORKER = {"FOREBAY_LISTEN": 9000, "FOREBAY_DATA_LISTEN": 9100, "FOREBAY_ADMIN_LISTEN": 9600}
OF_A_VOTER = {"FOREBAY_META_LISTEN": 9701, "FOREBAY_ADMIN_LISTEN": 9600}


def services():
    """name -> service, of those that run our image."""
    found = yaml.safe_load(FILE.read_text())["services"]
    return {name: service for name, service in found.items() if service["image"].startswith("forebay:")}


def ports_of(environment):
    return OF_A_VOTER if "FOREBAY_META_ID" in environment else OF_A_WORKER


class Compose:
    """Some of the services, started one after the other and ended together."""

    def __init__(self, image, directory):
        # 127.0.0.0/16 is everybody else's.
        network = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}"
        self.address = {name: f"{network}.{number}" for number, name in enumerate(services(), start=1)}
        self._image, self._directory, self._running = image, directory, []
        hosts = "".join(f"{address} {name}\n" for name, address in self.address.items())
        (directory / "hosts").write_text(hosts)
        secrets = volume(directory / "run") / "secrets"
        secrets.mkdir()
        (secrets / "cluster").write_text("for-tests-0123456789abcdef01234567")

    def start(self, name, announcement):
        service, address = services()[name], self.address[name]
        environment = {key: str(value) for key, value in service.get("environment", {}).items()}
        environment |= {listen: f"{address}:{port}" for listen, port in ports_of(environment).items()}
        environment["FOREBAY_DRAIN_SECONDS"] = "1"
        volumes = [(self._directory / "hosts", "/etc/hosts"), (self._directory / "run", "/run")]
        for entry in service.get("volumes", []):
            source, path = entry.split(":")
            volumes.append((volume(self._directory / source), path))
        words = [word.replace("0.0.0.0", address) for word in service["command"]]
        process = self._image.run(words, announcement, volumes, environment)
        self._running.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self._running):
            process.end()
