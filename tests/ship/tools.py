"""The programs that the tests run, by name; each with a bound, and with what it said if it fails."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Nothing here waits for anything but a slow machine.
HANGS_AFTER_SECONDS = 300


def run(command, **options):
    """Runs a command to its end; the exit code is for the caller to judge."""
    defaults = {"capture_output": True, "text": True, "timeout": HANGS_AFTER_SECONDS}
    return subprocess.run([str(word) for word in command], check=False, **{**defaults, **options})


def output_of(command, **options):
    """What a command printed; it has to succeed."""
    done = run(command, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Tools:
    """What was built or unpacked for these tests."""

    def __init__(self, directory):
        self.directory = directory
        self.schemas = directory / "schemas"

    def path(self, name):
        return self.directory / "bin" / name

    def run(self, name, *arguments, **options):
        return run([self.path(name), *arguments], **options)

    def output_of(self, name, *arguments, **options):
        return output_of([self.path(name), *arguments], **options)
