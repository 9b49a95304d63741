"""The checks of forms against arithmetic that is right, and against arithmetic
with one mistake: each mistake must be found by the checks made for it."""

import unittest
from unittest import mock

import ml_dtypes
import numpy as np
from conformance import (form_fills, form_grid, form_probes, forms, groups,
                         requests, results, tensor_core)
from conformance.shapes import Shape

assert groups  # Imported for the probe that it registers.


def _scales(values, by_row):
    if values is None:
        return 1.0
    return np.reshape(values, (-1, 1) if by_row else (1, -1)).astype(float)


def _sums(product, a, b, fault):
    form = product.form
    if fault == "no promotion" and form.promotes:
        return tensor_core.sums(forms.FORMS[f"{form.name}-fast"], a, b)
    if fault == "wraps" and form.saturate:
        form = form._replace(saturate=False)
    if fault == "truncates" and form.precision == "TF32":
        form = form._replace(precision="FAST")
    if fault == "no zero points":
        form = form._replace(zero_points=False)
    if fault == "scales of k" and form.group:
        form = form._replace(group="k")
    if fault == "high nibble first" and form.weights == "b":
        b = b[np.arange(len(b)) ^ 1]
    if fault == "counts slack" and form.a == "b1" and a.shape[1] % 8:
        slack = 8 - a.shape[1] % 8
        return forms.sums(form, a, b) + slack * (not form.xor)
    if fault == "bf16 inputs" and form.name == "f32":
        a, b = (x.astype(forms.BF16) for x in (a, b))
    if tensor_core.knows(form):
        with np.errstate(all="ignore"):
            if np.isfinite(a.astype(float)).all() and np.isfinite(
                    b.astype(float)).all() and a.shape[1] < 2000:
                return tensor_core.sums(form, a, b)
    total = forms.sums(form, a, b)
    with np.errstate(over="ignore"):
        return total.astype(np.float16).astype(float) if (
            form.sums == "f16") else total


def _one(product, a, b, fault):
    """(auxiliary, D, amax) of one product of a batch."""
    epilogue = product.epilogue
    shape = (a.shape[0], b.shape[1])
    x = np.zeros(shape)
    if product.alpha and a.shape[1]:
        if np.ndim(epilogue.a_scale) == 2:
            for block in range(-(-a.shape[1] // 128)):
                step = slice(128 * block, 128 * block + 128)
                columns = np.repeat(epilogue.b_scale[block], 128)[:shape[1]]
                if fault == "one b scale":
                    columns = columns[:1]
                x += _sums(product, a[:, step], b[step], fault) * (
                    epilogue.a_scale[:, block:block + 1] * columns)
        else:
            x = _sums(product, a, b, fault) * _scales(
                epilogue.a_scale, True) * _scales(epilogue.b_scale, False)
        x = product.alpha * x
    if product.beta:
        x = x + product.beta * product.c.astype(float)
    if product.form.sums == "s32" and product.output == "s32":
        x = np.clip(x, -2 ** 31, 2 ** 31 - 1) if (
            product.form.saturate and fault != "wraps") else (
                x + 2 ** 31) % 2 ** 32 - 2 ** 31
    if epilogue.bias is not None and fault != "no bias":
        x = x + epilogue.bias.astype(float)
    y = form_probes._apply(epilogue.activation, x)
    scaled = y * (epilogue.d_scale or 1)
    amax = np.abs(scaled if fault == "amax of D" else y).max(initial=0)
    if fault == "swapped blocks" and shape[0] >= 128:
        scaled = np.concatenate([scaled[64:128], scaled[:64], scaled[128:]])
    return x, scaled, amax


def _multiply(fault):
    def multiply(target, device, product):
        count = product.batch
        if count is None:
            x, d, amax = _one(product, product.a, product.b, fault)
        elif count == 0:
            x = d = np.zeros((0, product.a.shape[-2], product.b.shape[-1]))
            amax = 0
        else:
            def item(array, i):
                return array if array.ndim == 2 else array[
                    0 if fault == "first of batch" else i]
            made = [_one(product, item(product.a, i), item(product.b, i),
                         fault) for i in range(count)]
            x, d = (np.stack(part) for part in list(zip(*made))[:2])
            amax = max(part[2] for part in made)
        return requests.Answer(forms.round_to(d, product.output),
                               forms.round_to(x, product.output), amax, "")
    return multiply


def _multiply_groups(fault):
    multiply = _multiply(fault)

    def multiply_groups(target, device, products):
        before = [None, *products]
        return [multiply(target, device, product._replace(b=other.b)
                         if fault == "weights of another" and other
                         and other.b.shape == product.b.shape else product)
                for other, product in zip(before, products)]
    return multiply_groups


def run_probe(name, form, fault=""):
    with mock.patch.multiple(requests, multiply=_multiply(fault),
                             multiply_groups=_multiply_groups(fault)):
        bench = form_probes.Bench("", "cuda:0", form, name, "ci")
        return list(form_probes.PROBES[name][0](bench))


def run_grid(form, layout, fault=""):
    with mock.patch.object(requests, "multiply", _multiply(fault)):
        return list(form_grid.Unit("", "cuda:0", form, layout, "ci").run())


# Mistake -> (probe or None for the grid, form) that must find it.
FAULTS = {
    "no promotion": ("small_terms_survive_promotion", "e4m3"),
    "wraps": ("sums_at_the_ends_of_s32", "u8-s8-clamp"),
    "truncates": ("inputs_become_tf32", "tf32"),
    "counts slack": ("any_depth_in_bits", "b1"),
    "bf16 inputs": ("f32_counts_in_full", "f32"),
    "one b scale": ("scales_by_block", "e5m2"),
    "no bias": ("steps_of_the_epilogue", "s8"),
    "amax of D": ("steps_of_the_epilogue", "bf16"),
    "first of batch": ("batches", "f16"),
    "weights of another": ("groups", "bf16"),
    "swapped blocks": (None, "e4m3-fast"),
    "no zero points": (None, "bf16-s4/32z"),
    "scales of k": (None, "bf16-s8/32"),
    "high nibble first": (None, "bf16-s4"),
}


class FormsTest(unittest.TestCase):
    def test_right_arithmetic_passes_the_grid(self):
        for form in forms.CI:
            for layout in forms.FORMS[form].layouts[:2]:
                found = run_grid(form, layout)
                self.assertGreater(len(found), 2)
                self.assertEqual([r for r in found if r.detail], [])

    def test_right_arithmetic_passes_the_probes(self):
        for name, (function, named) in form_probes.PROBES.items():
            if function.__module__ in ("conformance.sparse_probes",
                                       "conformance.quantized_probes"):
                continue  # They send bytes to a daemon.
            for form in (*forms.DENSE, *forms.FEW_SPARSE, *forms.FEW_MIXED):
                if name == "rows_are_invariant" or form not in named:
                    continue  # Reference products of k = 4096 are slow.
                with self.subTest(f"{name} {form}"):
                    found = run_probe(name, form)
                    self.assertEqual([r for r in found if r.detail], [])

    def test_every_mistake_is_found(self):
        for fault, (name, form) in FAULTS.items():
            with self.subTest(fault):
                found = (run_probe(name, form, fault) if name else
                         run_grid(form, "rc", fault))
                self.assertTrue(any(r.detail for r in found))

    def test_the_tensor_core_loses_what_it_is_known_to_lose(self):
        # DeepGEMM's probe: 448 + 7.5 keeps fourteen bits and is exact.
        form = forms.FORMS["e4m3-fast"]
        a = np.zeros((1, 32), forms.E4M3)
        a[0, :2] = 448, 7.5
        ones = np.ones((32, 1), forms.E4M3)
        self.assertEqual(tensor_core.sums(form, a, ones)[0, 0], 455.5)
        for term, kept in ((2.0 ** -5, 2.0 ** -5), (2.0 ** -6, 0)):
            a[0, 1] = term
            self.assertEqual(tensor_core.sums(form, a, ones)[0, 0],
                             448 + kept)

    def _check_contract(self, form, a, b):
        error = np.abs(tensor_core.sums(form, a, b) - forms.sums(form, a, b))
        self.assertTrue((error <= forms.sum_bound(form, a, b)).all(),
                        form.name)

    def test_the_tensor_core_is_within_the_contract(self):
        for name in filter(lambda n: tensor_core.knows(forms.FORMS[n]),
                           forms.CI):
            form = forms.FORMS[name]
            for kind in form_fills.RANDOM:
                for k in (form.depth(1), 300):
                    self._check_contract(form, *form_fills.random(
                        form, Shape(9, 11, k), kind))

    def test_the_contract_counts_subnormal_elements_as_normal_ones(self):
        # Of b the first element is `most`, which the others are aligned to.
        for name, most, others in (
                ("f16", 1.0, 2.0 ** -16), ("e4m3", 448, 0.25),
                ("bf16", 2.0 ** 100, 2.0 ** 82)):
            form = forms.FORMS[name]
            info = ml_dtypes.finfo(forms.TYPES[name])
            a = np.full((1, 16), info.smallest_subnormal, forms.TYPES[name])
            b = np.full((16, 1), others * (1 - info.eps), forms.TYPES[name])
            b[0] = most
            due = forms.sums(form, a, b)
            unit = 2.0 ** (-14 if name == "e4m3" else -24)
            self.assertGreater(abs(tensor_core.sums(form, a, b) - due),
                               2 * 16 * unit * due, name)
            self._check_contract(form, a, b)

    def test_the_contract_rounds_f32_to_multiples_of_its_least_part(self):
        form = forms.FORMS["f32"]
        b = np.full((1, 1), 2.0 ** 100, np.float32)
        for value in (2.0 ** -149, 3 * 2.0 ** -134, 2.0 ** -118 + 2.0 ** -141):
            self._check_contract(form, np.full((1, 1), value, np.float32), b)

    def test_a_refused_form_neither_passes_nor_fails(self):
        result = results.unserved("form x", "UNIMPLEMENTED: no")
        self.assertTrue(results.is_unserved(result))
        self.assertFalse(results.is_unserved(results.failed("y", "bad")))


if __name__ == "__main__":
    unittest.main()
