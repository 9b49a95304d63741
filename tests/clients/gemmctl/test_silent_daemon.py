"""gemmctl and gemm-warmup where a daemon takes calls and never answers."""

import contextlib
import subprocess
import tempfile
import threading
import time
import unittest
from concurrent import futures

import grpc

from gemmctl_case import FAILED, USAGE
from host_daemon import BUILD

_PROGRAMS = {"gemmctl": BUILD / "clients/gemmctl/gemmctl",
             "gemm-warmup": BUILD / "clients/warmup/gemm-warmup"}


class _Silent(grpc.GenericRpcHandler):
    def __init__(self):
        self.end = threading.Event()

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self.end.wait())


@contextlib.contextmanager
def silent_daemon():
    handler = _Silent()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        handler.end.set()
        server.stop(None).wait()


def run(program, *words):
    return subprocess.run([_PROGRAMS[program], *words], capture_output=True,
                          text=True, timeout=60, check=False)


class SilentDaemonTest(unittest.TestCase):
    def test_a_timeout_ends_every_command(self):
        with silent_daemon() as target, tempfile.NamedTemporaryFile("w") as file:
            file.write("bf16 TN 64 64 64\n")
            file.flush()
            for program, *words in (("gemmctl", "health"), ("gemmctl", "info"),
                                    ("gemmctl", "tensor", "list"),
                                    ("gemm-warmup", "load", file.name),
                                    ("gemm-warmup", "tune", file.name)):
                with self.subTest(words):
                    start = time.monotonic()
                    done = run(program, *words, "--server", target,
                               "--timeout", "500ms")
                    self.assertEqual(FAILED, done.returncode, done.stderr)
                    self.assertRegex(done.stderr, "(?i)deadline")
                    self.assertLess(time.monotonic() - start, 20)

    def test_there_is_a_limit_unless_one_is_given(self):
        for program, words, limit in (("gemmctl", ("health",), "1m"),
                                      ("gemmctl", ("info",), "1m"),
                                      ("gemmctl", ("matmul",), "1h"),
                                      ("gemm-warmup", ("load",), "1h"),
                                      ("gemm-warmup", ("tune",), "1h")):
            with self.subTest(words):
                text = " ".join(run(program, *words, "--help").stdout.split())
                self.assertIn("--timeout TIME Time limit of every call; 0: "
                              f"none. Default: {limit}.", text)

    def test_wrong_limits_are_refused(self):
        for program, words in (("gemmctl", ("info",)),
                               ("gemm-warmup", ("load", "/dev/null"))):
            done = run(program, *words, "--timeout", "soon")
            self.assertEqual(USAGE, done.returncode, done.stderr)
            self.assertIn("--timeout is soon", done.stderr)


if __name__ == "__main__":
    unittest.main()
