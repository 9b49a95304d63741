"""gemmctl as a user runs it, against a fake daemon: files, output, exit codes.

GEMMD_BUILD names the build folder.
"""

import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import ml_dtypes
import numpy as np
from gemmd import api

from fake_daemon import FakeDaemon

GEMMCTL = pathlib.Path(os.environ["GEMMD_BUILD"]) / "clients/gemmctl/gemmctl"
BF16 = np.dtype(ml_dtypes.bfloat16)

OK, FAILED, USAGE = range(3)


def integers(rows, columns, dtype=np.float32, seed=0):
    generator = np.random.default_rng(seed)
    return generator.integers(-4, 5, (rows, columns)).astype(dtype)


# Commands that ask no daemon.
_LOCAL = (("capabilities",), ("compress",), ("decompress",), ("quantize",),
          ("dequantize",), ("from-gptq",), ("from-awq",),
          ("from-cutlass",))


class GemmctlTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self._daemon = FakeDaemon().__enter__()
        self.addCleanup(self._daemon.__exit__)

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def save(self, name, array):
        np.save(self.path(name), array)
        return self.path(name)

    def run_gemmctl(self, *words, code=OK, server=None, stdin=b"", raw=False):
        done = subprocess.run(
            [GEMMCTL, *words, "--server", server or self._daemon.target],
            input=stdin, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        text = done.stdout if code == OK else done.stderr
        return text if raw else text.decode()

    def multiply(self, a, b, *flags):
        self.run_gemmctl("matmul", self.save("a.npy", a),
                         self.save("b.npy", b), "-o", self.path("d.npy"),
                         *flags)
        return np.load(self.path("d.npy"))

    def test_f16_files(self):
        a, b = integers(5, 7, np.float16), integers(7, 3, np.float16)
        d = self.multiply(a, b)
        self.assertEqual(d.dtype, np.float16)
        np.testing.assert_array_equal(d, a @ b)

    def test_f32_files_are_converted_on_request(self):
        a, b = integers(5, 7), integers(7, 3)
        d = self.multiply(a, b, "--dtype", "bf16").view(BF16)
        np.testing.assert_array_equal(d.astype(np.float32), a @ b)
        d = self.multiply(a, b, "--dtype=bf16", "--d-type=f32",
                          "--order=column")
        self.assertTrue(d.flags.f_contiguous)
        np.testing.assert_array_equal(d, a @ b)

    def test_fortran_order_and_bf16_files(self):
        a, b = integers(5, 7, BF16), integers(7, 3, BF16)
        d = self.multiply(np.asfortranarray(a), b, "--d-type", "f32")
        np.testing.assert_array_equal(
            d, a.astype(np.float32) @ b.astype(np.float32))

    def test_scalars_and_c(self):
        a, b, c = integers(5, 7), integers(7, 3), integers(5, 3)
        for order in ("row", "column"):
            d = self.multiply(a, b, "--dtype", "f16", "--alpha", "-0.5",
                              "--beta", "2", "--c", self.save("c.npy", c),
                              "--order", order)
            np.testing.assert_array_equal(d, -0.5 * (a @ b) + 2 * c)
        error = self.run_gemmctl(
            "matmul", self.path("a.npy"), self.path("b.npy"), "-o",
            self.path("d.npy"), "--beta", "1", code=USAGE)
        self.assertIn("--c", error)

    def test_c_without_its_factor_is_not_ignored(self):
        a, b, c = integers(5, 7), integers(7, 3), integers(5, 3)
        files = (self.save("a.npy", a), self.save("b.npy", b), "-o",
                 self.path("d.npy"), "--dtype", "f16", "--c",
                 self.save("c.npy", c))
        self.assertIn("--c requires --beta",
                      self.run_gemmctl("matmul", *files, code=USAGE))
        self.run_gemmctl("matmul", *files, "--beta", "0")
        np.testing.assert_array_equal(np.load(self.path("d.npy")), a @ b)

    def test_tensors(self):
        a, b = integers(5, 7), integers(7, 3)
        upload = self.run_gemmctl("tensor", "upload", self.save("a.npy", a),
                                  "--dtype", "bf16", "--label", "weights")
        tensor_a = "tensor:" + upload.strip()
        tensor_d = "tensor:" + self.run_gemmctl(
            "tensor", "create", "5", "3", "--dtype", "f32").strip()
        self.run_gemmctl("matmul", tensor_a, self.save("b.npy", b), "--dtype",
                         "bf16", "--d-type", "f32", "-o", tensor_d)
        handle = tensor_d.removeprefix("tensor:")
        self.run_gemmctl("tensor", "download", handle, "-o",
                         self.path("d.npy"))
        np.testing.assert_array_equal(np.load(self.path("d.npy")), a @ b)
        listed = json.loads(self.run_gemmctl("tensor", "list", "--json"))
        self.assertEqual(len(listed["tensors"]), 2)
        self.assertIn("weights", self.run_gemmctl("tensor", "list"))
        # Of what can be nothing but a handle, the prefix may stay.
        self.run_gemmctl("tensor", "upload", self.save("d2.npy", 2 * (a @ b)),
                         "--to", tensor_d)
        self.assertIn(handle, self.run_gemmctl("tensor", "describe", tensor_d))
        self.run_gemmctl("tensor", "download", tensor_d, "-o",
                         self.path("d.npy"))
        np.testing.assert_array_equal(np.load(self.path("d.npy")), 2 * (a @ b))
        # Of what may be a file, too, it may not.
        error = self.run_gemmctl("matmul", handle, self.path("b.npy"), "-o",
                                 self.path("d.npy"), code=FAILED)
        self.assertIn("a tensor is named tensor:HANDLE", error)
        self.run_gemmctl("tensor", "delete", tensor_d)
        error = self.run_gemmctl("tensor", "describe", handle,
                                 code=FAILED)
        self.assertIn("NOT_FOUND", error)

    def test_upload_makes_a_tensor_or_replaces_one(self):
        name = self.save("x.npy", integers(4, 6))
        self.assertIn("--to is ''; allowed: a name", self.run_gemmctl(
            "tensor", "upload", name, "--to", "", code=USAGE))
        handle = self.run_gemmctl("tensor", "upload", name).strip()
        for word in "--ttl=1h", "--device=host", "--label=weights":
            self.assertIn("are of a new tensor", self.run_gemmctl(
                "tensor", "upload", name, "--to", handle, word, code=USAGE))

    def test_what_others_named_controls_no_terminal(self):
        self.run_gemmctl("tensor", "create", "5", "3", "--dtype", "f32",
                         "--label", "\x1b[2Jold\nforged \u009b31m\u202e")
        listed = self.run_gemmctl("tensor", "list")
        self.assertEqual(len(listed.splitlines()), 1)
        self.assertIn("\\x1b[2Jold\\nforged \\u009b31m\\u202e", listed)
        for control in "\x1b\u009b\u202e":
            self.assertNotIn(control, listed)
        error = self.run_gemmctl("tensor", "describe", "\x1b]0;x\x07",
                                 code=FAILED)
        self.assertNotIn("\x1b", error)

    def test_what_is_not_utf_8_is_an_error_of_one_line(self):
        for words in (("tensor", "create", "2", "2", "--label", b"\xff"),
                      ("tensor", "describe", b"\xff"),
                      ("kernel", "describe", b"\xff" * 64)):
            error = self.run_gemmctl(*words, code=FAILED)
            self.assertRegex(error, "^gemmctl: [^\n]+\n$")

    def test_upload_replaces_elements_in_the_tensors_order(self):
        handle = self.run_gemmctl("tensor", "create", "4", "6", "--dtype",
                                  "f32", "--order", "column").strip()
        values = integers(4, 6)
        self.run_gemmctl("tensor", "upload", self.save("x.npy", values),
                         "--to", handle)
        self.run_gemmctl("tensor", "download", handle, "-o",
                         self.path("y.npy"))
        np.testing.assert_array_equal(np.load(self.path("y.npy")), values)
        for other, says in (
                (integers(6, 4), "4 x 6, but what is uploaded 6 x 4"),
                (values.reshape(2, 2, 6), "what is uploaded 2 x 2 x 6"),
                (values.astype(np.int32),
                 "the tensor is f32, but what is uploaded s32"),
                (integers(4, 12, np.float16), "uploaded 4 x 12")):
            self.assertIn(says, self.run_gemmctl(
                "tensor", "upload", self.save("x.npy", other), "--to", handle,
                code=FAILED))
        self.run_gemmctl("tensor", "upload",
                         self.save("x.npy", values[np.newaxis]), "--to",
                         handle)

    def test_server_errors_name_the_code(self):
        error = self.run_gemmctl(
            "matmul", self.save("a.npy", integers(2, 2)),
            self.save("b.npy", integers(2, 2)), "--dtype", "bf16", "-o",
            self.path("d.npy"), "--device", "cuda:9", code=FAILED)
        self.assertIn("INVALID_ARGUMENT", error)
        self.assertIn("UNIMPLEMENTED",
                      self.run_gemmctl("kernel", "prepare", "1", "1", "1",
                                       code=FAILED))

    def test_unreachable_daemon(self):
        for words in (("info",), ("health",), ("tensor", "list")):
            self.run_gemmctl(*words, "--timeout", "0.2", code=FAILED,
                             server="127.0.0.1:1")

    def test_file_errors(self):
        good = self.save("a.npy", integers(2, 2, np.float16))
        with open(self.path("bad.npy"), "wb") as file:
            file.write(b"not numpy")
        for bad in (self.path("bad.npy"), self.path("missing.npy"),
                    self._folder.name, self.save("v.npy", np.ones(3, "f4"))):
            error = self.run_gemmctl("matmul", good, bad, "-o",
                                     self.path("d.npy"), code=FAILED)
            self.assertIn(bad, error)
        self.run_gemmctl("matmul", good, good, "-o", "/nowhere/d.npy",
                         code=FAILED)

    def test_usage_errors(self):
        for words in (("nothing",), ("matmul", "a.npy"), ("info", "--nothing"),
                      ("tensor", "create", "two", "3"), ("tensor",),
                      ("info", "--timeout", "soon"), ("matmul", "a", "b"),
                      ("tensor", "create", "-1", "3"), ()):
            self.run_gemmctl(*words, code=USAGE)
        mismatched = self.run_gemmctl(
            "matmul", self.save("a.npy", integers(2, 3, np.float16)),
            self.path("a.npy"), "-o", self.path("d.npy"), code=USAGE)
        self.assertIn("3 columns", mismatched)

    def test_health_and_info(self):
        self.assertEqual(self.run_gemmctl("health"), "SERVING\n")
        self.assertIn("device host", self.run_gemmctl("info"))
        info = json.loads(self.run_gemmctl("info", "--json"))
        self.assertEqual(info["version"], "fake")

    def test_stats(self):
        text = self.run_gemmctl("stats")
        self.assertIn("3 rejected at once", text)
        self.assertIn("cache tier disk: 11 hits, 12 misses, 13 errors; loaded "
                      "14 bytes, stored 15 bytes; loads took 16 us\n", text)
        self.assertIn("cache tier shared: 0 hits", text)
        cache = json.loads(self.run_gemmctl("stats", "--json"))["cache"]
        self.assertEqual([tier["name"] for tier in cache["tiers"]],
                         ["disk", "shared"])

    def commands_of(self, *group):
        """The words of every command below `group`, as --help lists them."""
        listing = self.run_gemmctl(*group, "--help").partition("Subcommands:")
        names = [line.split()[0] for line in listing[2].splitlines()
                 if line.startswith("  ") and line[2] != " "]
        if not names:
            return [group]
        return [command for name in names
                for command in self.commands_of(*group, name)]

    def test_every_command_has_help(self):
        commands = self.commands_of()
        self.assertEqual(len(commands), 27)
        for command in commands:
            for flag in ("--help", "-h"):
                text = self.run_gemmctl(*command, flag)
                self.assertIn(f"gemmctl {' '.join(command)}", text)
                self.assertNotIn("--target", text)
                if command not in _LOCAL:
                    self.assertIn("--server ADDRESS", text)

    def test_version(self):
        self.assertRegex(self.run_gemmctl("--version"), r"^gemmctl \d+\.\d+")

    def test_the_former_name_of_server_is_understood(self):
        done = subprocess.run(
            [GEMMCTL, "health", "--target", self._daemon.target],
            capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_the_server_comes_from_the_environment(self):
        done = subprocess.run(
            [GEMMCTL, "health"], capture_output=True, timeout=60, check=False,
            env={**os.environ, "GEMMD_SERVER": self._daemon.target})
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_addresses_are_checked_before_anybody_dials(self):
        for server, says in (("localhost", "no port"),
                             ("localhost:99999", "'99999'"),
                             (":50051", "no host")):
            error = self.run_gemmctl("info", code=USAGE, server=server)
            self.assertIn(f"--server is {server}: ", error)
            self.assertIn(says, error)

    def test_waits_for_a_daemon_that_starts(self):
        address = "unix:" + self.path("socket")
        waiting = subprocess.Popen(
            [GEMMCTL, "health", "--wait", "60s", "--server", address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(waiting.kill)
        with self.assertRaises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        with FakeDaemon(address=address):
            out, error = waiting.communicate(timeout=60)
        self.assertEqual((waiting.returncode, out), (OK, b"SERVING\n"), error)

    def test_matrices_through_standard_input_and_output(self):
        a, b = integers(5, 7, np.float16), integers(7, 3, np.float16)
        packed = io.BytesIO()
        np.save(packed, a)
        out = self.run_gemmctl("matmul", "-", self.save("b.npy", b), "-o", "-",
                               stdin=packed.getvalue(), raw=True)
        np.testing.assert_array_equal(np.load(io.BytesIO(out)), a @ b)
        handle = self.run_gemmctl("tensor", "upload", "-",
                                  stdin=packed.getvalue()).strip()
        out = self.run_gemmctl("tensor", "download", handle, "-o", "-",
                               raw=True)
        np.testing.assert_array_equal(np.load(io.BytesIO(out)), a)
        error = self.run_gemmctl("matmul", "-", "-", "-o", "-", code=USAGE)
        self.assertIn("standard input", error)

    def test_integers_are_not_taken_for_bf16(self):
        words = integers(4, 4, BF16).view(np.uint16)
        name = self.save("u2.npy", words)
        error = self.run_gemmctl("matmul", name, name, "-o",
                                 self.path("d.npy"), code=FAILED)
        self.assertIn("its type is '<u2'", error)
        self.assertIn("--dtype bf16", error)
        self.run_gemmctl("matmul", name, name, "-o", self.path("d.npy"),
                         "--dtype", "bf16")
        a = words.view(BF16).astype(np.float32)
        np.testing.assert_array_equal(
            np.load(self.path("d.npy")).view(BF16).astype(np.float32), a @ a)

    def test_json_for_scripts(self):
        self.assertEqual(json.loads(self.run_gemmctl("health", "--json")),
                         {"serving": True})
        made = json.loads(self.run_gemmctl("tensor", "create", "2", "3",
                                           "--json"))
        self.assertEqual((made["rows"], made["columns"]), ("2", "3"))
        name = self.save("a.npy", integers(2, 2, np.float16))
        execution = json.loads(self.run_gemmctl(
            "matmul", name, name, "-o", self.path("d.npy"), "--json"))
        self.assertEqual(execution["kernel"], "numpy")

    def test_a_kernel_is_named_by_the_start_of_its_key(self):
        key = "ab" * 32
        for word in (key, key[:6], "gemm_one"):
            shown = json.loads(self.run_gemmctl("kernel", "describe", word,
                                                "--json"))
            self.assertEqual(shown["summary"]["key"], key)
        error = self.run_gemmctl("kernel", "describe", "a", code=FAILED)
        self.assertIn("2 kernels", error)
        error = self.run_gemmctl("kernel", "evict", "f", code=FAILED)
        self.assertIn("no kernel", error)
        for i in range(50):
            name = f"{i:02}" * 32
            self._daemon.kernels[name] = api.KernelSummary(key=name)
        for command in "describe", "evict":
            error = self.run_gemmctl("kernel", command, "", code=FAILED)
            self.assertIn("52 kernels have a key that begins with '', ", error)
            self.assertIn(" and 47 more; ", error)
            self.assertLess(len(error), 500)
        self.run_gemmctl("kernel", "evict", "abab")
        self.assertNotIn(key, self.run_gemmctl("kernel", "list"))


if __name__ == "__main__":
    unittest.main()
