"""gemmctl load against a daemon's host device."""

import json
import time
import unittest

from gemmctl_case import (FAILED, SANITIZED, USAGE, GemmctlCase,
                          milliseconds)

_PHASES = ("late", "queue", "plan", "compile", "upload", "execute",
           "download", "rest")
_SHORT = ("--duration", milliseconds(500))
# For those of which a busy machine does one a second.
_LONG = ("--duration", milliseconds(3000))


class GemmctlLoadTest(GemmctlCase):
    daemon_flags = ("--max-message-bytes=1MiB", "--max-tensor-bytes=64MiB")

    def load(self, *words, duration=_SHORT, warmup=milliseconds(100)):
        return json.loads(self.run_gemmctl(
            "load", *words, *duration, "--warmup", warmup, "--json"))

    def statistics(self):
        return json.loads(self.run_gemmctl("stats", "--json"))

    def test_a_closed_loop_of_every_way_and_shape(self):
        words = ("bf16 TN 64 48 32", "s8 TN 16 16 64 bias=row d=f32 aux amax",
                 "f16 NN 8 8 8 batch=3 broadcast=b beta=1", "--ways",
                 "inline,stream,resident,shared,striped,sequence,encoded,"
                 "weights",
                 "--steps", "5", "--connections", "2", "--concurrency", "3")
        self.load(*words, duration=_LONG)  # With the compiles.
        before = int(self.statistics()["requests"])
        found = self.load(*words)
        self.assertEqual(found["loop"], "closed")
        self.assertEqual(found["failed"], 0, found["errors"])
        self.assertEqual(len(found["works"]), 24)
        names = [work["name"] for work in found["works"]]
        self.assertEqual(names[0], "bf16 TN 64 48 32 inline")
        self.assertEqual(len(set(names)), 24)
        counts = [work["latency"]["count"] for work in found["works"]]
        self.assertEqual(sum(counts), found["requests"])
        self.assertLessEqual(max(counts) - min(counts), 4)  # They take turns.
        self.assertGreater(min(counts), 0)
        # No request is told of that the daemon has not seen.
        after = int(self.statistics()["requests"])
        self.assertGreaterEqual(after - before, found["requests"])
        self.assertEqual(int(self.statistics()["tensors"]), 0)

    def test_times_and_rates_fit_together(self):
        found = self.load("f32 NN 32 32 32", "--concurrency", "2",
                          duration=_LONG)
        latency = found["latency"]
        self.assertGreater(latency["mean_us"], 0)
        for less, more in (("p50", "p90"), ("p90", "p99"), ("p99", "p99.9")):
            self.assertLessEqual(latency[f"{less}_us"], latency[f"{more}_us"])
        self.assertLessEqual(latency["p99.9_us"], latency["max_us"])
        self.assertEqual(set(found["phases"]), set(_PHASES))
        mean = sum(found["phases"][name]["mean_us"] for name in _PHASES)
        # Negative rests count as nothing.
        self.assertGreaterEqual(mean * 1.001, latency["mean_us"])
        rate = found["requests"] / found["elapsed_s"]
        self.assertAlmostEqual(found["requests_per_s"] / rate, 1)
        self.assertAlmostEqual(
            found["operations_per_s"] / (rate * 2 * 32 ** 3), 1)
        self.assertAlmostEqual(
            found["sent_bytes_per_s"] / (rate * 2 * 4 * 32 ** 2), 1)
        self.assertEqual(found["products_per_s"], found["requests_per_s"])

    def test_weights_stay_and_activations_travel(self):
        found = self.load("bf16 TN 3 40 24", "--ways", "weights")
        self.assertEqual(found["failed"], 0, found["errors"])
        rate = found["requests"] / found["elapsed_s"]
        self.assertAlmostEqual(
            found["sent_bytes_per_s"] / (rate * 2 * 3 * 24), 1)
        self.assertAlmostEqual(
            found["received_bytes_per_s"] / (rate * 2 * 3 * 40), 1)

    def test_quantized_weights_go_every_way(self):
        lines = ("bf16-s4 TN 3 64 128 group=32 zero_points",
                 "bf16-s8 TN 3 64 128 group=k")
        found = self.load(*lines, "--ways", "inline,shared,striped,resident,"
                          "sequence,encoded,weights", "--steps", "2",
                          warmup="0s")
        self.assertEqual(found["failed"], 0, found["errors"])
        self.assertEqual(len(found["works"]), 14)

    def test_a_request_of_a_sequence_is_many_products(self):
        for way in "sequence", "encoded":
            with self.subTest(way):
                self.check_sequence(way)

    def check_sequence(self, way):
        line = "bf16 TN 16 24 32 batch=2 broadcast=b"
        self.load(line, "--ways", way)  # With the compiles.
        before = self.statistics()
        found = self.load(line, "--ways", way, "--steps", "7",
                          "--concurrency", "2", "--device", "host")
        after = self.statistics()
        self.assertEqual(found["failed"], 0, found["errors"])
        rate = found["requests"] / found["elapsed_s"]
        self.assertAlmostEqual(found["requests_per_s"] / rate, 1)
        self.assertAlmostEqual(found["products_per_s"] / (7 * rate), 1)
        self.assertAlmostEqual(
            found["operations_per_s"] / (7 * rate * 2 * 2 * 16 * 24 * 32), 1)
        self.assertEqual(found["sent_bytes_per_s"], 0)
        self.assertEqual(found["received_bytes_per_s"], 0)
        # The daemon was asked so often, for so much, and told how long it took.
        calls = int(after["requests"]) - int(before["requests"])
        self.assertGreaterEqual(calls, found["requests"])
        self.assertLess(calls, 3 * found["requests"])
        self.assertGreater(found["phases"]["execute"]["max_us"], 0)
        self.assertEqual(int(self.statistics()["tensors"]), 0)

    def test_members_of_a_group_are_products(self):
        found = self.load("bf16 TN 1 64 128 ; 13+0+12")
        self.assertEqual(found["failed"], 0, found["errors"])
        self.assertAlmostEqual(
            found["products_per_s"] / found["requests_per_s"], 3)

    def test_what_is_shared_does_not_travel(self):
        # It would not fit in a message.
        for line in "f32 NN 640 8 640", "bf16 TN 1 64 128 ; 13+0+12":
            with self.subTest(line):
                before = self.statistics()
                found = self.load(line, "--ways", "shared", "--concurrency",
                                  "2", duration=_LONG)
                after = self.statistics()
                self.assertEqual(found["failed"], 0, found["errors"])
                self.assertGreater(found["requests"], 0)
                self.assertEqual(found["sent_bytes_per_s"], 0)
                self.assertEqual(found["received_bytes_per_s"], 0)
                for name in ("received_bytes", "sent_bytes"):
                    self.assertEqual(before[name], after[name])

    def test_an_open_loop_keeps_its_rate(self):
        found = self.load("bf16 TN 8 8 8", "--rate", "100", "--concurrency",
                          "16")
        self.assertEqual(found["loop"], "open")
        rate = (found["requests"] + found["unsent"]) / found["elapsed_s"]
        self.assertGreater(rate, 30)
        self.assertLess(rate, 240)

    def test_an_open_loop_beyond_what_comes_back_tells_so_and_ends(self):
        start = time.monotonic()
        found = self.load("f32 NN 16 16 16", "--rate", "100000",
                          warmup="0s")
        self.assertGreater(found["unsent"], 100)
        # Who waited for the one in flight was late, and that counts.
        self.assertGreater(found["phases"]["late"]["max_us"], 1000)
        self.assertGreaterEqual(found["latency"]["max_us"],
                                found["phases"]["late"]["max_us"])
        self.assertLess(time.monotonic() - start, 60)

    def test_errors_are_counted_by_code(self):
        text = self.run_gemmctl("load", "f32 NN 4096 4096 64", *_SHORT,
                                "--json", code=FAILED)
        self.assertEqual(
            1, text.count("\n"), "one line for each problem, whose errors are "
            f"counted on standard output: {text}")
        self.assertIn("f32 NN 4096 4096 64 inline: RESOURCE_EXHAUSTED: ", text)
        # Whatever else succeeds.
        done = self.gemmctl("load", "f32 NN 4096 4096 64", "bf16 TN 8 8 8",
                            *_SHORT, "--json")
        self.assertEqual(FAILED, done.returncode)
        self.assertEqual(1, done.stderr.count(b"\n"), done.stderr)
        found = json.loads(done.stdout)
        error = found["errors"]["RESOURCE_EXHAUSTED"]
        self.assertEqual(error["count"], found["failed"], found["errors"])
        self.assertIn("50331648", error["first"])
        self.assertGreater(found["requests"], 0)
        self.assertEqual(found["works"][0]["latency"]["count"], 0)

    def test_a_device_that_there_is_not(self):
        for words in ((), ("--json",), ("--ways", "resident")):
            text = self.run_gemmctl("load", "f32 NN 8 8 8", "--device",
                                    "cuda:9", *_SHORT, *words, code=FAILED)
            self.assertIn("INVALID_ARGUMENT: device is unknown", text)

    def test_text_for_people(self):
        text = self.run_gemmctl("load", "bf16 TN 8 8 8", "f16 TN 8 8 8",
                                *_SHORT)
        self.assertIn("closed loop, at most 1 in flight, connections: 1", text)
        self.assertIn("TFLOP/s", text)
        for word in ("p99.9", *_PHASES, "f16 TN 8 8 8 inline"):
            self.assertIn(word, text)

    @unittest.skipIf(SANITIZED, "a sanitizer needs the room")
    def test_without_room_for_its_threads_it_ends_and_says_so(self):
        room = ("prlimit", f"--as={2 << 30}", f"--stack={8 << 20}")
        done = self.gemmctl("load", "bf16 TN 8 8 8", "--concurrency", "1000",
                            "--duration", "1h", under=room)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(b"the system gives no more threads", done.stderr)

    def test_wrong_words_are_refused(self):
        for words, says in (
                ((), "PROBLEM"),
                (("bf16 TN 8 8",), "LAYOUT M N K"),
                (("bf16 TN 8 8 8", "--ways", "pigeon"),
                 "--ways: pigeon; allowed: inline, stream, resident, shared, "
                 "striped, sequence, encoded or weights"),
                (("bf16 TN 1 64 128 ; 13+0+12", "--ways", "sequence"),
                 "--ways is sequence, but a group is one call of one message; "
                 "allowed: inline, resident, shared, weights"),
                (("bf16 TN 8 8 8", "--ways", "sequence", "--steps", "257"),
                 "--steps"),
                (("bf16-sparse TN 16 16 64", "--ways", "shared"), "is sparse"),
                (("bf16 TN 8 8 8", "--concurrency", "0"), "--concurrency"),
                (("bf16 TN 8 8 8", "--duration", "2h"), "--duration")):
            with self.subTest(words):
                self.assertIn(says, self.run_gemmctl("load", *words,
                                                     code=USAGE))


if __name__ == "__main__":
    unittest.main()
