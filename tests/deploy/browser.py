"""Headless Chromium, driven over its debugging pipe: no driver, no library."""

import base64
import contextlib
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time

from tools import tool

_PATIENCE_S = 60


class Browser:
    """One page. `requests`: the URLs it asked for; `complaints`: what its
    console said, refused loads among it. A context manager."""

    def __init__(self):
        self._program = tool("chromium", "chromium-headless-shell")
        self._folder = tempfile.TemporaryDirectory()
        self.requests = []
        self.complaints = []
        self._next = 0
        self._buffer = b""

    def __enter__(self):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def pipes():  # The browser wants them as 3 and 4.
            high = [os.dup2(fd, 90 + i) for i, fd in
                    enumerate((to_browser, from_browser))]
            for number, fd in zip((3, 4), high):
                os.dup2(fd, number)

        self._process = subprocess.Popen(
            [self._program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}",
             "--window-size=1280,1400", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")
        self._session = self._call("Target.attachToTarget", flatten=True,
                                   targetId=target["targetId"])["sessionId"]
        for domain in ("Network", "Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *unused):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def _receive(self, end):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [],
                                        max(0, end - time.monotonic()))
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise TimeoutError("the browser does not answer")
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, about = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(about["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(about["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))

    def _call(self, method, **parameters):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _PATIENCE_S
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._next:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def open(self, url):
        self._call("Page.navigate", url=url)

    def evaluate(self, script):
        """What an expression of JavaScript gives."""
        result = self._call("Runtime.evaluate", expression=script,
                            returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def await_true(self, script):
        end = time.monotonic() + _PATIENCE_S
        while not self.evaluate(f"!!({script})"):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.1)

    def screenshot(self, path):
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
