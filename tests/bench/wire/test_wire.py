"""tests/bench/wire: what it says of a daemon on the host device, and that its
bare server moves what it is asked to. No test looks at how fast anything is."""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import unittest

import grpc

import gemmd
from host_daemon import BUILD, HostDaemon

_TESTS = pathlib.Path(__file__).resolve().parents[2]
_WIRE = BUILD / "tests/bench/wire/wire"
_TENSOR_BYTES = 5 << 20  # Three chunks, the last one half full.
_PRODUCT = "bf16 TN 128 64 128 batch=80 d=f32"
_SENT = 80 * 2 * 128 * (128 + 64)
_RETURNED = 80 * 4 * 128 * 64
_BYTES = {"upload": (_TENSOR_BYTES, 0), "download": (0, _TENSOR_BYTES),
          "stream": (_SENT, _RETURNED), "inline": (_SENT, _RETURNED)}
_CLIENTS = (1, 3)
_ROUNDS = 2


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=300,
                          check=False)


class WireTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def measure(self, *words):
        """What wire finds, begun by those words: the rows, and the lines of the
        table."""
        path = os.path.join(self.folder, "wire.json")
        done = run(*words, "--json", path,
                   f"--tensor_bytes={_TENSOR_BYTES}", f"--product={_PRODUCT}",
                   f"--clients={','.join(map(str, _CLIENTS))}",
                   f"--rounds={_ROUNDS}", "--duration=1ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"], done.stdout.splitlines()

    def check(self, rows, lines):
        self.assertEqual([(row["way"], row["clients"]) for row in rows],
                         [(way, count) for way in _BYTES
                          for count in _CLIENTS])
        self.assertEqual(len(lines), 2 + len(rows))
        for row, line in zip(rows, lines[2:]):
            self.assertEqual((row["sent_bytes"], row["returned_bytes"]),
                             _BYTES[row["way"]])
            for name, rounds in row["rounds"].items():
                self.assertEqual(len(rounds), _ROUNDS)
                self.assertGreater(min(rounds), 0)
                self.assertAlmostEqual(row[f"{name}_gb_s"],
                                       statistics.median(rounds), places=3)
            for name in "daemon", "client":
                ratio = row[f"{name}_gb_s"] / row["bare_gb_s"]
                self.assertAlmostEqual(row[f"{name}_ratio"] / ratio, 1,
                                       places=2)
            self.assertTrue(line.startswith(
                f"| {row['way']} | {row['clients']} | "
                f"{row['bare_gb_s']:.2f} | "), line)

    def test_every_way_over_a_unix_socket(self):
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            self.check(*self.measure(_WIRE, "--target", daemon.target))
            moved = client.statistics()
            # A bare client and the library's each went so often at least.
            times = 2 * (1 + _ROUNDS) * sum(_CLIENTS)
            self.assertGreaterEqual(
                moved.received_bytes,
                times * sum(sent for sent, _ in _BYTES.values()))
            self.assertGreaterEqual(
                moved.sent_bytes,
                times * sum(returned for _, returned in _BYTES.values()))
            self.assertEqual(moved.tensors, 0)

    def test_every_way_over_loopback(self):
        self.check(*self.measure(_TESTS / "with_daemon.sh", BUILD, _WIRE))

    def test_what_is_not_allowed_is_refused(self):
        for flag, said in (
                ("--ways=stream,teleport", "stream, inline"),
                ("--clients=1,0", "1 to 256"),
                ("--rounds=0", "1 and more"),
                ("--tensor_bytes=8193", "multiples of 8192"),
                ("--product=bf16 TN 8 8 8 beta=1", "A times B alone"),
                ("--product=bf16 TN 8 8", "TYPE LAYOUT M N K")):
            done = run(_WIRE, flag)
            self.assertEqual(done.returncode, 1, flag)
            self.assertIn(said, done.stderr)

    def test_a_daemon_that_is_not_there(self):
        done = run(_WIRE, "--target", f"unix:{self.folder}/none", "--clients=1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody answers", done.stderr)


class BareServerTest(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(
            [_WIRE, "--serve=127.0.0.1:0", "--loops=2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.kill)
        port = int(self.server.stdout.readline())
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.addCleanup(channel.close)
        self.exchange = channel.stream_stream("/wire/Exchange")

    def ask(self, messages, awaited, returned, chunk):
        call = self.exchange(iter(messages), timeout=60, metadata=(
            ("wire-awaited-bytes", str(awaited)),
            ("wire-returned-bytes", str(returned)),
            ("wire-chunk-bytes", str(chunk))))
        return [len(message) for message in call]

    def test_it_sends_what_is_asked_for_in_chunks(self):
        messages = [b"x" * 70000, b"y"]
        self.assertEqual(self.ask(messages, 70001, 250000, 100000),
                         [100000, 100000, 50000])
        self.assertEqual(self.ask(messages, 70001, 7, 7), [7])
        self.assertEqual(self.ask([], 0, 0, 100000), [])

    def test_it_counts_what_comes(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.ask([b"x" * 10], 11, 5, 5)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DATA_LOSS)
        self.assertIn("10 bytes have come", raised.exception.details())

    def test_it_ends_with_its_input(self):
        self.assertEqual(self.ask([b"x"], 1, 1, 1), [1])
        self.assertIsNone(self.server.poll())
        self.server.stdin.close()
        self.assertEqual(self.server.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
