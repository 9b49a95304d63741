"""The status page in a real browser: what it shows, that what clients chose is
text and nothing else, and that nothing but the daemon is asked for anything.

GEMMD_SCREENSHOTS names a folder for pictures of it.
"""

import json
import os
import unittest

import gemmd
import grpc
import numpy as np

from browser import Browser
from watched_daemon import WatchedDaemon, eventually

_HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>owned=1;</script>"


def _fail(target, method):
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary(method, request_serializer=bytes,
                                   response_deserializer=bytes)
        try:
            call(b"", timeout=30)
        except grpc.RpcError:
            pass


def _table(browser, name):
    """Rows of cells, as they are read."""
    return json.loads(browser.evaluate(
        f"JSON.stringify([...document.querySelectorAll('#{name} tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent)))"))


class StatusPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(WatchedDaemon("--status-page"))
        cls.url = f"http://{cls.daemon.address}/"
        with gemmd.Client(cls.daemon.target) as client:
            cls.client = client
            a = np.ones((64, 96), np.float32)
            for _ in range(5):
                client.matmul(a, a.T)
        _fail(cls.daemon.target, f"/{_HOSTILE}/Call")

    def _open(self):
        browser = self.enterContext(Browser())
        browser.open(self.url)
        browser.await_true("document.querySelector('#devices tbody tr')")
        return browser

    def test_it_shows_what_the_daemon_does(self):
        browser = self._open()
        self.assertEqual(browser.evaluate("document.title"), "gemmd")
        self.assertIn("serving",
                      browser.evaluate("document.body.innerText"))
        device, = _table(browser, "devices")
        self.assertEqual(device[:3], ["host", "CPU", "works"])
        shape, = _table(browser, "shapes")
        self.assertEqual(shape[0], "host")
        self.assertIn("64x64x96", shape[1])
        self.assertRegex(shape[2], r"^gemm_")
        self.assertEqual(shape[3], "5")
        self.assertRegex(shape[5], r"FLOP/s$")
        self.assertIn(["gemmd.v1.MatmulService/Matmul", "OK", "5"],
                      _table(browser, "calls"))
        self.assertIn("disk", [row[0] for row in _table(browser, "cache")])

    def test_plots_live(self):
        browser = self._open()
        points = "document.querySelector('polyline').getAttribute('points')"
        browser.await_true(f"({points} || '').split(' ').length >= 3")
        self.assertNotIn("NaN", browser.evaluate(
            "[...document.querySelectorAll('polyline')]"
            ".map((line) => line.getAttribute('points')).join()"))
        if folder := os.environ.get("GEMMD_SCREENSHOTS"):
            browser.screenshot(os.path.join(folder, "status.png"))

    def test_what_clients_chose_is_text(self):
        browser = self._open()
        row, = [row for row in _table(browser, "errors")
                if row[3] == "UNIMPLEMENTED"]
        self.assertIn(_HOSTILE, row[2])
        self.assertEqual(browser.evaluate("document.title"), "gemmd")
        self.assertEqual(browser.evaluate("typeof owned"), "undefined")
        self.assertEqual(browser.evaluate(
            "document.querySelectorAll('img, iframe, main script').length"), 0)

    def test_nothing_leaves_the_origin(self):
        browser = self._open()
        browser.await_true(
            "document.querySelector('polyline').getAttribute('points')")
        self.assertGreater(len(browser.requests), 3)
        for url in browser.requests:
            self.assertTrue(url.startswith(self.url), url)
        self.assertEqual(browser.complaints, [])

    def test_the_policy_holds_where_a_script_gets_in(self):
        browser = self._open()
        browser.evaluate("""(() => {
            const inline = document.createElement('script');
            inline.textContent = 'owned = 1';
            document.body.append(inline);
            const image = document.createElement('img');
            image.src = 'http://127.0.0.1:9/x';
            document.body.append(image);
        })()""")
        self.assertEqual(browser.evaluate("typeof owned"), "undefined")
        self.assertEqual(browser.evaluate(
            "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"),
            "refused")
        self.assertGreaterEqual(len(
            [text for text in browser.complaints
             if "Content Security Policy" in text]), 3)

    def test_a_daemon_that_goes_is_missed(self):
        with WatchedDaemon("--status-page") as daemon:
            browser = self.enterContext(Browser())
            browser.open(f"http://{daemon.address}/")
            browser.await_true("document.querySelector('#devices tbody tr')")
        browser.await_true("document.querySelector('#state').textContent"
                           ".includes('does not answer')")


class ServedTest(unittest.TestCase):
    def test_without_the_flag_there_is_no_page(self):
        with WatchedDaemon() as daemon:
            for path in ("/", "/status.json", "/status.js", "/status.css"):
                self.assertEqual(daemon.get(path)[0], 404, path)

    def test_it_needs_nothing_of_others(self):
        with WatchedDaemon("--status-page") as daemon:
            for path in ("/", "/status.js", "/status.css"):
                status, headers, text = daemon.get(path)
                self.assertEqual(status, 200)
                self.assertNotRegex(text.replace("http://www.w3.org/2000/svg",
                                                 ""), "https?:|//[a-z]+[.]")
                self.assertRegex(headers["Content-Security-Policy"],
                                 "default-src 'none'")

    def test_the_json_is_json_whatever_clients_send(self):
        with WatchedDaemon("--status-page") as daemon:
            _fail(daemon.target, '/"\\/\u2028\u00e9')
            errors = eventually(
                lambda: json.loads(daemon.get("/status.json")[2])["errors"])
            self.assertEqual(errors[0]["code"], "UNIMPLEMENTED")
            self.assertIn('/"\\/', errors[0]["method"])


if __name__ == "__main__":
    unittest.main()
