"""gemmctl and files of quantized weights: bit for bit what the Python client
makes of the same arrays."""

import subprocess
import unittest

import gemmd
import ml_dtypes
import numpy as np

from gemmctl_case import FAILED, USAGE, GemmctlCase, integers, wide
from host_daemon import BUILD

_FILE_TYPES = {"s4": np.int8, "u4": np.uint8, "s8": np.int8, "e4m3": "V1"}


def plain(elements):
    """As numpy stores what gemmctl writes."""
    if elements.dtype == ml_dtypes.float8_e4m3fn:
        return elements.view("V1")
    return elements.astype(np.int8 if elements.dtype.name.startswith("int")
                           else np.uint8)


class GemmctlQuantizedTest(GemmctlCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = gemmd.Client(cls.address)
        cls.addClassCleanup(cls.client.close)

    def parts(self, zero_points):
        """Names of the files, as options that write or read them."""
        words = ["--scales", self.path("s.npy")]
        if zero_points:
            words += ["--zero-points", self.path("z.npy")]
        return words

    def assert_parts(self, matrix):
        """The files have those of a gemmd.QuantizedMatrix."""
        np.testing.assert_array_equal(np.load(self.path("q.npy")),
                                      plain(matrix.elements))
        np.testing.assert_array_equal(np.load(self.path("s.npy")),
                                      matrix.scales)
        if matrix.zero_points is not None:
            np.testing.assert_array_equal(np.load(self.path("z.npy")),
                                          matrix.zero_points)

    def make_offline(self, *words, code=0):
        """Of commands that need no daemon, and take no --server."""
        done = subprocess.run([BUILD / "clients/gemmctl/gemmctl", *words],
                              capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr.decode()

    def test_quantize_is_that_of_python(self):
        generator = np.random.default_rng(3)
        cases = [(dtype, group, axis, zeros)
                 for dtype in _FILE_TYPES for group in (32, 128, None)
                 for axis in (-1, -2) for zeros in (False, True)
                 if not zeros or dtype in ("s4", "u4")]
        for dtype, group, axis, zeros in cases:
            shape = (3, 165) if axis == -1 else (165, 3)
            array = generator.normal(size=shape).astype(np.float32)
            array[0] *= 0  # A scale of nothing.
            if dtype == "u4" and not zeros:
                array = np.abs(array)
            due = gemmd.quantize(array, dtype, group=group, axis=axis,
                                 zero_points=zeros)
            with self.subTest(dtype=dtype, group=group, axis=axis,
                              zeros=zeros):
                self.make_offline(
                    "quantize", self.save("w.npy", array), "-o",
                    self.path("q.npy"), "--dtype", dtype, "--group",
                    str(group or "k"), "--of", "a" if axis == -1 else "b",
                    *self.parts(zeros))
                self.assert_parts(due)
                self.make_offline(
                    "dequantize", self.path("q.npy"), "-o",
                    self.path("x.npy"), "--dtype", dtype, "--of",
                    "a" if axis == -1 else "b", *self.parts(zeros))
                np.testing.assert_array_equal(np.load(self.path("x.npy")),
                                              due.dequantize())

    def test_narrow_numbers_and_batches_are_quantized(self):
        array = np.random.default_rng(4).normal(size=(2, 40, 6))
        for kind in np.float16, ml_dtypes.bfloat16, np.float32:
            given = array.astype(kind)
            given[0, :, 0] = 2 ** -24  # No normal number of float16.
            stored = given.view("V2") if given.dtype.kind == "V" else given
            self.make_offline("quantize", self.save("w.npy", stored), "-o",
                              self.path("q.npy"), *self.parts(False))
            self.assert_parts(gemmd.quantize(given, "s4", axis=-2))

    def test_tensors_of_parts(self):
        generator = np.random.default_rng(5)
        for dtype, zeros in (("u4", True), ("s4", False), ("e4m3", False)):
            for side, axis in (("b", -2), ("a", -1)):
                array = generator.normal(size=(70, 34) if side == "b" else (
                    34, 70)).astype(np.float32)
                due = gemmd.quantize(array, dtype, group=32, axis=axis,
                                     zero_points=zeros)
                self.save("q.npy", plain(due.elements))
                self.save("s.npy", due.scales)
                if zeros:
                    self.save("z.npy", due.zero_points)
                handle = self.run_gemmctl(
                    "tensor", "upload", self.path("q.npy"), "--dtype", dtype,
                    "--quantized", side, *self.parts(zeros)).strip()
                tensor = self.client.attach(handle)
                here = tensor.quantized()
                np.testing.assert_array_equal(here.dequantize(),
                                              due.dequantize())
                said = self.run_gemmctl("tensor", "describe", handle)
                self.assertIn("quantized by groups of 32", said)
                x = integers(5, 70) if side == "b" else integers(70, 5)
                names = [self.save("x.npy", x), f"tensor:{handle}"]
                self.run_gemmctl(
                    "matmul", *(names if side == "b" else names[::-1]), "-o",
                    self.path("d.npy"), "--dtype", "bf16", "--d-type", "f32")
                factors = [wide(x), wide(due.dequantize())]
                np.testing.assert_allclose(
                    np.load(self.path("d.npy")),
                    np.matmul(*(factors if side == "b" else factors[::-1])),
                    1e-4, 1e-3)
                for name in "qsz":
                    self.save(f"{name}.npy", np.zeros(1))
                self.run_gemmctl("tensor", "download", handle, "-o",
                                 self.path("q.npy"), *self.parts(zeros))
                self.assert_parts(due)

    def test_elements_of_a_created_tensor_are_replaced(self):
        due = gemmd.quantize(np.random.default_rng(6).normal(size=(64, 3)),
                             "u4", group=32, axis=-2, zero_points=True)
        handle = self.run_gemmctl(
            "tensor", "create", "64", "3", "--dtype", "u4", "--order",
            "column", "--group", "32", "--zero-points").strip()
        upload = ["tensor", "upload",
                  self.save("q.npy", plain(due.elements)), "--dtype", "u4",
                  "--to", handle]
        self.save("s.npy", due.scales)
        self.save("z.npy", due.zero_points)
        self.run_gemmctl(*upload, "--quantized", "b", *self.parts(True))
        np.testing.assert_array_equal(
            self.client.attach(handle).quantized().dequantize(),
            due.dequantize())
        for words, says in (
                ((), "the tensor is quantized by groups of 32 with zero "
                     "points u4 column-major, but what is uploaded not "
                     "quantized u4 column-major"),
                (("--quantized", "b", *self.parts(False)),
                 "uploaded quantized by groups of 32 u4 column-major")):
            self.assertIn(says, self.run_gemmctl(*upload, *words, code=FAILED))

    def packed(self, rows, columns):
        words = np.random.default_rng(rows).integers(
            -2 ** 31, 2 ** 31, (rows, columns))
        return words.astype(np.int32)

    def test_checkpoints_are_read_as_in_python(self):
        scales = np.random.default_rng(1).random((4, 24)).astype(np.float16)
        qweight, qzeros = self.packed(16, 24), self.packed(4, 3)
        files = [self.save("w.npy", qweight), self.save("gs.npy", scales),
                 self.save("gz.npy", qzeros)]
        out = ["-o", self.path("q.npy"), *self.parts(True)]
        for words, one_more in (((), True), (("--v2",), False)):
            self.make_offline("from-gptq", *files, *out, *words)
            self.assert_parts(gemmd.from_gptq(qweight, scales, qzeros,
                                              zeros_plus_one=one_more))
        qweight = self.packed(128, 3)
        files[0] = self.save("w.npy", np.asfortranarray(qweight))
        self.make_offline("from-awq", *files, *out)
        self.assert_parts(gemmd.from_awq(qweight, scales, qzeros))
        # Eight bits: zero points of 127, and the one more.
        qweight = self.packed(32, 24)
        files[0] = self.save("w.npy", qweight)
        qzeros = np.full((4, 6), 0x7f7f7f7f, np.int32)
        files[2] = self.save("gz.npy", qzeros)
        self.make_offline("from-gptq", *files, "--bits", "8", "-o",
                          self.path("q.npy"), *self.parts(False))
        self.assert_parts(gemmd.from_gptq(qweight, scales, qzeros, bits=8))

    def test_gptq_whose_last_group_is_shorter(self):
        files = [self.save("w.npy", self.packed(20, 8)),  # 160 k.
                 self.save("gs.npy", np.ones((3, 8), np.float16)),
                 self.save("gz.npy", self.packed(3, 1))]
        out = ["-o", self.path("q.npy"), *self.parts(True)]
        k = np.arange(160, dtype=np.int32)
        self.make_offline("from-gptq", *files, *out, "--g-idx",
                          self.save("g.npy", k // 64))
        self.assertIn(
            "g_idx: k 54 is of group 1, not 0; allowed: groups of 64",
            self.make_offline("from-gptq", *files, *out, "--g-idx",
                              self.save("g.npy", k // 54), code=FAILED))

    def test_checkpoints_that_are_wrong_are_refused(self):
        files = [self.save("w.npy", self.packed(16, 24)),
                 self.save("gs.npy", np.ones((4, 24), np.float16)),
                 self.save("gz.npy", self.packed(4, 3))]
        out = ["-o", self.path("q.npy"), *self.parts(True)]
        order = np.arange(128, dtype=np.int32) // 32
        good = self.save("g.npy", order)
        self.make_offline("from-gptq", *files, *out, "--g-idx", good)
        order[5] = 3
        for words, says in (
                ((*files, *out, "--g-idx", self.save("g.npy", order)),
                 "g_idx: k 5 is of group 3, not 0"),
                ((files[1], *files[1:], *out),
                 "the weights are 4 x 24 of f16; allowed: a matrix of s32"),
                ((files[0], files[1], self.save("gz3.npy", self.packed(3, 3)),
                  *out), "the zero points are 3 x 24; allowed: 4 x 24"),
                ((files[0], self.save("x.npy", np.ones((4, 23), "f4")),
                  files[2], *out), "the scales are 4 x 23; allowed: groups x "
                                   "24"),
                ((*files[:2], self.save("gz8.npy", self.packed(4, 6)),
                  "--bits", "8", *out), "allowed with 8 bits: 128"),
                ((*files, "-o", self.path("q.npy"), *self.parts(False)),
                 "it has zero points; --zero-points FILE says where")):
            with self.subTest(says):
                self.assertIn(says, self.make_offline("from-gptq", *words,
                                                      code=FAILED))

    def test_what_does_not_go_together_is_refused(self):
        w = self.save("w.npy", -np.ones((64, 3), np.float32))
        scales = self.save("s.npy", np.ones((2, 3), np.float32))
        q = self.save("q.npy", np.ones((64, 3), np.int8))
        make = ("quantize", w, "-o", self.path("x.npy"), "--scales",
                self.path("xs.npy"))
        for words, says in (
                ((*make, "--dtype", "u4"), "negative elements, which u4 holds"
                                           " with zero points alone"),
                ((*make, "--dtype", "s8", "--zero-points", "z.npy"),
                 "zero points do not go with s8; allowed: with s4 and u4"),
                ((*make, "--dtype", "bf16"), "allowed in quantized weights:"),
                ((*make[:1], q, *make[2:]), "allowed where numbers are real"),
                (("dequantize", q, "-o", "x.npy", "--scales", w),
                 "scales for 64 groups of 64 k; allowed: 1 of all of them, 2 "
                 "of 32")):
            with self.subTest(says):
                self.assertIn(says, self.make_offline(*words, code=FAILED))
        self.assertIn("--group is 48; allowed: 32, 64, 128, k",
                      self.make_offline(*make, "--group", "48", code=USAGE))
        for words, says in (
                (("--scales", scales), "need --quantized SIDE"),
                (("--quantized", "b"), "--quantized needs --scales"),
                (("--quantized", "b", "--sparse", "b", "--scales", scales),
                 "do not go together")):
            self.assertIn(says, self.run_gemmctl("tensor", "upload", q,
                                                 *words, code=USAGE))
        handle = self.run_gemmctl("tensor", "upload", q, "--dtype", "s4",
                                  "--quantized", "b", "--scales",
                                  scales).strip()
        self.assertIn(
            "--scales FILE says where the scales go", self.run_gemmctl(
                "tensor", "download", handle, "-o", self.path("x.npy"),
                code=FAILED))
        self.assertIn(
            "it has no zero points", self.run_gemmctl(
                "tensor", "download", handle, "-o", self.path("x.npy"),
                "--scales", self.path("xs.npy"), "--zero-points",
                self.path("xz.npy"), code=FAILED))


if __name__ == "__main__":
    unittest.main()
