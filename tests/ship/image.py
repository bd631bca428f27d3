"""The image's file system without a registry: made by the script of the Dockerfile, and entered as a
container's runtime would: read-only, as nobody special, with nothing but the volumes mounted."""

import os
import shlex

from processes import Process
from tools import ROOT, output_of

USER = 65532


def make(forebay, directory):
    output_of(["sh", ROOT / "docker/rootfs.sh", forebay, directory])
    return Image(directory)


class Image:
    def __init__(self, directory):
        self.directory = directory

    def size_bytes(self):
        return sum(file.lstat().st_size for file in self.directory.rglob("*") if not file.is_dir())

    def compressed_bytes(self):
        return int(output_of(["sh", "-c", f"tar -C {shlex.quote(str(self.directory))} -cz . | wc -c"]))

    def command(self, arguments, volumes=()):
        """What runs the binary in it. A volume is (directory of this machine, path in it)."""
        root = shlex.quote(str(self.directory))
        mounts = [f"mount --bind {root} {root}", f"mount -o remount,ro,bind {root}", f"mount --rbind /proc {root}/proc"]
        mounts += [f"mount --bind {shlex.quote(str(source))} {root}{path}" for source, path in volumes]
        enter = ["unshare", "--root", self.directory, "--wd", "/", "--setgid", USER, "--setuid", USER]
        program = " ".join(shlex.quote(str(word)) for word in [*enter, "/usr/bin/forebay", *arguments])
        # `exec`, so that signals reach the binary.
        return ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, f"exec {program}"])]

    def run(self, arguments, announcement, volumes=(), environment=None):
        return Process(self.command(arguments, volumes), announcement, environment)


def volume(directory):
    """A directory that the image's user may write to."""
    directory.mkdir(parents=True)
    os.chown(directory, USER, USER)
    return directory
