"""gemmctl reads matrices from pipes as from files, and no endless one."""

import io
import os
import subprocess
import threading
import unittest

import numpy as np

from gemmctl_case import FAILED, GemmctlCase, integers
from host_daemon import BUILD


def file_of(array):
    packed = io.BytesIO()
    np.save(packed, array)
    return packed.getvalue()


class GemmctlPipesTest(GemmctlCase):
    def shell(self, line, code=0, stdin=b""):
        done = subprocess.run(
            ["bash", "-c", line], input=stdin, capture_output=True,
            timeout=60, check=False, env={
                **os.environ, "GEMMD_SERVER": self.address,
                "G": str(BUILD / "clients/gemmctl/gemmctl"),
                "D": self.folder})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr.decode()

    def test_pipes_are_files(self):
        a, b = integers(300, 170), integers(170, 9)
        self.save("a.npy", a)
        self.save("b.npy", b)
        for names in ("<(cat $D/a.npy) $D/b.npy",
                      "<(cat $D/a.npy) <(cat $D/b.npy)",
                      "/dev/stdin $D/b.npy < $D/a.npy",
                      "/dev/stdin <(cat $D/b.npy) < <(cat $D/a.npy)",
                      "- <(cat $D/b.npy) < $D/a.npy",
                      "$D/a.npy $D/b.npy --bias <(cat $D/bias.npy)"):
            bias = integers(9) if "--bias" in names else 0 * integers(9)
            self.save("bias.npy", bias)
            with self.subTest(names):
                self.shell(f"$G matmul {names} -o $D/d.npy")
                np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                              a @ b + bias)
        self.shell("$G compress --prune <(cat $D/a.npy) -o $D/d.npy --of b")

    def test_what_is_closed_is_said_so(self):
        self.save("b.npy", integers(170, 9))
        for command, wrong in (
                ("matmul - $D/b.npy -o $D/no.npy",
                 "standard input: it is a device; allowed: a file, a pipe"),
                ("matmul-grouped -", "cannot read standard input: ")):
            with self.subTest(command):
                said = self.shell(f"$G {command} <&-", FAILED)
                self.assertIn(wrong, said)
                self.assertNotIn("temporarily", said)
        self.assertFalse(os.path.exists(self.path("no.npy")))

    def test_a_tensor_whose_handle_nobody_reads_is_deleted(self):
        self.save("a.npy", integers(300, 170))
        before = self.gemmctl("tensor", "list").stdout
        for command in "create 16 16", "upload $D/a.npy":
            for nobody in "> /dev/full", "| true":
                with self.subTest(command + nobody):
                    self.shell(f"set -o pipefail; {{ sleep .5; $G tensor "
                               f"{command}; }} {nobody}", FAILED)
        self.assertEqual(self.gemmctl("tensor", "list").stdout, before)

    def test_a_fifo_of_a_slow_writer(self):
        a = integers(64, 64)
        fifo = self.path("fifo")
        os.mkfifo(fifo)

        def write():
            content = file_of(a)
            with open(fifo, "wb", buffering=0) as out:
                for at in range(0, len(content), 1000):
                    out.write(content[at:at + 1000])

        writer = threading.Thread(target=write)
        writer.start()
        self.run_gemmctl("matmul", fifo, self.save("a.npy", a), "-o",
                         self.path("d.npy"))
        writer.join()
        np.testing.assert_array_equal(np.load(self.path("d.npy")), a @ a)

    def test_what_has_no_end_is_refused_in_little_memory(self):
        self.save("a.npy", integers(8, 8))
        limits = "ulimit -v 4000000; $G matmul"
        for names, says in (
                ("/dev/zero $D/a.npy", "/dev/zero: it is a device; allowed: "),
                ("- $D/a.npy < /dev/zero", "standard input: it is a device"),
                ("<(cat /dev/zero) $D/a.npy", "it is not a .npy file"),
                ("- $D/a.npy < <(cat /dev/zero)", "standard input: it is not"),
                ("<(cat $D/a.npy /dev/zero) $D/a.npy",
                 "more than 256 bytes of data, which are no 8 x 8 elements"),
                ("<(head -c 300 $D/a.npy) $D/a.npy",
                 "it holds 172 bytes of data, which are no 8 x 8 elements"),
                ("$D $D/a.npy", "Is a directory")):
            with self.subTest(names):
                self.assertIn(says, self.shell(
                    f"{limits} {names} -o $D/d.npy", code=FAILED))

    def test_what_is_wrong_with_a_pipe_names_it_once(self):
        for command in "compress", "quantize --scales $D/s.npy":
            for name, said in (("<(echo x)", "/dev/fd/63: "),
                               ("/dev/stdin", "/dev/stdin: "),
                               ("-", "standard input: ")):
                with self.subTest(command=command, name=name):
                    self.assertEqual(
                        f"gemmctl: {said}it is not a .npy file\n", self.shell(
                            f"$G {command} {name} -o $D/d.npy", code=FAILED))


if __name__ == "__main__":
    unittest.main()
