"""Child processes and the ports that they listen on."""

import contextlib
import signal
import socket
import subprocess
import time

ENDS_WITHIN_SECONDS = 30


class Daemons:
    """Programs that run until they are stopped; the last one started goes first."""

    def __init__(self, log_dir):
        self._log_dir = log_dir
        self._running = []

    def start(self, command, **kwargs):
        with open(self._log_dir / "output.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **kwargs)
        self._running.append(process)

    def require_alive(self):
        for process in self._running:
            if process.poll() is not None:
                log = (self._log_dir / "output.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{process.args[0]} ended with {process.returncode}:\n{log}")

    def stop(self):
        for process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def free_ports(count):
    """Ports of 127.0.0.1 that nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


def wait_for_port(port, seconds, daemons):
    """Returns once somebody accepts connections there."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        daemons.require_alive()
        if time.monotonic() > deadline:
            raise RuntimeError(f"nobody listens on port {port} after {seconds} s")
        time.sleep(0.1)
