"""The commands that README.md gives for a shell do what it says: each is run
as it stands there, in a folder with the files that it names.

One of them needs a GPU, and says so here. Left out of them: presets, whose
kernels take minutes to compile, and the address of the daemon, which serves on
a socket of the test's own here.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "tests/clients/python"))

from host_daemon import end  # noqa: E402

_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", _ROOT / "build/release"))
_PROGRAMS = ("gemmctl", "gemm-warmup")


def _examples():
    """Indented lines of the README that call one of the programs."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^    (\S.*)$", text, re.M):
        command = line.split("#")[0].strip()
        if command.split()[0] in _PROGRAMS:
            yield command


class ShellExamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "deploy").symlink_to(_ROOT / "deploy")
        for name, shape, dtype in (
                ("a", (5, 7), "f4"), ("b", (7, 3), "f4"), ("x", (5, 7), "f2"),
                ("w", (7, 3), "f2"), ("weights", (7, 3), "f4"),
                ("bias", (3,), "f4"), ("y", (5, 8), "f4"),
                ("v", (8, 3), "f4")):
            np.save(self.folder / f"{name}.npy", np.ones(shape, dtype))
        self.address = f"unix:{self.folder}/socket"
        path = f"{_BUILD}/clients/gemmctl:{_BUILD}/clients/warmup"
        self.environment = {**os.environ, "GEMMD_SERVER": self.address,
                            "PATH": f"{path}:{os.environ['PATH']}"}

    def start_daemon(self):
        log = open(self.folder / "log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        daemon = subprocess.Popen(
            [_BUILD / "service/gemmd", "--device=host", "--admin-calls",
             f"--listen={self.address}", f"--cache-dir={_BUILD}/test-cache"],
            stderr=log)
        self.addCleanup(end, daemon, (self.folder / "log").read_text)
        latest = time.monotonic() + 60
        while not (self.folder / "socket").exists():
            self.assertIsNone(daemon.poll())
            self.assertLess(time.monotonic(), latest,
                            "the daemon does not serve")
            time.sleep(0.05)

    def test_every_command_of_the_readme_succeeds(self):
        self.start_daemon()
        commands = list(_examples())
        self.assertGreater(len(commands), 9)
        for command in commands:
            with self.subTest(command=command):
                run = command.replace(" --preset llama-3-8b",
                                      "" if "warmup.txt" in command
                                      else " deploy/warmup.txt")
                run = run.replace("localhost:50051", self.address)
                done = subprocess.run(
                    ["bash", "-c", run], cwd=self.folder,
                    env=self.environment, capture_output=True, text=True,
                    timeout=240, check=False)
                said = done.stdout + done.stderr
                if command.startswith("gemm-warmup tune"):
                    self.assertIn("is no GPU", said)
                else:
                    self.assertEqual(done.returncode, 0, said)
        self.assertEqual(np.load(self.folder / "d.npy").dtype, np.float32)


if __name__ == "__main__":
    unittest.main()
