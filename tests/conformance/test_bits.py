"""The checks of bits against the arithmetic that they know, and against others:
each mistake must be found."""

import unittest
from unittest import mock

import numpy as np
from conformance import bits, forms, requests, tensor_core
from gemmd import api

_ARITHMETICS = api.enum("SumArithmetic")


def _sums(product, fault):
    form, a, b = product.form, product.a, product.b
    if fault == "rounded once":
        with np.errstate(all="ignore"):
            return forms.sums(form, a, b).astype(np.float32).astype(float)
    if fault == "promoted late":
        form = forms.FORMS[f"{form.name}-fast"]
    if fault == "inputs truncated":
        form = form._replace(precision="FAST")
    parts = {"split in two": 2, "split in silence": 2}.get(fault, 1)
    return tensor_core.sums(form, a, b, parts)


def _multiply(fault):
    def multiply(target, device, product):
        x = product.alpha * _sums(product, fault)
        if product.beta:
            x = x + product.beta * product.c.astype(float)
        arithmetic = _ARITHMETICS[
            "SUM_ARITHMETIC_DOUBLE" if fault == "rounded once and says so"
            else "SUM_ARITHMETIC_HOPPER"]
        return requests.Answer(forms.round_to(x, product.output), None, None,
                               "", arithmetic,
                               2 if fault == "split in two" else 1)
    return multiply


def run(form, fault="", required=True):
    with mock.patch.object(requests, "multiply", _multiply(fault)), \
            mock.patch.object(requests, "prepare"), \
            mock.patch.object(bits, "_CI_SPLIT", bits.Shape(3, 5, 300)):
        return list(bits.Unit(None, "", "host", form, "rc", "ci",
                              required).run())


class BitsTest(unittest.TestCase):
    def test_the_right_arithmetic_passes(self):
        for name in filter(lambda n: tensor_core.knows(forms.FORMS[n]),
                           forms.CI):
            found = run(name)
            self.assertGreater(len(found), 10)
            self.assertEqual([r for r in found if r.detail], [])

    def test_parts_of_k_may_be_summed_apart_if_the_answer_says_so(self):
        self.assertFalse(any(r.detail for r in run("bf16", "split in two")))
        self.assertTrue(any(r.detail for r in run("bf16", "split in silence")))

    def test_every_mistake_is_found(self):
        for fault, form in (("rounded once", "bf16"), ("rounded once", "f32"),
                            ("rounded once", "f16-f16"),
                            ("promoted late", "e4m3")):
            with self.subTest(f"{fault} {form}"):
                self.assertTrue(any(r.detail for r in run(form, fault)))

    def test_sums_of_another_arithmetic_fail_only_where_hoppers_are_asked_for(
            self):
        self.assertEqual(run("bf16", "rounded once and says so", False), [])
        found = run("bf16", "rounded once and says so")
        self.assertIn("another arithmetic", found[0].detail)

    def test_the_full_set_wants_many_kernels(self):
        with mock.patch.object(requests, "multiply", _multiply("")), \
                mock.patch.object(requests, "prepare"), \
                mock.patch.object(bits, "_SHAPES", bits._CI_SHAPES):
            *_, last = bits.Unit(None, "", "host", "bf16", "rr", "full",
                                 True).run()
        self.assertIn("1 took part", last.detail)


class TensorCoreTest(unittest.TestCase):
    def test_a_sparse_instruction_goes_through_twice_the_k(self):
        a, b = np.zeros((1, 64), forms.BF16), np.ones((64, 1), forms.BF16)
        # Apart they are lost one after the other; together they are not.
        a[0, [0, 1, 20]] = 1, 2.0 ** -24, 2.0 ** -24
        self.assertEqual(tensor_core.sums(
            forms.FORMS["bf16"], a, b)[0, 0], 1)
        self.assertEqual(tensor_core.sums(
            forms.FORMS["sparse-bf16"], a, b)[0, 0], 1 + 2.0 ** -23)

    def test_what_is_not_stored_is_not_multiplied(self):
        a = np.zeros((1, 8), forms.BF16)
        a[0, [0, 1]] = 1, 2
        b = np.ones((8, 1), forms.BF16)
        b[3] = np.inf
        self.assertTrue(np.isnan(tensor_core.sums(
            forms.FORMS["bf16"], a, b)[0, 0]))
        self.assertEqual(tensor_core.sums(
            forms.FORMS["sparse-bf16"], a, b)[0, 0], 3)

    def test_an_infinite_factor_of_f32_meets_terms_that_are_zero(self):
        def product(a, b):
            return tensor_core.sums(forms.FORMS["f32"],
                                    np.array([[a]], np.float32),
                                    np.array([[b]], np.float32))[0, 0]
        self.assertTrue(np.isnan(product(np.inf, 1)))
        self.assertEqual(product(np.inf, 1.2345678), np.inf)
        self.assertEqual(product(3.4028235e38, 1),
                         np.float64(np.float32(3.4028235e38)))

    def test_parts_take_stages_in_turn(self):
        # Each small term alone is lost beside 1, both together are not.
        a = np.zeros((1, 192))
        a[0, [0, 64, 128]] = 2.0 ** -24, 1, 2.0 ** -24
        a, b = a.astype(forms.BF16), np.ones((192, 1), forms.BF16)
        for parts, expected in ((1, 1), (2, 1 + 2.0 ** -23), (3, 1)):
            self.assertEqual(
                tensor_core.sums(forms.FORMS["bf16"], a, b, parts)[0, 0],
                expected)


if __name__ == "__main__":
    unittest.main()
