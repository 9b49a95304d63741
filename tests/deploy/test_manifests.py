"""The files of deploy/ fit their schemas, each other and the daemon's flags."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kubernetes_validate
import yaml

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DEPLOY = _ROOT / "deploy"
# The oldest release that kubernetes.yaml claims, and the newest known.
_KUBERNETES = ("1.27", "1.33")


def _kubernetes():
    return list(yaml.safe_load_all((_DEPLOY / "kubernetes.yaml").read_text()))


def _object(kind):
    found, = [each for each in _kubernetes() if each["kind"] == kind]
    return found


def _pod():
    return _object("Deployment")["spec"]["template"]["spec"]


def _compose(name):
    return yaml.safe_load((_DEPLOY / name).read_text())


def _check_compose(path):
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema",
         "vendor.compose-spec", str(path)], capture_output=True, text=True)


def _flags(words):
    """{name: value} of the words that are flags."""
    return {name: value for name, value in
            re.findall(r"--([\w-]+)(?:=(\S+))?", " ".join(words))}


def _known_flags():
    source = (_ROOT / "service/daemon/options.cc").read_text()
    return set(re.findall(r'\bc\.\w+\("--([\w-]+)', source))


def _drain_s(words):
    flags = _flags(words)
    return (int(flags.get("drain-grace", "0s").removesuffix("s"))
            + int(flags.get("drain-timeout", "30s").removesuffix("s")))


def _entrypoint():
    text = (_DEPLOY / "Dockerfile").read_text()
    return yaml.safe_load(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1])


class KubernetesTest(unittest.TestCase):

    def test_every_object_fits_the_strict_schema(self):
        for version in _KUBERNETES:
            for each in _kubernetes():
                with self.subTest(version=version, kind=each["kind"]):
                    kubernetes_validate.validate(each, version, strict=True)

    def test_a_misspelled_field_is_found(self):
        deployment = _object("Deployment")
        container, = deployment["spec"]["template"]["spec"]["containers"]
        container["readynessProbe"] = container.pop("readinessProbe")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, _KUBERNETES[-1],
                                         strict=True)

    def test_selectors_select_the_pods(self):
        deployment = _object("Deployment")["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        for selector in (deployment["selector"]["matchLabels"],
                         _object("Service")["spec"]["selector"],
                         _object("NetworkPolicy")["spec"]["podSelector"]
                         ["matchLabels"]):
            self.assertLessEqual(selector.items(), labels.items())

    def test_what_is_mounted_exists(self):
        pod = _pod()
        volumes = {each["name"]: each for each in pod["volumes"]}
        for container in pod["initContainers"] + pod["containers"]:
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
        self.assertEqual(
            volumes["cache"]["persistentVolumeClaim"]["claimName"],
            _object("PersistentVolumeClaim")["metadata"]["name"])
        self.assertEqual(volumes["warmup"]["configMap"]["name"],
                         _object("ConfigMap")["metadata"]["name"])

    def test_probes_and_service_reach_the_port(self):
        container, = _pod()["containers"]
        port, = container["ports"]
        self.assertTrue(_flags(_entrypoint())["listen"].endswith(
            f":{port['containerPort']}"))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["grpc"]["port"],
                             port["containerPort"])
        service, = _object("Service")["spec"]["ports"]
        self.assertEqual(service["targetPort"], port["name"])

    def test_the_pod_outlives_the_drain(self):
        container, = _pod()["containers"]
        self.assertGreater(_pod()["terminationGracePeriodSeconds"],
                           _drain_s(container["args"]))

    def test_it_runs_as_the_user_of_the_image(self):
        user = re.search(r"^USER (\d+):(\d+)$",
                         (_DEPLOY / "Dockerfile").read_text(), re.M)
        context = _pod()["securityContext"]
        self.assertEqual((context["runAsUser"], context["runAsGroup"]),
                         (int(user[1]), int(user[2])))

    def test_the_list_of_problems_is_that_of_warmup_txt(self):
        def problems(text):
            return [line for line in text.splitlines()
                    if line and not line.startswith("#")]
        self.assertEqual(
            problems(_object("ConfigMap")["data"]["warmup.txt"]),
            problems((_DEPLOY / "warmup.txt").read_text()))


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
                               _drain_s(daemon["command"]))
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
        known = _known_flags()
        container, = _pod()["containers"]
        command = re.search(r"^ExecStart=(.*)$",
                            (_DEPLOY / "gemmd.service").read_text(), re.M)[1]
        lines = [_entrypoint(), container["args"], command.split()]
        for name in ComposeTest.FILES:
            lines.append(_compose(name)["services"]["gemmd"]["command"])
        for words in lines:
            self.assertLessEqual(_flags(words).keys(), known)
            self.assertTrue(_flags(words))

    def test_systemd_waits_for_the_drain(self):
        unit = (_DEPLOY / "gemmd.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
        stop_s = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1])
        self.assertGreater(stop_s, _drain_s(command.split()))


if __name__ == "__main__":
    unittest.main()
