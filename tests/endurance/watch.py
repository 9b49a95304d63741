"""What a daemon takes, sample by sample, and whether it takes ever more."""

import http.client
import os
import re

import numpy as np


def total(metrics, name):
    """Of all its labels; 0 before there are any."""
    return sum(metrics.get(name, {}).values())


class Watch:
    """Samples of a process and of its metrics at `address`."""

    def __init__(self, pid, address):
        self._pid = pid
        self._address = address
        self.samples = []

    def metrics(self):
        """{name: {labels: value}}"""
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = re.match(
                    r"(\w+)(?:\{(.*)\})? (\S+)$", line).groups()
                found.setdefault(name, {})[labels or ""] = float(value)
        return found

    def sample(self, seconds):
        with open(f"/proc/{self._pid}/status", encoding="utf-8") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        metrics = self.metrics()
        self.samples.append({
            "seconds": seconds,
            "resident_bytes": int(status["VmRSS"].split()[0]) * 1024,
            "threads": int(status["Threads"]),
            "files": len(os.listdir(f"/proc/{self._pid}/fd")),
            "requests": total(metrics, "gemmd_requests_total"),
            "busy_seconds": total(metrics, "gemmd_device_busy_seconds_total"),
        })
        return metrics

    def new_threads(self):
        """That came over the second half of the samples."""
        half = self.samples[len(self.samples) // 2:]
        return max(0, half[-1]["threads"] - half[0]["threads"])

    def growth(self):
        """Of resident bytes over the second half of the samples, by least
        squares: bytes, their standard error, and bytes a request."""
        half = self.samples[len(self.samples) // 2:]
        if len(half) < 4:
            return 0.0, 0.0, 0.0
        x = np.array([s["seconds"] for s in half], float)
        y = np.array([s["resident_bytes"] for s in half], float)
        x -= x.mean()
        slope = (x * (y - y.mean())).sum() / (x * x).sum()
        rest = y - y.mean() - slope * x
        error = np.sqrt((rest ** 2).sum() / (len(x) - 2) / (x * x).sum())
        span = half[-1]["seconds"] - half[0]["seconds"]
        requests = max(1.0, half[-1]["requests"] - half[0]["requests"])
        return slope * span, error * span, slope * span / requests
