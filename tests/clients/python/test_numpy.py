"""The Python client as users of numpy expect it: operators, vectors, arrays of
other libraries, and what is refused in whose words."""

import re
import pathlib
import sys
import types
import unittest
from unittest import mock

import ml_dtypes
import numpy as np

import gemmd
from fake_daemon import FakeDaemon
from gemmd import arrays, product

BF16 = np.dtype(ml_dtypes.bfloat16)
_ROOT = pathlib.Path(__file__).resolve().parents[3]


def integers(*shape, dtype=BF16, seed=1):
    generator = np.random.default_rng([seed, *shape])
    return generator.integers(-4, 5, shape).astype(dtype)


def exact(a, b):
    return np.asarray(a, np.float64) @ np.asarray(b, np.float64)


class Exported:
    """An array of another library, which offers DLPack and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self._array = array
        self._device = device

    def __dlpack__(self, **options):
        if self._device[0] != 1:
            raise BufferError("not in host memory")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


class NumpyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = FakeDaemon().__enter__()
        cls.client = gemmd.Client(cls.daemon.target, timeout=30)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.__exit__()

    def assert_product(self, d, a, b):
        np.testing.assert_array_equal(np.asarray(d, np.float64), exact(a, b))

    def assert_refused(self, says, call):
        count = len(self.daemon.headers)
        with self.assertRaisesRegex(gemmd.InvalidArgument, says):
            call()
        self.assertEqual(len(self.daemon.headers), count)

    def test_vectors_count_as_with_numpy(self):
        a, v, w = integers(5, 7), integers(7), integers(5)
        for left, right in ((a, v), (w, a), (v, v), (a.T, w)):
            d = self.client.matmul(left, right)
            self.assertEqual(np.shape(d), np.shape(exact(left, right)))
            self.assert_product(d, left, right)
        self.assertIsInstance(self.client.matmul(v, v), BF16.type)

    def test_vectors_as_c_and_out(self):
        a, v, c = integers(5, 7), integers(7), integers(5)
        out = np.zeros(10, np.float32)[::2]
        self.assertIs(self.client.matmul(a, v, out=out), out)
        self.assert_product(out, a, v)
        d = self.client.matmul(a, v, c=c, beta=1)
        np.testing.assert_array_equal(np.asarray(d, np.float64),
                                      exact(a, v) + c.astype(np.float64))
        self.assert_refused(r"out: shape \(5, 1\) is not that of the product, "
                            r"\(5,\)", lambda: self.client.matmul(
                                a, v, out=np.zeros((5, 1), np.float32)))

    def test_lines_that_lie_no_whole_elements_apart(self):
        for shape in (5, 6), (2, 5, 6):
            count, *line = shape
            records = np.zeros(count, [("tag", np.uint8),
                                       ("values", np.float32, line)])
            records["values"] = integers(*shape)
            values = records["values"]
            lies = arrays.operand(values)
            self.assertEqual(bytes(lies.data), values.tobytes())
            self.assertEqual(lies.leading_dimension, 6)
            self.assertIsNone(lies.batch_stride)

    def test_nothing_behind_the_last_line_is_sent(self):
        padded = integers(5, 16)[:, 2:15]
        for view in padded, padded.T:
            self.assertEqual(len(arrays.operand(view).data),
                             (4 * 16 + 13) * BF16.itemsize)

    def test_one_matrix_for_all_is_sent_once(self):
        call = product.Call(integers(3, 5, 6), integers(1, 6, 2))
        self.assertEqual(len(call.buffers["b"]), 6 * 2 * BF16.itemsize)

    def test_matrices_far_apart_are_copied(self):
        lies = arrays.operand(integers(60, 5, 6)[::20])
        self.assertEqual(len(lies.data), 3 * 5 * 6 * BF16.itemsize)
        self.assertIsNone(lies.batch_stride)

    def test_operators_of_tensors(self):
        a, b = integers(4, 6), integers(6, 5)
        with self.client.tensor(a) as ta, self.client.tensor(b) as tb:
            for left, right in ((ta, b), (a, tb), (ta, tb)):
                self.assert_product(left @ right, a, b)

    def test_a_transposed_tensor_is_a_view(self):
        a, b = integers(6, 4), integers(6, 5)
        with self.client.tensor(a) as ta, self.client.tensor(b) as tb:
            view = ta.T
            self.assertEqual((view.shape, view.order, view.handle),
                             ((4, 6), "F", ta.handle))
            self.assert_product(view @ b, a.T, b)
            self.assert_product(view @ tb, a.T, b)
            self.assert_product(tb.T @ ta, b.T, a)
            np.testing.assert_array_equal(view.numpy(), a.T)
            np.testing.assert_array_equal(view.T.numpy(), a)
            view.upload(2 * a.T)
            np.testing.assert_array_equal(ta.numpy(), 2 * a)
            self.assert_refused("out: a transposed tensor", lambda: (
                self.client.matmul(a.T, b, out=tb.T)))

    def test_a_square_tensor_and_its_transpose_differ(self):
        a = integers(4, 4)
        with self.client.tensor(a) as ta:
            self.assert_product(ta @ ta.T, a, a.T)
            self.assert_product(ta.T @ ta, a.T, a)

    def test_asarray_downloads(self):
        a = integers(4, 6)
        with self.client.tensor(a) as ta:
            np.testing.assert_array_equal(np.asarray(ta), a)
            self.assertEqual(np.asarray(ta, np.float32).dtype, np.float32)
            self.assertEqual((ta.nbytes, ta.size, ta.ndim, len(ta)),
                             (a.nbytes, a.size, a.ndim, len(a)))

    def test_attach_by_handle(self):
        a = integers(4, 6)
        with self.client.tensor(a, label="weights") as ta:
            again = self.client.attach(ta.handle)
            self.assertEqual((again.shape, again.dtype, again.label),
                             (a.shape, a.dtype, "weights"))
            np.testing.assert_array_equal(again.numpy(), a)
        with self.assertRaises(gemmd.NotFound):
            self.client.attach(ta.handle)

    def test_representations(self):
        with self.client.tensor(integers(4, 6), label="w") as tensor:
            self.assertEqual(repr(tensor), "<gemmd.Tensor 'w' 4x6 bfloat16 "
                                           "order C on host>")
        self.assertEqual(repr(self.client),
                         f"<gemmd.Client {self.daemon.target}>")
        product = self.client.product(integers(2, 3), integers(3, 4))
        self.assertEqual(repr(product), "Product(d=<2x4 bfloat16 array>, "
                                        "execution=<numpy on host fake>)")

    def test_version_is_that_of_the_project(self):
        text = (_ROOT / "CMakeLists.txt").read_text()
        version = re.search(r"project\(gemmd VERSION (\S+)", text)[1]
        self.assertEqual(gemmd.__version__, version)

    def test_arrays_of_other_libraries(self):
        a, b = integers(4, 6, dtype=np.float16), integers(6, 5,
                                                          dtype=np.float16)
        self.assert_product(self.client.matmul(Exported(a), Exported(b)), a, b)

        class WithArray:
            def __array__(self, dtype=None, copy=None):
                return a
        self.assert_product(self.client.matmul(WithArray(), b), a, b)

    def test_bfloat16_of_torch(self):
        # The part of torch that matters: DLPack of int16 and not of bfloat16.
        torch = types.SimpleNamespace(bfloat16=object(), int16=object())

        class TorchTensor(Exported):
            dtype = torch.bfloat16

            def __dlpack__(self, **options):
                raise RuntimeError("no bfloat16")

            def view(self, dtype):
                assert dtype is torch.int16
                return Exported(self._array.view(np.int16))

        a, b = integers(4, 6), integers(6, 5)
        with mock.patch.dict(sys.modules, torch=torch):
            self.assert_product(self.client.matmul(TorchTensor(a), b), a, b)

    def test_float8_of_torch(self):
        torch = types.SimpleNamespace(float8_e4m3fn=object(), uint8=object())
        array = integers(4, 6, dtype=ml_dtypes.float8_e4m3fn)
        value = types.SimpleNamespace(
            dtype=torch.float8_e4m3fn, __dlpack__=None,
            view=lambda dtype: Exported(array.view(np.uint8)))
        with mock.patch.dict(sys.modules, torch=torch):
            found = arrays.as_array(value, "a")
        self.assertEqual(found.dtype, array.dtype)
        np.testing.assert_array_equal(found, array)

    def test_what_dlpack_does_not_know_comes_as_an_array(self):
        class JaxArray(Exported):
            def __dlpack__(self, **options):
                raise BufferError("Unsupported dtype in DLTensor.")

            def __array__(self, dtype=None, copy=None):
                return self._array

        a, b = integers(4, 6), integers(6, 5)
        self.assert_product(self.client.matmul(JaxArray(a), b), a, b)

        class Refusing(JaxArray):
            def __array__(self, dtype=None, copy=None):
                raise RuntimeError("it requires grad")

        # numpy would fetch what is elsewhere.
        for refused in JaxArray(a, (10, 0)), Refusing(a):
            self.assert_refused(
                "a: .* is no array in host memory .*copy it",
                lambda refused=refused: self.client.matmul(refused, b))

    def test_arrays_of_a_gpu_are_refused(self):
        a, b = integers(4, 6), integers(6, 5)
        self.assert_refused(
            "a: Exported does not say where it lies .*copy it",
            lambda: self.client.matmul(Exported(a, (2, 0)), b))

    def test_types_are_refused_in_words_of_numpy(self):
        b = integers(6, 5)
        for a, how in (
                (np.ones((4, 6)), r"a\.astype\(np\.float32\)"),
                (np.ones((4, 6), int), r"a\.astype\(np\.int8\)"),
                ([[1, 2], [3, 4]], r"np\.asarray\(a, np\.int8\)"),
                ([[1.5, 2]], r"np\.asarray\(a, np\.float32\)"),
                (((1, 1000),), r"np\.asarray\(a, np\.float32\), which is "
                               r"exact to 2\*\*24")):
            self.assert_refused(
                rf"a: matrices of dtype {np.asarray(a).dtype} are not "
                rf"multiplied; convert it, as in {how}\. Served: ",
                lambda a=a: self.client.matmul(a, b))
        with self.assertRaisesRegex(
                gemmd.Unimplemented, r"b: bfloat16 does not go with a of bool;"
                r" served with it: bool. The nearest is a\.astype\(ml_dtypes\."
                r"bfloat16\)$"):
            self.client.matmul(np.ones((4, 6), bool), b)
        for refused in (lambda: self.client.zeros((2, 2), "no such"),
                        lambda: self.client.matmul(b.T, b, out_dtype="none"),
                        lambda: self.client.matmul([[1], [1, 2]], b)):
            with self.assertRaises(gemmd.InvalidArgument):
                refused()

    def test_what_the_daemon_says_names_types_of_numpy(self):
        a = np.ones((4, 6), np.int8)
        with self.assertRaises(gemmd.Unimplemented) as raised:
            self.client.matmul(a, a.T)
        self.assertIn("int8", str(raised.exception))
        self.assertNotIn("DATA_TYPE", str(raised.exception))

    def test_masks_are_not_ignored(self):
        b = integers(6, 5)
        masked = np.ma.masked_array(integers(4, 6), mask=True)
        self.assert_refused("a: masked arrays .* a.filled",
                            lambda: self.client.matmul(masked, b))
        self.assert_refused("array: masked",
                            lambda: self.client.tensor(masked))

    def test_a_read_only_out_is_refused(self):
        a, b = integers(4, 6), integers(6, 5)
        out = np.zeros((4, 5), np.float32)
        out.flags.writeable = False
        self.assert_refused("out: the array is read-only",
                            lambda: self.client.matmul(a, b, out=out))
        np.testing.assert_array_equal(out, 0)

    def test_wrong_scalars_are_refused(self):
        a, b = integers(4, 6), integers(6, 5)
        for name in ("alpha", "beta"):
            for value in ("one", None, 1j, [1, 2]):
                self.assert_refused(
                    f"{name}: .* is not a real number",
                    lambda: self.client.matmul(a, b, **{name: value}))
        self.assert_refused("timeout", lambda: self.client.info(timeout="x"))
        self.assert_refused("shape", lambda: self.client.zeros(3, "f4"))
        d = self.client.matmul(a, b, alpha=np.float32(2))
        self.assert_product(d, 2 * a, b)

    def test_a_closed_client_says_so(self):
        a, b = integers(4, 6), integers(6, 5)
        client = gemmd.Client(self.daemon.target)
        tensor = client.tensor(a)
        client.close()
        self.assertIn("closed", repr(client))
        for call in (client.info, lambda: client.matmul(a, b), tensor.numpy,
                     lambda: tensor.upload(a), tensor.delete):
            with self.assertRaisesRegex(gemmd.FailedPrecondition,
                                        "the client is closed"):
                call()

    def test_leaving_with_does_not_need_the_tensor(self):
        with self.client.tensor(integers(4, 6)) as tensor:
            tensor.delete()
        with self.assertRaises(gemmd.NotFound):
            tensor.delete()

    def test_leaving_with_keeps_the_first_error(self):
        client = gemmd.Client(self.daemon.target)
        with self.assertRaises(ZeroDivisionError):
            with client.tensor(integers(4, 6)):
                client.close()
                raise ZeroDivisionError

    def test_waits_for_a_daemon(self):
        self.assertIs(self.client.wait_for_ready(30), self.client)
        with gemmd.Client("127.0.0.1:1") as nobody:
            with self.assertRaisesRegex(
                    gemmd.DeadlineExceeded,
                    "no daemon serves at 127.0.0.1:1 within 0.1 seconds"):
                nobody.wait_for_ready(0.1)

    def test_waits_for_a_daemon_that_does_not_serve_yet(self):
        self.daemon.not_serving = 2
        self.client.wait_for_ready(30)
        self.assertEqual(self.daemon.not_serving, 0)

    def test_the_daemon_comes_from_the_environment(self):
        with mock.patch.dict("os.environ", GEMMD_SERVER=self.daemon.target):
            with gemmd.Client() as client:
                self.assertEqual(client.info().version, "fake")


if __name__ == "__main__":
    unittest.main()
