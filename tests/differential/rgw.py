"""Ceph RGW as the origin: one monitor, one OSD in memory, one gateway, in a folder of their own.

Nothing here is a service of the machine: each daemon is a child of this process, listens on
127.0.0.1 only, and is ended by its pid. Debian's packages ceph-mon, ceph-osd, ceph-common and
radosgw have to be there.
"""

import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import processes
import users

# All of it takes 14 s on two cores; what takes this long has hung.
STARTS_WITHIN_SECONDS = 180

# One copy of everything, nothing on disk but the monitor. Deleted objects go soon, or the memory
# fills up. SSE-C has to work over plain http.
CONFIG = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{mon_port}/0
mon initial members = a
keyring = {dir}/keyring
run dir = {dir}
admin socket = {dir}/$name.asok
log file = {dir}/$name.log
pid file = {dir}/$name.pid
mon cluster log file = {dir}/cluster.log
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
ms bind ipv6 = false

[mon.a]
mon data = {dir}/mon

[osd.0]
osd data = {dir}/osd
osd objectstore = memstore
memstore device bytes = 4294967296

[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{rgw_port}
rgw data = {dir}/rgw
rgw gc obj min wait = 60
rgw gc processor period = 60
rgw gc processor max time = 60
rgw crypt require ssl = false
"""

# Who there is, and what each may ask.
KEYS = {
    "mon.": ["mon"],
    "client.admin": ["mon", "osd"],
    "client.rgw": ["mon", "osd"],
    "osd.0": ["mon", "osd"],
}


class Rgw:
    """A running one-node cluster with s3-tests' users in it."""

    # What RGW answers where a client asks for a bucket's location.
    API_NAME = "default"

    def __init__(self):
        self._dir = Path(tempfile.mkdtemp(prefix="forebay-rgw-"))
        self._daemons = processes.Daemons(self._dir)
        self._config = self._dir / "ceph.conf"
        self.endpoint = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            # The folder stays: it has the logs.
            self._daemons.stop()
            raise
        return self

    def __exit__(self, *_):
        self._daemons.stop()
        shutil.rmtree(self._dir)

    def _start(self):
        mon_port, rgw_port = processes.free_ports(2)
        fsid = str(uuid.uuid4())
        self._config.write_text(CONFIG.format(dir=self._dir, fsid=fsid, mon_port=mon_port, rgw_port=rgw_port))
        for name in ("mon", "osd", "rgw"):
            (self._dir / name).mkdir()
        self._start_monitor(fsid, mon_port)
        self._start_osd()
        self._daemon("radosgw", "-n", "client.rgw")
        processes.wait_for_port(rgw_port, STARTS_WITHIN_SECONDS, self._daemons)
        for user in users.EVERYBODY:
            self._add(user)
        self.endpoint = f"http://127.0.0.1:{rgw_port}"

    def _start_monitor(self, fsid, port):
        monmap = str(self._dir / "monmap")
        self._run("monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{port}]", "--fsid", fsid, monmap)
        keyring = self._make_keyring()
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._daemon("ceph-mon", "-i", "a")
        self._ceph("mon", "stat")

    def _make_keyring(self):
        """Everybody's keys in one file: with `auth ... = none` radosgw 16 does not connect."""
        keyring = str(self._dir / "keyring")
        self._run("ceph-authtool", "--create-keyring", keyring)
        for name, caps in KEYS.items():
            caps = [word for service in caps for word in ("--cap", service, "allow *")]
            self._run("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)
        return keyring

    def _start_osd(self):
        osd_uuid = str(uuid.uuid4())
        self._ceph("osd", "new", osd_uuid)
        self._run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd_uuid)
        self._daemon("ceph-osd", "-i", "0")
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while "1 up" not in self._ceph("osd", "stat"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the OSD did not come up: see {self._dir}/osd.0.log")
            time.sleep(0.2)

    def _add(self, user):
        tenant = ["--tenant", user.tenant] if user.tenant else []
        self._run(
            "radosgw-admin", "-n", "client.rgw", "user", "create", "--uid", user.uid,
            "--display-name", user.name, "--email", user.email,
            "--access-key", user.access_key, "--secret-key", user.secret_key, *tenant,
        )  # fmt: skip

    def _daemon(self, program, *args):
        self._daemons.start([program, "-f", "--conf", str(self._config), *args])

    def _ceph(self, *args):
        return self._run("ceph", "--connect-timeout", str(STARTS_WITHIN_SECONDS), *args)

    def _run(self, program, *args):
        command = [program, *args, "--conf", str(self._config)]
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=STARTS_WITHIN_SECONDS
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout
