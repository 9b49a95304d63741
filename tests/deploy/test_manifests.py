"""The files of compose and systemd fit their schemas and the daemon's flags."""

import re
import subprocess
import sys
import tempfile
import unittest

import yaml

import flags

_DEPLOY = flags.ROOT / "deploy"


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


if __name__ == "__main__":
    unittest.main()
