"""The files of compose and systemd fit their schemas and the daemon's flags."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

import flags

_DEPLOY = flags.ROOT / "deploy"
_BUILD = pathlib.Path(
    os.environ.get("GEMMD_BUILD", flags.ROOT / "build/release"))


def _compose(name):
    return yaml.safe_load((_DEPLOY / name).read_text())


def _check_compose(path):
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema",
         "vendor.compose-spec", str(path)], capture_output=True, text=True)


class ComposeTest(unittest.TestCase):

    FILES = ("compose.yaml", "compose.host.yaml")

    def test_the_files_fit_the_schema(self):
        for name in self.FILES:
            result = _check_compose(_DEPLOY / name)
            self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_misspelled_key_is_found(self):
        content = _compose("compose.yaml")
        content["services"]["gemmd"]["stop_grace"] = "40s"
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(content, file)
            file.flush()
            result = _check_compose(file.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("stop_grace", result.stdout)

    def test_services_are_confined_and_outlive_the_drain(self):
        for name in self.FILES:
            for service in _compose(name)["services"].values():
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
            daemon = _compose(name)["services"]["gemmd"]
            self.assertGreater(int(daemon["stop_grace_period"].rstrip("s")),
                               flags.drain_s(daemon["command"]))
            for port in daemon["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_one_file_reserves_a_gpu(self):
        device, = _compose("compose.yaml")["services"]["gemmd"]["deploy"][
            "resources"]["reservations"]["devices"]
        self.assertEqual(device["capabilities"], ["gpu"])
        self.assertNotIn("deploy",
                         _compose("compose.host.yaml")["services"]["gemmd"])


class FlagsTest(unittest.TestCase):

    def test_the_daemon_has_every_flag(self):
        known = flags.known()
        command = re.search(r"^ExecStart=(.*)$",
                            (_DEPLOY / "gemmd.service").read_text(), re.M)[1]
        lines = [flags.entrypoint(), command.split()]
        for name in ComposeTest.FILES:
            lines.append(_compose(name)["services"]["gemmd"]["command"])
        for words in lines:
            self.assertLessEqual(flags.of(words).keys(), known)
            self.assertTrue(flags.of(words))

    def test_systemd_waits_for_the_drain(self):
        unit = (_DEPLOY / "gemmd.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
        stop_s = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1])
        self.assertGreater(stop_s, flags.drain_s(command.split()))


class FilterTest(unittest.TestCase):
    """Of system calls, under systemd."""

    def setUp(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is missing: it comes with systemd")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, unit, *command):
        file = self.folder / "unit"
        file.write_text(unit)
        return subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).parent / "filtered.py",
             file, *command], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def compile(self, unit):
        problems = self.folder / "problems"
        problems.write_text("bf16 TN 64 8 64\n")
        program = self.start(
            unit, _BUILD / "clients/warmup/gemm-warmup", "compile",
            f"--cache-dir={self.folder / 'cache'}", problems)
        output, _ = program.communicate(timeout=120)
        return program.returncode, output

    def test_kernels_are_compiled(self):
        code, output = self.compile((_DEPLOY / "gemmd.service").read_text())
        self.assertEqual(code, 0, output)

    def test_a_call_that_is_not_allowed_ends_who_makes_it(self):
        code, output = self.compile("SystemCallFilter=@system-service\n")
        self.assertNotEqual(code, 0, output)

    def test_the_daemon_serves_and_ends(self):
        daemon = self.start(
            (_DEPLOY / "gemmd.service").read_text(), _BUILD / "service/gemmd",
            "--device=host", "--listen=127.0.0.1:0",
            f"--cache-dir={self.folder / 'cache'}")
        lines = []
        with daemon:
            for line in daemon.stdout:
                lines.append(line)
                if "event=serving" in line:
                    daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.returncode, 0, "".join(lines))
        self.assertIn("event=serving", "".join(lines))


if __name__ == "__main__":
    unittest.main()
