"""The commands that our documents tell people to type."""

import re
import shlex
from dataclasses import dataclass

from tools import ROOT

# Fenced text of these kinds is to be typed; without a kind it may also be output or configuration.
PROGRAMS = ("aws", "cargo", "curl", "docker", "export", "forebay", "head", "helm", "install", "kubectl", "python3")
FENCE = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`((?:cargo|forebay|helm|kubectl|docker) [^`\n]+)`")


@dataclass(frozen=True)
class Command:
    document: str
    text: str

    @property
    def words(self):
        return shlex.split(self.text, comments=True)

    @property
    def program(self):
        return self.words[0].rsplit("/", 1)[-1]

    def __str__(self):
        return f"{self.document}: {self.text}"


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands():
    """All of them, each once."""
    found = {}
    for file in documents():
        name = file.relative_to(ROOT).as_posix()
        for text in commands_in(file.read_text()):
            found[Command(name, text)] = None
    return list(found)


def commands_in(text):
    for kind, block in FENCE.findall(text):
        if kind in ("", "sh", "bash", "console"):
            lines = block.replace("\\\n", " ").splitlines()
            yield from (tidy(line) for line in lines if first_word(line) in PROGRAMS)
    for span in SPAN.findall(FENCE.sub("", text)):
        yield tidy(span)


def first_word(line):
    words = line.strip().removeprefix("$ ").split()
    return words[0].rsplit("/", 1)[-1] if words else ""


def tidy(line):
    return " ".join(line.strip().removeprefix("$ ").split())
