"""Random products: what is drawn, and that every mistake of an answer is found
by the comparison with the specification, with a reference, or both."""

import fractions
import functools
import unittest
from unittest import mock

import numpy as np
from conformance import (draws, forms, random_products, requests,
                         specification, tensor_core)
from gemmd import api

_ARITHMETICS = api.enum("SumArithmetic")
_FAMILIES = 168


def _drawn(count):
    return [draws.draw(3, _FAMILIES, index) for index in range(count)]


def _answer(product, fault):
    """As a daemon with that fault gives it."""
    splits = 2 if fault in ("split", "split in silence") else 1
    changed = {
        "drops the bias": lambda e: e._replace(bias=None),
        "takes another scale": lambda e: e._replace(
            a_scale=None if e.a_scale is None else e.a_scale[::-1]
            if np.ndim(e.a_scale) == 1 else e.a_scale),
        "scales twice": lambda e: e._replace(
            d_scale=e.d_scale and e.d_scale ** 2),
        "activates as if by relu": lambda e: e._replace(
            activation="relu" if e.activation else ""),
    }.get(fault, lambda e: e)(product.epilogue)
    beta = 1.0 if fault == "ignores beta" and product.beta else product.beta
    wrong = product._replace(epilogue=changed, beta=beta)
    shape = [x.shape[-2:] for x in (product.a, product.b)]
    rows, columns = np.arange(shape[0][0]), np.arange(shape[1][1])
    made = [specification.elements(wrong, i, rows, columns, splits)
            for i in range(1 if product.batch is None else product.batch)]
    if fault == "swaps matrices":
        made = made[::-1]
    d = [each.d for each in made]
    if fault == "loses the last column":
        for each in d:
            each[:, -1:] = 0
    if fault == "is off by a bit":
        for each in d:
            each.view(f"u{each.itemsize}")[...] ^= 1
    size = (len(rows), len(columns))
    d = np.stack(d) if d else np.zeros((0, *size), forms.TYPES[product.output])
    auxiliary = None
    if product.epilogue.auxiliary:
        auxiliary = np.stack([each.auxiliary for each in made]) if made else d
    if product.batch is None:
        d = d[0]
        auxiliary = None if auxiliary is None else auxiliary[0]
    amax = 0.0 if product.epilogue.amax else None
    if fault == "measures nothing" and amax is not None:
        amax = 1.0
    return requests.Answer(d, auxiliary, amax, "kernel",
                           _ARITHMETICS["SUM_ARITHMETIC_HOPPER"],
                           2 if fault == "split" else 1)


def _judge(draw, fault, reference=None):
    answers = [_answer(draw.product, fault)]
    if reference is not None:
        answers.append(_answer(draw.product, reference))
    clients = [mock.Mock(target=str(i)) for i in range(len(answers))]
    options = random_products.Options("0", families=1, count=1)
    with mock.patch.object(random_products, "_multiply",
                           lambda client, *_: answers[int(client.target)]), \
            mock.patch.object(requests, "prepare"), \
            mock.patch.object(draws, "draw", return_value=draw):
        (outcome,) = random_products.run_family(clients, options, 0)
    return outcome


def _work(product):
    """Sums of products that the specification makes of it."""
    return (product.a.shape[-2] * product.b.shape[-1] * product.a.shape[-1]
            * max(product.batch or 1, 1))


@functools.cache
def _small():
    return [draw for draw in _drawn(2 * _FAMILIES)
            if _work(draw.product) < 400_000]


class DrawsTest(unittest.TestCase):
    def test_a_product_depends_on_its_seed_and_number_alone(self):
        one, other = draws.draw(5, 7, 40), draws.draw(5, 7, 40)
        self.assertEqual(one.name, other.name)
        self.assertEqual(requests.request(one.product, ""),
                         requests.request(other.product, ""))
        self.assertNotEqual(one.name, draws.draw(6, 7, 40).name)

    def test_products_of_a_family_share_its_kernels(self):
        for index in range(0, 70, 7):
            draw, family = draws.draw(5, 7, index), draws.family(5, 0)
            self.assertEqual(draw.product.form.name, family.form)
            self.assertEqual(draw.product.output, family.output)
            self.assertEqual(draw.product.beta != 0, bool(family.c_type))

    def test_everything_that_can_be_asked_is_drawn(self):
        made = _drawn(1600)
        products = [draw.product for draw in made]
        for what, found in {
                "form": {p.form.name for p in products} >= set(forms.DENSE),
                "sparse form": len({p.form.name for p in products}
                                   & set(forms.SPARSE)) > 20,
                "weights": len({p.form.name for p in products}
                               & set(forms.MIXED)) > 3,
                "quantized weights": len({p.form.name for p in products}
                                         & set(forms.QUANTIZED)) > 8,
                "output": len({p.output for p in products}) == 8,
                "layout": len({p.layout + p.order for p in products}) == 8,
                "activation": len({p.epilogue.activation
                                   for p in products}) == 5,
                "auxiliary": any(p.epilogue.auxiliary for p in products),
                "amax": any(p.epilogue.amax for p in products),
                "by block": any(np.ndim(p.epilogue.a_scale) == 2
                                for p in products),
                "by row": any(np.ndim(p.epilogue.a_scale) == 1
                              for p in products),
                "C in f32": any(p.c_type == "f32" != p.output
                                for p in products),
                "no k": any(p.a.shape[-1] == 0 for p in products),
                "alpha of zero": any(p.alpha == 0 for p in products),
                "infinite alpha": any(np.isinf(p.alpha) for p in products),
                "beta that is no number": any(np.isnan(p.beta)
                                              for p in products),
                "no batch": any(p.batch == 0 for p in products),
                "one matrix for a batch": any(
                    p.batch and p.batch > 1 and p.a.ndim == 2
                    for p in products),
                "matrices that overlap": any(
                    stride and stride < p.a[0].size
                    for p in products for stride in p.strides[:1]),
                "integers beyond s32": any(p.a.shape[-1] > 1 << 17
                                           for p in products),
                "in place": any(draw.in_place for draw in made),
                "invariant": any(p.invariant for p in products)}.items():
            self.assertTrue(found, what)

    def test_overlapping_matrices_are_sent_once(self):
        flat = np.arange(20, dtype=np.float32)
        a = requests.strided(flat, (3, 2, 4), (3, 5, 1))
        layout = api.message("Layout")()
        data = requests.encode(a, "r", 1, layout, 3)
        self.assertEqual((layout.leading_dimension, layout.batch_stride),
                         (5, 3))
        sent = np.frombuffer(data, np.float32)
        self.assertEqual(sent.size, 2 * 3 + 5 + 4)
        self.assertTrue(np.array_equal(
            requests.strided(sent, (3, 2, 4), (3, 5, 1)), a))


class ComparisonTest(unittest.TestCase):
    def test_the_specification_agrees_with_itself(self):
        for draw in _small():
            outcome = _judge(draw, "", "")
            self.assertEqual(outcome.result.detail, "", draw.name)
            if draw.product.batch != 0:
                self.assertIn("compared with the specification",
                              outcome.notes)

    def test_every_mistake_is_found(self):
        small = _small()
        for fault in ("drops the bias", "takes another scale", "ignores beta",
                      "scales twice", "activates as if by relu",
                      "swaps matrices", "loses the last column",
                      "is off by a bit"):
            with self.subTest(fault):
                found = [draw for draw in small
                         if _judge(draw, fault).result.detail]
                self.assertGreater(len(found), 2)
                self.assertIn("other than the specification",
                              _judge(found[0], fault).result.detail)

    def test_a_reference_sees_what_the_specification_does_not(self):
        wrong = [draw for draw in _small()
                 if _judge(draw, "measures nothing", "").result.detail]
        self.assertGreater(len(wrong), 4)
        self.assertIn("other than the reference: amax", _judge(
            wrong[0], "measures nothing", "").result.detail)

    def test_parts_of_k_may_be_summed_apart_if_the_answer_says_so(self):
        generator = np.random.default_rng(1)
        a, b = (generator.standard_normal(size).astype(forms.BF16)
                for size in ((5, 300), (300, 7)))
        draw = draws.Draw("split", requests.Product(forms.FORMS["bf16"], a, b,
                                                    "f32"), False)
        self.assertEqual(_judge(draw, "split").result.detail, "")
        self.assertIn("reference with another split",
                      _judge(draw, "split", "").notes)
        self.assertNotEqual(_judge(draw, "split in silence").result.detail,
                            "")


class MultiplyAddTest(unittest.TestCase):
    def test_rounds_once(self):
        generator = np.random.default_rng(1)
        a, b, c = (generator.standard_normal(3000).astype(np.float32)
                   for _ in range(3))
        # Ties and what is just beside them, where two roundings differ.
        c[:1000] = a[:1000] * b[:1000] * np.float32(2.0 ** 25)
        c[1000:2000] *= np.exp2(generator.integers(-40, 60, 1000))
        found = tensor_core.multiply_add(a, b, c)
        for x, y, z, sum_ in zip(a, b, c, found):
            exact = (fractions.Fraction(float(x)) * fractions.Fraction(
                float(y)) + fractions.Fraction(float(z)))
            error = abs(exact - fractions.Fraction(float(sum_)))
            for near in (np.nextafter(sum_, np.float32(s))
                         for s in (-np.inf, np.inf)):
                self.assertLessEqual(error, abs(
                    exact - fractions.Fraction(float(near))))


if __name__ == "__main__":
    unittest.main()
