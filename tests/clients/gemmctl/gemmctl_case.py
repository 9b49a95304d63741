"""Tests of gemmctl against a daemon on the host device."""

import os
import subprocess
import tempfile
import unittest

import numpy as np

from host_daemon import BUILD, HostDaemon

OK, FAILED, USAGE = range(3)

# A build with a sanitizer compiles kernels and multiplies that much slower.
SANITIZED = "GEMMD_SANITIZE:STRING=\n" not in (
    BUILD / "CMakeCache.txt").read_text()
_SLOWNESS = 10 if SANITIZED else 1


def milliseconds(count):
    """For a flag; as much as it takes to do what takes so long as a rule."""
    return f"{count * _SLOWNESS}ms"


def integers(*shape, dtype=np.float32, low=-4, high=5):
    generator = np.random.default_rng(7)
    return generator.integers(low, high, shape).astype(dtype)


def wide(array):
    return array.astype(np.float64)


class GemmctlCase(unittest.TestCase):
    daemon_flags = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        daemon = HostDaemon(*cls.daemon_flags).__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.address = daemon.target

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, array):
        np.save(self.path(name), array)
        return self.path(name)

    def gemmctl(self, *words, under=()):
        return subprocess.run(
            [*under, BUILD / "clients/gemmctl/gemmctl", *words, "--server",
             self.address], capture_output=True, timeout=300, check=False)

    def run_gemmctl(self, *words, code=OK):
        done = self.gemmctl(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return (done.stdout if code == OK else done.stderr).decode()

    def multiply(self, a, b, *flags):
        self.run_gemmctl("matmul", self.save("a.npy", a),
                         self.save("b.npy", b), "-o", self.path("d.npy"),
                         *flags)
        return np.load(self.path("d.npy"))

    def refuse(self, a, b, *flags, code=USAGE):
        return self.run_gemmctl(
            "matmul", self.save("a.npy", a), self.save("b.npy", b), "-o",
            self.path("d.npy"), *flags, code=code)
