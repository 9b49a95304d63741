"""Where gemmctl's results go: each to a file of its own, all of them or none,
and what was there before stays when something goes wrong."""

import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

import numpy as np

from gemmctl_case import FAILED, OK, USAGE, GemmctlCase, integers
from host_daemon import BUILD

_GEMMCTL = BUILD / "clients/gemmctl/gemmctl"
_LEAST = 65536  # Bytes of a file that a process of small_files() may write.


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LEAST, _LEAST))


class GemmctlOutputsTest(GemmctlCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_words(self, *words, code=OK, **how):
        """In the folder; what it printed."""
        done = subprocess.run([_GEMMCTL, *words], cwd=self.folder, timeout=60,
                              capture_output=True, check=False, **how)
        self.assertEqual(done.returncode, code, done)
        return done.stderr.decode() if code else done.stdout

    def names(self):
        return sorted(os.listdir(self.folder))

    def commands(self):
        """Words that lack the names of two results, and the options of those.
        """
        x = self.save("x.npy", integers(64, 64))
        packed = integers(16, 24, dtype=np.int32)
        checkpoint = (self.save("w.npy", packed),
                      self.save("gs.npy", np.ones((4, 24), np.float16)),
                      self.save("gz.npy", integers(4, 3, dtype=np.int32)))
        to = ("--server", self.address)
        quantized = self.path("q.npy"), "--scales", self.path("s.npy")
        self.run_words("quantize", x, "-o", *quantized)
        handle = self.run_words(
            "tensor", "upload", *quantized, "--dtype", "s4", "--quantized",
            "b", *to).decode().strip()
        zeros = "--zero-points", "zeros.npy"
        yield ("quantize", x), "--scales"
        yield ("quantize", x, "--dtype", "u4", "--scales", "scales.npy"), \
            "--zero-points"
        yield ("from-gptq", *checkpoint, *zeros), "--scales"
        yield ("from-awq", self.save("wa.npy", integers(
            128, 3, dtype=np.int32)), *checkpoint[1:], *zeros), "--scales"
        yield ("tensor", "download", handle, *to), "--scales"
        yield ("matmul", x, x, "--quiet", *to), "--amax"
        yield ("matmul", x, x, "--quiet", "--act", "relu", *to), \
            "--pre-activation"

    def test_no_two_results_go_to_one_file(self):
        there, link = self.path("there.npy"), self.path("link.npy")
        for words, option in self.commands():
            pathlib.Path(there).write_bytes(b"old")
            for name, target in ((link, "there.npy"),
                                 (self.path("soon.npy"), "new.npy")):
                if not os.path.lexists(name):
                    os.symlink(target, name)
            if not os.path.exists(self.path("twin.npy")):
                os.link(there, self.path("twin.npy"))
            before = self.names()
            for one, other in (("new.npy", "new.npy"),
                               ("new.npy", "./new.npy"),
                               (self.path("new.npy"), "../" + os.path.basename(
                                   self.folder) + "/new.npy"),
                               ("new.npy", "soon.npy"),
                               ("there.npy", "./there.npy"),
                               ("link.npy", "there.npy"),
                               ("twin.npy", "there.npy"),
                               ("-", "-"), ("-", "/dev/stdout")):
                with self.subTest(words=words, one=one, other=other):
                    said = self.run_words(*words, "-o", one, option, other,
                                          code=USAGE)
                    self.assertIn("only one result can go to standard output"
                                  if other == "-" else
                                  f"several results go to {other}", said)
                    self.assertEqual(self.names(), before)
                    self.assertEqual(pathlib.Path(there).read_bytes(), b"old")
            self.run_words(*words, "-o", "new.npy", option, "other.npy")
            np.load(self.path("new.npy"))
            np.load(self.path("other.npy"))
            os.unlink(self.path("new.npy"))

    def test_lists_of_products_have_no_two_results_in_one_file(self):
        x = self.save("x.npy", integers(8, 8))
        said = self.run_words(
            "matmul-grouped", "-", "--server", self.address,
            input=f"{x} {x} -o d.npy\n{x} {x} -o ./d.npy".encode(),
            code=USAGE)
        self.assertIn("several results go to ./d.npy, which is d.npy; allowed",
                      said)

    def test_results_are_not_lost_for_want_of_a_name(self):
        for words, option in self.commands():
            before = self.names()
            for one, other, wrong in (("", "other.npy", "--output"),
                                      ("new.npy", "", option)):
                with self.subTest(words=words, wrong=wrong):
                    said = self.run_words(*words, "-o", one, option, other,
                                          code=USAGE)
                    self.assertIn(f"{wrong} is ''; allowed: a name", said)
                    self.assertEqual(self.names(), before)
        x = self.path("x.npy")
        said = self.run_words(
            "matmul-grouped", "-", "--server", self.address, code=USAGE,
            input=f"{x} {x} -o d.npy\n{x} {x} -o ''".encode())
        self.assertIn("standard input: line 2: --output is ''", said)

    def test_tensors_without_a_handle_are_no_place_for_a_result(self):
        x = self.save("x.npy", integers(8, 8))
        for words in (("-o", "tensor:"),
                      ("-o", "d.npy", "--act", "relu", "--aux", "tensor:")):
            before = self.names()
            said = self.run_words("matmul", x, x, *words, "--server",
                                  self.address, code=USAGE)
            self.assertIn(" is tensor:; allowed: a name", said)
            self.assertEqual(self.names(), before)

    def test_inputs_without_a_name_are_not_left_out(self):
        x = self.save("x.npy", integers(8, 8))
        for option in ("--bias", "--a-scale", "--b-scale", "--d-scale"):
            said = self.run_words("matmul", x, x, "-o", "d.npy", option, "",
                                  "--server", self.address, code=USAGE)
            self.assertIn("scale is ''; allowed: a name" if "scale" in option
                          else "--bias is ''; allowed: a name", said)
        said = self.run_words("model", "create", "m", "--b", "b", "--bias", "",
                              code=USAGE)
        self.assertIn("--bias is ''; allowed: a name", said)

    def test_a_file_is_as_it_was_when_its_new_content_is_not_written(self):
        big = self.save("big.npy", integers(256, 256))
        x = self.save("x.npy", integers(2, 256))
        tensor = self.run_words("tensor", "upload", big, "--server",
                                self.address).decode().strip()
        to = ("--server", self.address)
        old = pathlib.Path(self.path("d.npy"))
        amax = pathlib.Path(self.path("amax.npy"))
        for name in old, amax:
            name.write_bytes(b"old")
        before = self.names()
        for words in (("matmul", big, big, "-o", "d.npy", *to),
                      ("matmul", big, big, "-o", "d.npy", "--amax", "amax.npy",
                       *to),
                      ("matmul", x, big, "-o", "/dev/full", "--amax",
                       "amax.npy", *to),
                      ("tensor", "download", tensor, "-o", "d.npy", *to),
                      ("compress", "--prune", big, "-o", "d.npy"),
                      ("quantize", "--dtype", "s8", big, "-o", "d.npy",
                       "--scales", "amax.npy"),
                      ("quantize", "--dtype", "s4", x, "-o", "d.npy",
                       "--scales", "/none/s.npy")):
            with self.subTest(words):
                said = self.run_words(*words, code=FAILED,
                                      preexec_fn=small_files)
                self.assertRegex(said, "File too large|No such file|No space")
                self.assertEqual(old.read_bytes(), b"old")
                self.assertEqual(amax.read_bytes(), b"old")
                self.assertEqual(self.names(), before)

    def test_a_list_writes_all_files_or_none(self):
        x = self.save("x.npy", integers(8, 8))
        before = self.names()
        for wrong in "/dev/full", "/none/z.npy", self.folder:
            said = self.run_words(
                "matmul-grouped", "-", "--server", self.address, code=FAILED,
                input=f"{x} {x} -o d.npy\n{x} {x} -o {wrong}".encode())
            self.assertIn("standard input: line 2: ", said)
            self.assertIn(wrong, said)
            self.assertEqual(self.names(), before)

    def test_what_is_no_regular_file_is_written_to(self):
        x = self.save("x.npy", integers(2, 2))
        to = ("--quiet", "--server", self.address)
        whole = self.run_words("matmul", x, x, "-o", "-", *to)
        self.assertEqual(
            self.run_words("matmul", x, x, "-o", "/dev/stdout", *to), whole)
        self.run_words("matmul", x, x, "-o", "/dev/null", *to)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        # What stdout is open for is still that file.
        with open(self.path("out.npy"), "wb") as out:
            done = subprocess.run([_GEMMCTL, "matmul", x, x, "-o",
                                   "/dev/stdout", *to], stdout=out,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, OK)
            self.assertTrue(os.path.samestat(os.fstat(out.fileno()),
                                             os.stat(self.path("out.npy"))))
        self.assertEqual(pathlib.Path(self.path("out.npy")).read_bytes(),
                         whole)


if __name__ == "__main__":
    unittest.main()
