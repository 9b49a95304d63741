"""Each overlay of deploy/kubernetes renders to objects that fit the schemas of
Kubernetes, each other, the image and the daemon's flags and limits."""

import functools
import os
import pathlib
import re
import subprocess
import unittest

import kubernetes_validate
import yaml

import flags
from tools import tool

_DEPLOY = flags.ROOT / "deploy"
_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD",
                                     flags.ROOT / "build/release"))
_OVERLAYS = sorted(path.name for path in
                   (_DEPLOY / "kubernetes/overlays").iterdir())
# The oldest release that the manual claims, and the newest known.
_RELEASES = ("1.27", "1.33")
_GIB = 2**30
_UNITS = {"Mi": 2**20, "Gi": 2**30}


@functools.cache
def _render(overlay):
    folder = _DEPLOY / "kubernetes/overlays" / overlay
    done = subprocess.run(
        [tool("kubectl"), "kustomize", folder],
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{overlay}: {done.stderr}"
    return done.stdout


def _objects(overlay):
    return list(yaml.safe_load_all(_render(overlay)))


def _object(overlay, kind):
    found, = [each for each in _objects(overlay) if each["kind"] == kind]
    return found


def _pod(overlay):
    return _object(overlay, "Deployment")["spec"]["template"]["spec"]


def _daemon(overlay):
    container, = _pod(overlay)["containers"]
    return container


@functools.cache
def _defaults():
    """{option: default} of the daemon, as --help says."""
    text = subprocess.run([_BUILD / "service/gemmd", "--help"], text=True,
                          capture_output=True, timeout=60, check=True).stdout
    return dict(re.findall(r"^  --([\w-]+) [A-Z].*?Default: ([^\s.]+)\.",
                           re.sub(r"\n {20,}", " ", text), re.M))


def _quantity(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * _UNITS[unit]


def _most_bytes(arguments):
    """What the daemon may hold, as deploy/README.md adds it up."""
    given = flags.of(arguments)

    def value(name):
        return flags.size(given.get(name, _defaults()[name]))

    calls, connections = value("max-calls"), value("max-connections")
    tensors = value("max-tensor-bytes") if given["device"] == "host" else 0
    pinned = _GIB if given["device"] == "cuda" else 0
    return (2 * value("max-inflight-bytes") + tensors + pinned
            + (calls + 16 * connections) * 2**16 + connections * 2**18
            + value("compile-threads") * _GIB // 2 + _GIB)


def _each_overlay(check):
    """The test of all overlays that is `check` of one."""
    @functools.wraps(check)
    def run(self):
        for overlay in _OVERLAYS:
            with self.subTest(overlay=overlay):
                check(self, overlay)
    return run


class KubernetesTest(unittest.TestCase):

    def test_there_are_overlays(self):
        self.assertLessEqual({"gpu", "host", "high-availability",
                              "mtls", "warm-bundle"}, set(_OVERLAYS))

    @_each_overlay
    def test_every_object_fits_the_strict_schema(self, overlay):
        for release in _RELEASES:
            for each in _objects(overlay):
                kubernetes_validate.validate(each, release, strict=True)

    def test_a_misspelled_field_is_found(self):
        deployment = _object("gpu", "Deployment")
        container, = deployment["spec"]["template"]["spec"]["containers"]
        container["readynessProbe"] = container.pop("readinessProbe")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, _RELEASES[-1],
                                         strict=True)

    @_each_overlay
    def test_selectors_select_the_pods(self, overlay):
        deployment = _object(overlay, "Deployment")["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        selectors = [
            deployment["selector"]["matchLabels"],
            _object(overlay, "Service")["spec"]["selector"],
            _object(overlay, "NetworkPolicy")["spec"]["podSelector"]
            ["matchLabels"]]
        for spread in _pod(overlay).get("topologySpreadConstraints", []):
            selectors.append(spread["labelSelector"]["matchLabels"])
        for each in _objects(overlay):
            if each["kind"] == "PodDisruptionBudget":
                selectors.append(each["spec"]["selector"]["matchLabels"])
        for selector in selectors:
            self.assertLessEqual(selector.items(), labels.items())

    @_each_overlay
    def test_what_is_mounted_exists(self, overlay):
        pod = _pod(overlay)
        volumes = {each["name"]: each for each in pod["volumes"]}
        for container in pod["initContainers"] + pod["containers"]:
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
        self.assertEqual(
            volumes["cache"]["persistentVolumeClaim"]["claimName"],
            _object(overlay, "PersistentVolumeClaim")["metadata"]["name"])
        self.assertEqual(volumes["warmup"]["configMap"]["name"],
                         _object(overlay, "ConfigMap")["metadata"]["name"])

    @_each_overlay
    def test_probes_service_and_metrics_reach_their_ports(self, overlay):
        container = _daemon(overlay)
        ports = {each["name"]: each["containerPort"]
                 for each in container["ports"]}
        given = {**flags.of(flags.entrypoint()), **flags.of(container["args"])}
        listen = given["listen"].split(",")
        self.assertTrue(listen[0].endswith(f":{ports['grpc']}"))
        metrics = given["metrics-listen"]
        self.assertTrue(metrics.endswith(f":{ports['metrics']}"))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "tls-certificate-file" not in given:
                self.assertEqual(container[probe]["grpc"]["port"],
                                 ports["grpc"])
                continue
            # The kubelet's own probes speak plaintext.
            self.assertNotIn("grpc", container[probe])
            self.assertEqual(container[probe]["exec"]["command"][:2],
                             ["gemmctl", "health"])
            server, = [each["value"] for each in container["env"]
                       if each["name"] == "GEMMD_SERVER"]
            self.assertIn(server, listen)
        service, = _object(overlay, "Service")["spec"]["ports"]
        self.assertIn(service["targetPort"], ports)
        for rule in _object(overlay, "NetworkPolicy")["spec"]["ingress"]:
            for port in rule["ports"]:
                self.assertIn(port["port"], ports)
        template = _object(overlay, "Deployment")["spec"]["template"]
        self.assertEqual(
            template["metadata"]["annotations"]["prometheus.io/port"],
            str(ports["metrics"]))

    @_each_overlay
    def test_the_pod_outlives_the_drain(self, overlay):
        self.assertGreater(_pod(overlay)["terminationGracePeriodSeconds"],
                           flags.drain_s(_daemon(overlay)["args"]))

    @_each_overlay
    def test_containers_are_confined_as_the_user_of_the_image(self, overlay):
        user = re.search(r"^USER (\d+):(\d+)$",
                         (_DEPLOY / "Dockerfile").read_text(), re.M)
        pod = _pod(overlay)
        context = pod["securityContext"]
        self.assertEqual((context["runAsUser"], context["runAsGroup"]),
                         (int(user[1]), int(user[2])))
        for container in pod["initContainers"] + pod["containers"]:
            confined = container["securityContext"]
            self.assertTrue(confined["readOnlyRootFilesystem"])
            self.assertFalse(confined["allowPrivilegeEscalation"])
            self.assertEqual(confined["capabilities"], {"drop": ["ALL"]})
            self.assertRegex(container["image"], r":\d+\.\d+\.\d+$")

    # The kubelet would otherwise let the group write the folders of the cache
    # at each start, and the daemon uses none that others can write.
    @_each_overlay
    def test_folders_of_the_cache_stay_closed(self, overlay):
        context = _pod(overlay)["securityContext"]
        self.assertEqual(context["fsGroup"], context["runAsGroup"])
        self.assertEqual(context.get("fsGroupChangePolicy"), "OnRootMismatch")

    def test_files_of_identity_are_mounted_as_folders(self):
        container = _daemon("mtls")
        folders = {each["mountPath"] for each in container["volumeMounts"]
                   if "subPath" not in each}
        given = flags.of(container["args"])
        files = [value for name, value in given.items()
                 if name.endswith("-file")]
        self.assertEqual(len(files), 5)
        for path in files:
            self.assertIn(str(pathlib.Path(path).parent), folders)

    @_each_overlay
    def test_the_daemon_has_every_flag(self, overlay):
        self.assertLessEqual(flags.of(_daemon(overlay)["args"]).keys(),
                             flags.known())

    @_each_overlay
    def test_memory_limits_hold_what_the_daemon_may_take(self, overlay):
        container = _daemon(overlay)
        self.assertLessEqual(
            _most_bytes(container["args"]),
            _quantity(container["resources"]["limits"]["memory"]))

    @_each_overlay
    def test_a_gpu_is_asked_for_where_the_daemon_insists_on_one(self, overlay):
        container = _daemon(overlay)
        device = flags.of(container["args"])["device"]
        limits = container["resources"]["limits"]
        self.assertEqual(limits.get("nvidia.com/gpu"),
                         1 if device == "cuda" else None)
        self.assertEqual("affinity" in _pod(overlay), device == "cuda")

    def test_the_memory_limit_of_systemd_does_too(self):
        unit = (_DEPLOY / "gemmd.service").read_text()
        most, = re.findall(r"^MemoryMax=(\d+)G$", unit, re.M)
        self.assertLessEqual(_most_bytes(["--device=cuda"]), int(most) * _GIB)

    def test_the_autoscaler_asks_for_what_the_adapter_offers(self):
        folder = _DEPLOY / "kubernetes/overlays/high-availability"
        rule, = yaml.safe_load(
            (folder / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
        scaler = _object("high-availability", "HorizontalPodAutoscaler")["spec"]
        metric, = scaler["metrics"]
        self.assertEqual(metric["pods"]["metric"]["name"], rule["name"]["as"])
        self.assertEqual(
            scaler["scaleTargetRef"]["name"],
            _object("high-availability", "Deployment")["metadata"]["name"])
        table = (flags.ROOT / "service/metrics/table.inc").read_text()
        for query in (rule["seriesQuery"], rule["metricsQuery"]):
            for name in re.findall(r"gemmd_\w+", query):
                self.assertIn(f'"{name}"', table)


if __name__ == "__main__":
    unittest.main()
