"""A daemon on its host device that tells of itself over HTTP."""

import http.client
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "tests/clients/python"))

import host_daemon  # noqa: E402
from eventually import eventually  # noqa: E402


class WatchedDaemon(host_daemon.HostDaemon):
    """Beside `target`, `address`: host and port of its metrics."""

    def __init__(self, *flags):
        super().__init__("--metrics-listen=127.0.0.1:0", *flags)

    def __enter__(self):
        super().__enter__()
        found = eventually(lambda: re.search(
            r"event=monitoring address=(\S+)", self.log()))
        assert found, self.log()
        self.address = found[1]
        return self

    def get(self, path):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return (response.status, response.headers,
                    response.read().decode())
        finally:
            connection.close()

    def metrics(self):
        status, _, text = self.get("/metrics")
        assert status == 200, text
        return text


def series(text):
    """{name: [labels of each value]} of Prometheus' text format."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, labels = re.match(r"(\w+)(?:\{(.*)\})? \S+$", line).groups()
        found.setdefault(name, []).append(
            dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
    return found
