"""The metrics of a live daemon are those of the table and of the manual, and
the alerts and the dashboard of deploy/monitoring ask for nothing else."""

import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import gemmd
import numpy as np
import yaml

import metrics_table
from tools import tool
from watched_daemon import WatchedDaemon, series

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_ALERTS = _ROOT / "deploy/monitoring/alerts.yaml"
_ALERTS_TEST = pathlib.Path(__file__).with_name("alerts_test.yaml")
_DASHBOARD = _ROOT / "deploy/monitoring/dashboard.json"
# What a daemon without a GPU lacks.
_OF_GPUS = re.compile(r"gemmd_(gpu|pinned)_\w+")
# What Prometheus adds to each series.
_ADDED = {"job", "instance"}


def _rules():
    group, = yaml.safe_load(_ALERTS.read_text())["groups"]
    return group["rules"]


def _panels():
    """(title, query, legend) of the dashboard."""
    return [(panel["title"], target["expr"], target["legendFormat"])
            for panel in json.loads(_DASHBOARD.read_text())["panels"]
            for target in panel.get("targets", [])]


def _queries():
    """(where it stands, query, labels that its text names)"""
    for rule in _rules():
        text = " ".join(rule["annotations"].values())
        yield (rule["alert"], rule["expr"],
               set(re.findall(r"\$labels\.(\w+)", text)))
    for title, query, legend in _panels():
        yield title, query, set(re.findall(r"\{\{(\w+)\}\}", legend))


def _answerable(query):
    """`query` as Grafana sends it, without what makes an alert of it."""
    query = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
    return re.sub(r"\s*(==|>)\s*[\d.]+\s*$", "", query.strip())


def _work(daemon):
    """A little of all that is counted without a fault of the daemon."""
    ones = np.ones((8, 8), np.float32)
    with gemmd.Client(daemon.target) as client:
        for _ in range(3):
            client.matmul(ones, ones)
        with client.tensor(ones) as weights:
            client.matmul(ones, weights)
        try:
            client.matmul(ones, np.ones((9, 8), np.float32))
        except gemmd.Error:
            pass


class TableTest(unittest.TestCase):
    def test_the_manual_has_the_table_of_the_code(self):
        text = metrics_table.MANUAL.read_text(encoding="utf-8")
        self.assertEqual(text, metrics_table.written(text),
                         "run tests/deploy/metrics_table.py --write")

    def test_the_manual_tells_what_to_do_about_each_alert(self):
        text = metrics_table.MANUAL.read_text(encoding="utf-8")
        section = re.search(r"^## Alerts\n(.*?)^## ", text, re.M | re.S)[1]
        told = re.findall(r"^\| `(Gemmd\w+)` \|", section, re.M)
        self.assertEqual(told, [rule["alert"] for rule in _rules()])


class QueriesTest(unittest.TestCase):
    def test_every_name_and_label_is_in_the_table(self):
        known = {name: set(metric.labels) | _ADDED | (
                     {"le"} if name.endswith("_bucket") else set())
                 for metric in metrics_table.metrics().values()
                 for name in metric.series()}
        known["up"] = set(_ADDED)
        count = 0
        for where, query, named in _queries():
            with self.subTest(where=where):
                names = re.findall(r"\b(?:up|(?:gemmd|process)_\w+)\b", query)
                self.assertTrue(names)
                labels = set()
                for name in names:
                    self.assertIn(name, known)
                    labels |= known[name]
                groups = re.findall(r"\bby \(([^)]*)\)", query)
                kept = {label for group in groups
                        for label in re.split(r",\s*", group)}
                asked = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', query))
                self.assertLessEqual(asked | kept, labels)
                # What a sum is not by is gone.
                self.assertLessEqual(named, kept if groups else labels)
                count += 1
        self.assertGreater(count, 40)

    def test_the_rules_are_rules(self):
        done = subprocess.run([tool("promtool"), "check", "rules", _ALERTS],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{len(_rules())} rules found", done.stdout)

    def test_each_alert_fires_when_it_should_and_not_before(self):
        done = subprocess.run(
            [tool("promtool"), "test", "rules", _ALERTS_TEST],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        fired = {each["alertname"]
                 for test in yaml.safe_load(_ALERTS_TEST.read_text())["tests"]
                 for each in test["alert_rule_test"] if each["exp_alerts"]}
        self.assertEqual(fired, {rule["alert"] for rule in _rules()})


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(WatchedDaemon())
        _work(cls.daemon)

    def test_every_metric_of_the_table_is_there_with_its_labels(self):
        found = series(self.daemon.metrics())
        expected = {}
        for metric in metrics_table.metrics().values():
            if not _OF_GPUS.fullmatch(metric.name):
                for name in metric.series():
                    expected[name] = set(metric.labels)
        self.assertEqual(found.keys(), expected.keys())
        for name, values in found.items():
            for labels in values:
                self.assertEqual(set(labels) - {"le"}, expected[name], name)

    def test_promtool_has_nothing_to_complain_of(self):
        done = subprocess.run([tool("promtool"), "check", "metrics"],
                              input=self.daemon.metrics(), text=True,
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_nothing_is_counted_twice(self):
        lines = [line.rpartition(" ")[0]
                 for line in self.daemon.metrics().splitlines()
                 if not line.startswith("#")]
        self.assertEqual(len(lines), len(set(lines)))

    def test_prometheus_answers_every_query(self):
        with Prometheus(self.daemon.address) as prometheus:
            prometheus.await_samples()
            _work(self.daemon)
            prometheus.await_samples()
            for where, query, _ in _queries():
                # Needs a failure of the daemon: see alerts_test.yaml.
                if _OF_GPUS.search(query) or where == "GemmdErrors":
                    continue
                with self.subTest(where=where):
                    self.assertTrue(prometheus.ask(_answerable(query)), query)
            rules = prometheus.get("rules")["groups"][0]["rules"]
            self.assertEqual({rule["name"]: rule["health"] for rule in rules},
                             {rule["alert"]: "ok" for rule in _rules()})
            self.assertEqual([rule["name"] for rule in rules
                              if rule["state"] == "firing"], [])


class Prometheus:
    """The real one, which reads `address` every half second."""

    def __init__(self, address):
        self._program = tool("prometheus")
        self._folder = tempfile.TemporaryDirectory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._listen = "127.0.0.1:%d" % free.getsockname()[1]
        (self._path / "config.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": "500ms",
                       "evaluation_interval": "500ms"},
            "rule_files": [str(_ALERTS)],
            "scrape_configs": [{"job_name": "gemmd", "static_configs": [
                {"targets": [address]}]}]}))

    @property
    def _path(self):
        return pathlib.Path(self._folder.name)

    def __enter__(self):
        with open(self._path / "log", "w") as log:
            self._process = subprocess.Popen(
                [self._program, f"--config.file={self._path}/config.yaml",
                 f"--storage.tsdb.path={self._path}/data",
                 f"--web.listen-address={self._listen}"], stderr=log)
        return self

    def __exit__(self, *unused):
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def get(self, what, **arguments):
        url = (f"http://{self._listen}/api/v1/{what}?"
               + urllib.parse.urlencode(arguments))
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def ask(self, query):
        return self.get("query", query=query)["result"]

    def await_samples(self):
        """Until it has read the daemon three times more."""
        end = time.monotonic() + 60
        seen, more = None, 0
        while more < 3:
            assert time.monotonic() < end, (self._path / "log").read_text()
            try:
                now = self.ask("timestamp(gemmd_serving)")
            except OSError:
                now = None
            if now and now[0]["value"][1] != seen:
                seen, more = now[0]["value"][1], more + 1
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
