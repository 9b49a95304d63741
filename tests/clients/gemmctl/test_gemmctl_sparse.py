"""gemmctl with sparse matrices: files that it and the Python client make, and
products of them on the host device.

GEMMD_BUILD names the build folder.
"""

import subprocess
import unittest

import gemmd
import ml_dtypes
import numpy as np

from gemmctl_case import FAILED, OK, USAGE, GemmctlCase, integers, wide
from host_daemon import BUILD
from test_metadata_order import to_cutlass

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


class GemmctlSparseTest(GemmctlCase):
    def local(self, *words, code=OK):
        """A command that asks no daemon."""
        done = subprocess.run([BUILD / "clients/gemmctl/gemmctl", *words],
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr.decode()

    def compress(self, array, *flags):
        self.local("compress", self.save("dense.npy", array), "-o",
                   self.path("lines.npy"), *flags)
        return np.load(self.path("lines.npy"))

    def test_metadata_in_the_order_of_cutlass(self):
        for dtype, name in ((np.float32, "f32"), (np.float16, "f16"),
                            (BF16, "bf16"), (E4M3, "e4m3"), (np.int8, "s8")):
            for shape, axis in ((64, 256), -1), ((2, 256, 96), -2):
                dense = np.abs(integers(*shape)).astype(dtype)
                due = gemmd.sparse24(dense, axis, prune=True)
                values = due.values
                if values.dtype.kind == "V":
                    values = values.view(f"V{values.itemsize}")
                files = [self.save("v.npy", values),
                         self.save("m.npy", to_cutlass(due))]
                flags = ["--of", "a" if axis == -1 else "b", "--dtype", name]
                with self.subTest(name, shape=shape):
                    self.local("from-cutlass", *files, "-o",
                               self.path("lines.npy"), *flags)
                    np.testing.assert_array_equal(
                        np.load(self.path("lines.npy")), due.lines)
        for values, metadata, says in (
                (np.zeros((16, 16), "f2"), np.zeros((16, 2), "i2"),
                 "the values are 16 x 16; allowed in CUTLASS's order of f16: "
                 "lines in multiples of 32, of multiples of 16 values"),
                (np.zeros((32, 16), "f2"), np.zeros((32, 1), "i4"),
                 "the metadata are 32 x 1 words of 32 bits; allowed: 32 x 2 of"
                 " 16"),
                (np.zeros((32, 16), "f2"), np.zeros((32, 2), "u2"),
                 "its metadata for k 0 to 3 of line 0 is 0x0")):
            error = self.local("from-cutlass", self.save("v.npy", values),
                               self.save("m.npy", metadata), "-o",
                               self.path("lines.npy"), code=FAILED)
            self.assertIn(says, error)

    def test_files_are_those_of_the_python_client(self):
        for dtype, name in ((np.float32, ""), (np.float16, ""), (BF16, "bf16"),
                            (E4M3, "e4m3"), (np.int8, ""), (np.uint8, "")):
            for shape in ((5, 12), (3, 2, 4), (2, 200)):
                array = np.abs(integers(*shape)).astype(dtype)
                flags = ["--prune"] + (["--dtype", name] if name else [])
                made = gemmd.sparse24(array, prune=True)
                lines = self.compress(array, *flags)
                np.testing.assert_array_equal(lines, made.lines)
                self.local("decompress", self.path("lines.npy"), "-o",
                           self.path("back.npy"), "--dtype",
                           name or {"f": "f", "i": "s", "u": "u"}[
                               np.dtype(dtype).kind]
                           + str(8 * np.dtype(dtype).itemsize))
                back = np.load(self.path("back.npy")).view(dtype)
                np.testing.assert_array_equal(wide(back),
                                              wide(made.toarray()))

    def test_columns_run_along_k_of_a_b(self):
        b = integers(8, 5, dtype=np.int8)
        made = gemmd.sparse24(b, axis=-2, prune=True)
        np.testing.assert_array_equal(
            self.compress(b, "--of", "b", "--prune"), made.lines)

    def test_either_operand_is_multiplied(self):
        a, b = integers(5, 16), integers(16, 7)
        left = gemmd.sparse24(a.astype(BF16), prune=True)
        self.compress(a, "--dtype", "bf16", "--prune")
        self.run_gemmctl("matmul", self.path("lines.npy"),
                         self.save("b.npy", b), "-o", self.path("d.npy"),
                         "--sparse", "a", "--dtype", "bf16", "--d-type", "f32")
        np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                      wide(left.toarray()) @ wide(b))
        right = gemmd.sparse24(b, axis=0, prune=True)
        lines = self.save("lines.npy", right.lines)
        self.run_gemmctl("matmul", self.save("a.npy", a), lines, "-o",
                         self.path("d.npy"), "--sparse", "b", "--dtype", "f32",
                         "--precision", "tf32")
        np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                      wide(a) @ wide(right.toarray()))

    def test_tensors(self):
        weights = gemmd.sparse24(integers(16, 7, dtype=np.int8), axis=0,
                                 prune=True)
        lines = self.save("lines.npy", weights.lines)
        handle = self.run_gemmctl("tensor", "upload", lines, "--sparse", "b",
                                  "--dtype", "s8").strip()
        self.assertIn("16 x 7 sparse s8 column-major",
                      self.run_gemmctl("tensor", "describe", handle))
        x = integers(5, 16, dtype=np.int8)
        self.run_gemmctl("matmul", self.save("x.npy", x), f"tensor:{handle}",
                         "-o", self.path("d.npy"))
        np.testing.assert_array_equal(np.load(self.path("d.npy")),
                                      wide(x) @ wide(weights.toarray()))
        self.run_gemmctl("tensor", "download", handle, "-o",
                         self.path("back.npy"))
        np.testing.assert_array_equal(np.load(self.path("back.npy")),
                                      weights.lines)
        bad = weights.lines.copy()
        bad[6, 9] = 0x40
        error = self.run_gemmctl(
            "tensor", "upload", self.save("bad.npy", bad), "--to", handle,
            "--sparse", "b", "--dtype", "s8", code=FAILED)
        self.assertIn("data has metadata 0x0 for k 8 to 11 of column 6", error)
        error = self.run_gemmctl(
            "tensor", "upload", self.save("dense.npy", integers(
                16, 7, dtype=np.int8)), "--to", handle, code=FAILED)
        self.assertIn("the tensor is sparse s8 column-major, but what is "
                      "uploaded s8 row-major", error)
        empty = self.run_gemmctl("tensor", "create", "4", "8", "--sparse",
                                 "--dtype", "s8").strip()
        self.run_gemmctl("tensor", "download", empty, "-o",
                         self.path("back.npy"))
        self.assertEqual(np.load(self.path("back.npy")).tolist(),
                         [[0, 0, 0, 0, 0x44]] * 4)

    def test_what_is_wrong_is_named(self):
        dense = self.save("dense.npy", np.ones((3, 8), np.int8))
        out = self.path("out.npy")
        self.assertIn(
            "dense.npy: it has 4 elements that are not zero at k 0 to 3 of row "
            "0; allowed: 2 of every 4. --prune keeps",
            self.local("compress", dense, "-o", out, code=FAILED))
        six = self.save("six.npy", np.zeros((3, 6), np.int8))
        self.assertIn("its rows have 6 elements; allowed in a sparse matrix of "
                      "s8: multiples of 4",
                      self.local("compress", six, "-o", out, code=FAILED))
        bits = self.save("bits.npy", np.zeros((3, 8), bool))
        self.assertIn("elements are b1; allowed in a sparse matrix: bf16, f16",
                      self.local("compress", bits, "-o", out, code=FAILED))
        lines = self.save("lines.npy", np.zeros((3, 5), np.uint8))
        self.assertIn("its metadata for k 0 to 3 of line 0 is 0x0; allowed: "
                      "0x4, 0x8",
                      self.local("decompress", lines, "-o", out, "--dtype",
                                 "s8", code=FAILED))
        for dtype in "s4", "u4", "s32", "b1":
            self.assertIn(f"elements are {dtype}; allowed in a sparse matrix: ",
                          self.local("decompress", lines, "-o", out, "--dtype",
                                     dtype, code=FAILED))
        short = self.save("short.npy", np.zeros((3, 6), np.uint8))
        self.assertIn("its lines have 6 bytes; allowed in sparse lines of s8: "
                      "multiples of 5, and 3 more",
                      self.local("decompress", short, "-o", out, "--dtype",
                                 "s8", code=FAILED))
        self.assertIn("allowed: a, b", self.local(
            "compress", dense, "-o", out, "--of", "c", code=USAGE))
        self.assertIn("does not say their type", self.run_gemmctl(
            "matmul", lines, dense, "-o", out, "--sparse", "a", code=FAILED))


if __name__ == "__main__":
    unittest.main()
