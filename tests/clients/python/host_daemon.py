"""A daemon of the build tree on its host device, for tests of clients.

GEMMD_BUILD names the build folder.
"""

import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import gemmd

BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", "build/release"))
_START_S = 60


def end(process, log):
    """Ends a daemon, which must not have died nor say that it went wrong: a
    sanitizer's report changes its exit code. `log` gives what it has written.
    """
    process.terminate()
    try:
        code = process.wait(60)
        if code != 0:
            raise RuntimeError(f"the daemon ended with code {code}: {log()}")
    finally:
        process.kill()


class HostDaemon:
    """Listens on a Unix socket of its own: `target`. A context manager."""

    def __init__(self, *flags):
        self._flags = flags

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.target = f"unix:{self._folder.name}/socket"
        self._log = open(f"{self._folder.name}/log", "w+", encoding="utf-8")
        self._start()
        return self

    def restart(self):
        end(self.process, self.log)
        self._start()

    def kill(self):
        """It dies in the middle of whatever it does."""
        self.process.kill()
        self.process.wait()

    def start_again(self):
        """After kill()."""
        os.unlink(self.target.removeprefix("unix:"))
        self._start()

    def _start(self):
        socket = self.target.removeprefix("unix:")
        self.process = subprocess.Popen(
            [BUILD / "service/gemmd", "--device=host",
             f"--listen={self.target}", f"--cache-dir={BUILD}/test-cache",
             *self._flags], stderr=self._log)
        latest = time.monotonic() + _START_S
        while not os.path.exists(socket):
            if self.process.poll() is not None or time.monotonic() > latest:
                said = self.log()
                self.process.kill()
                self.process.wait()
                self._forget()
                raise RuntimeError(f"the daemon does not listen: {said}")
            time.sleep(0.05)

    def log(self):
        with open(self._log.name, encoding="utf-8") as file:
            return file.read()

    def __exit__(self, *unused):
        try:
            end(self.process, self.log)
        finally:
            self._forget()

    def _forget(self):
        self._log.close()
        self._folder.cleanup()


class HostCase(unittest.TestCase):
    """Tests of a client of a daemon of their own: `client`, `target`."""

    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon().__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.target = daemon.target
        cls.client = gemmd.Client(cls.target, timeout=60)
        cls.addClassCleanup(cls.client.close)
        # It takes memory to share no earlier, though its socket is there.
        cls.client.wait_for_ready()
