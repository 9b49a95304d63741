"""Types, batches and the epilogue: arguments of numpy -> what is sent."""

import itertools
import re
import unittest

import gemmd
import ml_dtypes
import numpy as np
from gemmd import api, arrays, product, wire

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
E5M2 = ml_dtypes.float8_e5m2
# Values of each type that others may not hold.
EXTREMES = {
    np.float32: (1e38, 1 + 2**-23), np.float16: (65504, 1 + 2**-10),
    BF16: (2.0**127, 1 + 2**-7), E4M3: (448, 1.125), E5M2: (57344, 1.25),
    np.int8: (-128, 127), np.uint8: (0, 255), np.bool_: (0, 1),
    ml_dtypes.int4: (-8, 7), ml_dtypes.uint4: (0, 15)}


def number(enum, name):
    return api.enum(enum)[name]


def call(a, b, **options):
    return product.Call(a, b, **options)


def ones(*shape, dtype=BF16):
    return np.ones(shape, dtype)


class TypesTest(unittest.TestCase):
    def test_every_type_has_its_result(self):
        for dtype, result in (
                (np.float32, np.float32), (np.float16, np.float16),
                (BF16, BF16), (E4M3, E4M3), (E5M2, E5M2),
                (np.int8, np.int32), (np.uint8, np.int32),
                (np.bool_, np.int32)):
            made = call(ones(3, 8, dtype=dtype), ones(8, 5, dtype=dtype))
            self.assertEqual(made.dtype, result)

    def test_pairs_of_eight_bits_mix(self):
        made = call(ones(3, 8, dtype=E5M2), ones(8, 5, dtype=E4M3),
                    out_dtype=BF16)
        self.assertEqual(made.header.problem.b_type,
                         number("DataType", "DATA_TYPE_E4M3"))
        call(ones(3, 8, dtype=np.uint8), ones(8, 5, dtype=np.int8),
             out_dtype=np.uint8)
        with self.assertRaisesRegex(
                gemmd.Unimplemented, "b: uint8 does not go with a of float16; "
                "served with it: float16, int4, uint4, int8, float8_e4m3fn. "):
            call(ones(3, 8, dtype=np.float16), ones(8, 5, dtype=np.uint8))

    def test_weights_go_by_the_rules_of_the_other_operand(self):
        for weights in (ml_dtypes.int4, ml_dtypes.uint4, np.int8, E4M3):
            for other in (BF16, np.float16):
                for a, b in ((weights, other), (other, weights)):
                    made = call(ones(3, 8, dtype=a), ones(8, 5, dtype=b))
                    self.assertEqual(made.dtype, other)
                    made = call(ones(3, 8, dtype=a), ones(8, 5, dtype=b),
                                out_dtype=np.float32)
                    with self.assertRaisesRegex(gemmd.InvalidArgument,
                                                "precision: 'fast'"):
                        call(ones(3, 8, dtype=a), ones(8, 5, dtype=b),
                             precision="fast")

    def test_bytes_in_another_order_are_told(self):
        a, swapped = ones(3, 8, dtype=np.float32), np.ones((3, 3), ">f4")
        for name, make in (
                ("a", lambda: call(a.astype(">f4"), a.T)),
                ("b", lambda: call(a, a.T.astype(">f4"))),
                ("c", lambda: call(a, a.T, c=swapped, beta=1)),
                ("out", lambda: call(a, a.T, out=swapped)),
                ("out_dtype", lambda: call(a, a.T, out_dtype=">f4"))):
            with self.assertRaisesRegex(gemmd.InvalidArgument, (
                    rf"^INVALID_ARGUMENT: {name}: dtype >f4 has .*"
                    rf"\.astype\('<f4'\)")):
                make()
        # What is no type of a matrix in either order.
        with self.assertRaisesRegex(gemmd.InvalidArgument, "np.float32"):
            call(a.astype(">f8"), a.T)

    def test_long_doubles_have_a_nearest_type(self):
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    r"a\.astype\(np\.float32\)"):
            call(ones(3, 8, dtype=np.longdouble), ones(8, 5))

    def test_integers_are_converted_to_what_holds_them(self):
        b = ones(2, 5)
        for values, nearest in (
                ((-128, 127), "np.int8"), ((0, 127), "np.int8"),
                ((0, 128), "np.uint8"), ((0, 255), "np.uint8"),
                ((-1, 128), "np.float32"), ((-129, 0), "np.float32"),
                ((0, 256), "np.float32"), ((0, 1 << 40), "np.float32")):
            exact = (r", which is exact to 2\*\*24"
                     if nearest == "np.float32" else "")
            for dtype in (np.int64, ">i8"):
                a = np.array([values], dtype)
                with self.subTest(values), self.assertRaisesRegex(
                        gemmd.InvalidArgument, rf"^INVALID_ARGUMENT: a: .* "
                        rf"a\.astype\({nearest}\){exact}\. Served: "):
                    call(a, b)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    r"a\.astype\(np\.int8\)"):
            call(ones(3, 0, dtype=np.uint32), ones(0, 5))
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, r"array: .* np\.asarray\(array, "
                r"np\.float32\)"):
            gemmd.sparse24([[1000, 0, 0, 0]])
        # Of what lies elsewhere nobody reads the elements.
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, "the nearest is np.float32, which is "
                r"exact to 2\*\*24\. Served"):
            arrays.wire_type(np.int64)

    def test_what_does_not_go_together_is_converted_without_loss(self):
        refused = 0
        for left, right in itertools.product(EXTREMES, repeat=2):
            # Every value of one operand is a row, of the other a column.
            of = {"a": np.array([EXTREMES[left]]).astype(left).T,
                  "b": np.array([EXTREMES[right]]).astype(right)}
            try:
                call(**of)
            except gemmd.Unimplemented as error:
                refused += 1
                advice = str(error).partition(" The nearest is ")[2]
            else:
                continue
            with self.subTest(advice, a=left, b=right):
                for side, name in re.findall(
                        r"([ab])\.astype\((?:np|ml_dtypes)\.(\w+)\)", advice):
                    wide = of[side].astype(name)
                    np.testing.assert_array_equal(
                        wide.astype(float), of[side].astype(float))
                    of[side] = wide
                call(**of)
        self.assertGreater(refused, 50)

    def test_masks_of_bits_are_not_ignored(self):
        with self.assertRaisesRegex(gemmd.InvalidArgument, "packed: masked"):
            gemmd.Bits(np.ma.masked_array(np.zeros((2, 1), np.uint8), True), 8)

    def test_results_name_the_nearest(self):
        with self.assertRaisesRegex(
                gemmd.Unimplemented, "out_dtype: int8 is no result of bfloat16"
                "; served: float32, .*The nearest is bfloat16"):
            call(ones(3, 8), ones(8, 5), out_dtype=np.int8)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "c: .* allowed: int32"):
            call(ones(3, 8, dtype=np.int8), ones(8, 5, dtype=np.int8),
                 c=np.ones((3, 5), np.float32), beta=1, out_dtype=np.int32)

    def test_of_whom_a_type_is_that_no_result_has(self):
        a, wide = ones(3, 8, dtype=np.float32), np.zeros((3, 3))
        for name, options in (
                ("out", {"out": wide}),
                ("pre_activation_out", {"pre_activation_out": wide}),
                ("c", {"c": wide, "beta": 1}),
                ("c", {"c": wide, "beta": 1, "out_dtype": np.float16}),
                ("out_dtype", {"out_dtype": float})):
            with self.assertRaisesRegex(
                    gemmd.Unimplemented, f"^UNIMPLEMENTED: {name}: float64 is "
                    "no result of float32; served: float32, .* is float32$"):
                call(a, a.T, **options)
        for dtype in (object, "S8", [("x", "f4")]):
            with self.assertRaisesRegex(gemmd.Unimplemented, "out: .* is no"):
                call(a, a.T, out=np.zeros((3, 3), dtype))

    def test_bools_are_packed_along_k(self):
        a = np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1]], bool)
        b = np.array([[1]] * 9, bool)
        made = call(a, b, bits="xor")
        self.assertEqual(bytes(made.buffers["a"]), b"\x01\x01")
        self.assertEqual(bytes(made.buffers["b"]), b"\xff\x01")
        problem = made.header.problem
        self.assertEqual((problem.a_order, problem.b_order),
                         (api.ROW_MAJOR, api.COLUMN_MAJOR))
        self.assertEqual(problem.k, 9)

    def test_packed_bits_are_sent_as_they_are(self):
        packed = np.array([[1, 0xff]], np.uint8)
        bits = gemmd.Bits(packed, 9)
        self.assertEqual(bits.shape, (1, 9))
        made = call(bits, gemmd.Bits(packed, 9).T)
        self.assertEqual(bytes(made.buffers["a"]), b"\x01\xff")
        self.assertEqual(made.header.problem.b_order, api.COLUMN_MAJOR)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "packed: "):
            gemmd.Bits(packed, 17)

    def test_precision_and_sums(self):
        f32, e4m3 = ones(3, 8, dtype=np.float32), ones(3, 8, dtype=E4M3)
        problem = call(f32, f32.T, precision="tf32").header.problem
        self.assertEqual(problem.precision,
                         number("Precision", "PRECISION_TF32"))
        problem = call(e4m3, e4m3.T, accumulate=np.float16).header.problem
        self.assertEqual(problem.accumulator,
                         number("Accumulator", "ACCUMULATOR_F16"))
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, "precision: 'tf32' does not go with "
                "float8_e4m3fn; allowed: None, 'fast'"):
            call(e4m3, e4m3.T, precision="tf32")
        with self.assertRaisesRegex(gemmd.Unimplemented, "accumulate: "):
            call(ones(3, 8), ones(8, 3), accumulate=np.float16)
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, "precision: 'fast' does not go with "
                "float8_e4m3fn summed in float16; allowed: None"):
            call(e4m3, e4m3.T, accumulate=np.float16, precision="fast")


class BatchTest(unittest.TestCase):
    def sent(self, a, b, **options):
        made = call(a, b, **options)
        return made, made.header.problem

    def test_leading_dimensions_are_a_batch(self):
        made, problem = self.sent(ones(4, 3, 8), ones(4, 8, 5))
        self.assertEqual(problem.batch, 4)
        self.assertEqual(made.result_shape(), (4, 3, 5))
        self.assertEqual(len(made.buffers["a"]), 4 * 3 * 8 * 2)
        self.assertFalse(made.header.a.inline.HasField("batch_stride"))

    def test_one_matrix_serves_all(self):
        for a, b, name in ((ones(2, 4, 3, 8), ones(8, 5), "b"),
                           (ones(1, 1, 3, 8), ones(2, 4, 8, 5), "a")):
            made, problem = self.sent(a, b)
            self.assertEqual(problem.batch, 8)
            self.assertEqual(made.result_shape(), (2, 4, 3, 5))
            inline = getattr(made.header, name).inline
            self.assertTrue(inline.HasField("batch_stride"))
            self.assertEqual(inline.batch_stride, 0)

    def test_batches_are_broadcast_as_numpy_does(self):
        a = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 1, 3, 4)
        made, problem = self.sent(a, ones(5, 4, 2, dtype=np.float32))
        self.assertEqual(problem.batch, 10)
        self.assertEqual(made.result_shape(), (2, 5, 3, 2))
        sent = np.frombuffer(made.buffers["a"], np.float32)
        np.testing.assert_array_equal(
            sent.reshape(2, 5, 3, 4), np.broadcast_to(a, (2, 5, 3, 4)))

    def test_views_are_sent_as_they_lie(self):
        base = ones(4, 3, 8)
        made, _ = self.sent(base[::, :, ::].swapaxes(1, 2), ones(4, 3, 5))
        self.assertEqual(made.header.problem.a_order, api.COLUMN_MAJOR)
        self.assertEqual(made.buffers["a"].obj.ctypes.data,
                         base.ctypes.data)
        padded = ones(4, 4, 8)[:, :3]
        made, _ = self.sent(padded, ones(4, 8, 5))
        self.assertEqual(made.header.a.inline.batch_stride, 32)

    def test_no_products_at_all(self):
        made, problem = self.sent(ones(0, 3, 8), ones(8, 5))
        self.assertTrue(problem.HasField("batch"))
        self.assertEqual(problem.batch, 0)
        result = made.product(wire.Response(api.Execution(), None))
        self.assertEqual(result.d.shape, (0, 3, 5))

    def test_a_vector_meets_a_batch(self):
        made, problem = self.sent(ones(4, 3, 8), ones(8))
        self.assertEqual(made.result_shape(), (4, 3))
        self.assertEqual(problem.n, 1)


class EpilogueTest(unittest.TestCase):
    def epilogue(self, **options):
        made = call(ones(3, 300, dtype=E4M3), ones(300, 5, dtype=E4M3),
                    out_dtype=BF16, **options)
        return made, made.header.problem.epilogue

    def test_shapes_say_what_values_belong_to(self):
        for option, value, extent in (
                ("bias", np.zeros(5), "COLUMN"),
                ("bias", np.zeros((3, 1)), "ROW"),
                ("bias", np.zeros((1, 5)), "COLUMN"),
                ("a_scale", 2.0, "TENSOR"), ("a_scale", np.ones(3), "ROW"),
                ("a_scale", np.ones((3, 1)), "ROW"),
                ("b_scale", np.ones(5), "COLUMN"),
                ("b_scale", np.ones((1, 1)), "TENSOR")):
            made, epilogue = self.epilogue(**{option: value})
            self.assertEqual(getattr(epilogue, option),
                             number("Extent", f"EXTENT_{extent}"), option)
            self.assertEqual(len(made.buffers[option]), 4 * np.size(value))
        with self.assertRaisesRegex(
                gemmd.InvalidArgument, r"a_scale: has shape \(4,\); allowed: "
                r"a number, \(3,\), or \(3, 3\)"):
            self.epilogue(a_scale=np.ones(4))

    def test_scales_are_by_block_together(self):
        a, b = np.ones((3, 3)), np.ones((3, 1))
        _, epilogue = self.epilogue(a_scale=a, b_scale=b)
        block = number("Extent", "EXTENT_BLOCK")
        self.assertEqual((epilogue.a_scale, epilogue.b_scale), (block, block))
        for given, missing in (({"a_scale": a}, "b_scale"),
                               ({"b_scale": b, "a_scale": 2.0}, "a_scale")):
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, f"{missing}: has to be by blocks"):
                self.epilogue(**given)
        with self.assertRaisesRegex(gemmd.Unimplemented, "precision: "):
            self.epilogue(a_scale=a, b_scale=b, precision="fast")
        with self.assertRaisesRegex(gemmd.Unimplemented, "accumulate: "):
            self.epilogue(a_scale=a, b_scale=b, accumulate=np.float16)
        with self.assertRaisesRegex(gemmd.Unimplemented,
                                    "a_scale: .* does not go with bfloat16"):
            call(ones(3, 300), ones(300, 5), a_scale=a, b_scale=b)

    def test_one_line_of_blocks_is_told_by_the_other_scale(self):
        a, b = ones(3, 128, dtype=E4M3), ones(128, 300, dtype=E4M3)
        for b_scale, extent in ((np.ones((1, 3)), "BLOCK"), (2.0, "ROW")):
            made = call(a, b, a_scale=np.ones((3, 1)), b_scale=b_scale)
            self.assertEqual(made.header.problem.epilogue.a_scale,
                             number("Extent", f"EXTENT_{extent}"))

    def test_a_bias_is_broadcast_as_numpy_does(self):
        for a, b, bias, extent, size in (
                (ones(3, 8), ones(8), np.ones(3), "ROW", 3),
                (ones(8), ones(8, 5), np.ones(5), "COLUMN", 5),
                (ones(8), ones(8), np.float32(2), "COLUMN", 1),
                (ones(3, 8), ones(8, 5), 7.0, "COLUMN", 5),
                (ones(2, 3, 8), ones(8, 5), np.ones((1, 3, 1)), "ROW", 3),
                (ones(2, 3, 8), ones(8), np.ones(3), "ROW", 3),
                (ones(0, 8), ones(8, 5), np.ones((0, 1)), "ROW", 0)):
            made = call(a, b, bias=bias)
            self.assertEqual(made.header.problem.epilogue.bias,
                             number("Extent", f"EXTENT_{extent}"))
            sent = np.frombuffer(made.buffers["bias"], np.float32)
            np.testing.assert_array_equal(
                sent, np.broadcast_to(np.ravel(bias), size))
        for a, b, bias, allowed in (
                (ones(3, 8), ones(8, 5), np.ones(3), r"\(5,\) or \(3, 1\)"),
                (ones(3, 8), ones(8, 5), np.ones((3, 5)), "nearest .* is c"),
                (ones(3, 8), ones(8), np.ones(8), r"\(3,\)"),
                (ones(2, 3, 8), ones(8, 5), np.ones((2, 1, 5)), r"\(5,\)")):
            with self.assertRaisesRegex(gemmd.InvalidArgument,
                                        "bias: .*" + allowed):
                call(a, b, bias=bias)

    def test_values_are_real_numbers(self):
        for name, value in (("bias", "five"), ("bias", np.ones(5, complex)),
                            ("bias", np.ones(5, [("x", "f4")])),
                            ("a_scale", [[1], [1, 2]]),
                            ("out_scale", np.ones(2))):
            with self.assertRaisesRegex(gemmd.InvalidArgument, f"{name}: "):
                self.epilogue(**{name: value})

    def test_a_result_of_int32_has_no_steps(self):
        a, b = ones(3, 8, dtype=np.int8), ones(8, 5, dtype=np.int8)
        for options in ({"bias": 1}, {"a_scale": 2}, {"b_scale": 2},
                        {"activation": "relu"}, {"out_scale": 2},
                        {"return_pre_activation": True},
                        {"return_amax": True}):
            with self.assertRaisesRegex(
                    gemmd.Unimplemented, f"{next(iter(options))}: .*nearest is"
                    " out_dtype=np.float32"):
                call(a, b, **options)
            call(a, b, out_dtype=np.float32, **options)
        with self.assertRaisesRegex(gemmd.InvalidArgument, "alpha: 0.5 does"):
            call(a, b, alpha=0.5)

    def test_only_integers_saturate(self):
        call(ones(3, 8, dtype=np.int8), ones(8, 5, dtype=np.int8),
             saturate=True)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "saturate: .* bfloat16"):
            call(ones(3, 8), ones(8, 5), saturate=True)

    def test_the_rest_is_by_name(self):
        made, epilogue = self.epilogue(
            activation="gelu", out_scale=0.5, return_pre_activation=True,
            return_amax=True, invariant=True)
        self.assertTrue(epilogue.d_scale and epilogue.auxiliary
                        and epilogue.amax)
        problem = made.header.problem
        self.assertTrue(problem.invariant)
        self.assertEqual(problem.activation,
                         number("Activation", "ACTIVATION_GELU_ERF"))
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "activation: 'tanh' .* 'gelu'"):
            self.epilogue(activation="tanh")

    def test_second_results_are_returned(self):
        made, _ = self.epilogue(return_pre_activation=True, return_amax=True)
        d = np.full((3, 5), 2, BF16)
        answer = made.product(wire.Response(
            api.Execution(), memoryview(d.tobytes()),
            memoryview((d * BF16(2)).tobytes()), 7.0))
        d, before, amax = answer.value()
        self.assertEqual((d[0, 0], before[2, 4], amax), (2, 4, 7))


if __name__ == "__main__":
    unittest.main()
