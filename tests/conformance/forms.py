"""Every arithmetic that can be asked for, and what a product in it must be.

The names are those of `gemmctl capabilities` and of problem lines.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np
from gemmd import api

from . import quantized
from . import sparse as sparse_lines
from .fills import BF16, F16, F32

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
TYPES = {"bf16": BF16, "f16": F16, "f32": F32, "e4m3": E4M3, "e5m2": E5M2,
         "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8),
         "b1": np.dtype(np.bool_), "s32": np.dtype(np.int32),
         "s4": np.dtype(ml_dtypes.int4), "u4": np.dtype(ml_dtypes.uint4)}
FP8 = ("e4m3", "e5m2")
INTEGERS = ("s8", "u8")
# What weights are widened to.
WIDE = ("bf16", "f16")
_WIRE = api.enum("DataType")
_SPARSE = api.enum("Sparsity")["SPARSITY_2_4"]


class Form(NamedTuple):
    name: str
    a: str
    b: str
    sums: str = "f32"
    precision: str = ""  # "TF32" or "FAST".
    saturate: bool = False
    xor: bool = False
    sparse: str = ""  # "a" or "b".
    group: str = ""  # Of weights that are quantized, one of quantized.GROUPS.
    zero_points: bool = False
    free: bool = False  # Scales are any numbers; else powers of two.

    @property
    def weights(self):
        """Which operand is widened to the type of the other, if any."""
        if (self.a in WIDE) == (self.b in WIDE):
            return ""
        return "b" if self.a in WIDE else "a"

    @property
    def multiplied(self):
        """The type of what is multiplied, and of D unless one is asked."""
        return self.b if self.weights == "a" else self.a

    @property
    def along_k(self):
        """Which operand's lines hold more than elements, if any."""
        return self.sparse or (self.weights if self.group else "")

    @property
    def chunk(self):
        """Elements along k that come together."""
        return sparse_lines.chunk(self.a) if self.sparse else 1

    @property
    def layouts(self):
        """Orders of A and B: lines of a sparse or quantized operand run along
        k."""
        return {"": ("rr", "rc", "cr", "cc"), "a": ("rr", "rc"),
                "b": ("rc", "cc")}[self.along_k]

    def legal(self, layout):
        """The nearest layout that there is."""
        if self.along_k == "a":
            return "r" + layout[1]
        return layout[0] + "c" if self.along_k == "b" else layout

    def depth(self, k):
        """The least one from k on."""
        return -(-k // self.chunk) * self.chunk

    @property
    def dense(self):
        """The name of the form of the same arithmetic that is not."""
        return _name(self._replace(sparse=""))

    def keep(self, a, b, generator):
        """A and B with zeros where the pattern has none of their elements."""
        if self.sparse == "a":
            return sparse_lines.keep(a, self.a, generator), b
        if self.sparse == "b":
            return a, sparse_lines.keep(
                b.swapaxes(-1, -2), self.b, generator).swapaxes(-1, -2)
        return a, b

    def stored(self, a, b):
        """Which elements of A and of B are multiplied; None where all are."""
        if self.sparse == "a":
            return sparse_lines.stored(a, self.a), None
        if self.sparse == "b":
            return None, sparse_lines.stored(b.T, self.b).T
        return None, None

    @property
    def outputs(self):
        if self.sums == "s32":
            return ("s32", "f32", "f16", "bf16", "s8", "u8")
        return ("f32", "f16", "bf16", "e4m3", "e5m2")

    @property
    def promotes(self):
        return (self.a in FP8 and self.sums == "f32" and not self.precision
                and not self.weights)

    def quantized(self, lines):
        """(elements less zero points, scales, zero points or None) of lines of
        weights."""
        zeros = (quantized.zero_points(lines, self.group, self.free)
                 if self.zero_points else None)
        return (quantized.centered(lines, self.group, zeros),
                quantized.scales(lines, self.group, self.free), zeros)

    def read(self, side, values):
        """What the product takes elements of A ("a") or B for, in float64."""
        if self.precision and self.a == "f32":
            values = (round_to_tf32 if self.precision == "TF32"
                      else truncate_to_tf32)(values)
        if not self.group or side != self.weights:
            return values.astype(np.float64)
        lines = values if side == "a" else values.swapaxes(-1, -2)
        centered, scales, _ = self.quantized(lines)
        made = centered * quantized.spread(scales, self.group,
                                           lines.shape[-1])
        return made if side == "a" else made.swapaxes(-1, -2)

    def pack(self, side, lines):
        """Lines of A or B as they go on the wire; None where they are plain
        elements of whole bytes."""
        if side == self.sparse:
            return sparse_lines.pack(lines, getattr(self, side))
        if side == self.along_k:
            _, scales, zeros = self.quantized(lines)
            return quantized.pack(lines, scales, zeros)
        return None

    def describe(self, problem):
        """Fills in a gemmd.v1.Problem."""
        problem.a_type = _WIRE[f"DATA_TYPE_{self.a.upper()}"]
        problem.b_type = _WIRE[f"DATA_TYPE_{self.b.upper()}"]
        problem.accumulator = api.enum("Accumulator")[
            f"ACCUMULATOR_{self.sums.upper()}"]
        if self.precision:
            problem.precision = api.enum("Precision")[
                f"PRECISION_{self.precision}"]
        problem.saturate = self.saturate
        if self.sparse == "a":
            problem.sparsity = _SPARSE
        elif self.sparse == "b":
            problem.b_sparsity = _SPARSE
        if self.group:
            problem.quantization.SetInParent()
            problem.quantization.group = (
                0 if self.group == "k" else int(self.group))
            problem.quantization.zero_points = self.zero_points
        if self.xor:
            problem.bit_operation = api.enum("BitOperation")[
                "BIT_OPERATION_XOR"]


def _name(form):
    """As `gemmctl capabilities` has it; behind "/" the group of scales."""
    name = form.a
    if form.a == "f32" and form.precision:
        name = "tf32"
    if form.sparse:
        name = f"sparse-{name}" if form.sparse == "a" else f"{name}-sparse"
    if form.b != form.a:
        name += f"-{form.b}"
    if form.weights == "a" and form.a in FP8 and form.b == "f16":
        name += "-f32"  # "e4m3-f16" are sums in f16.
    if form.group:
        name += f"/{form.group}{'z' * form.zero_points}"
    if form.xor:
        return f"{name}-xor"
    if form.saturate:
        return f"{name}-clamp"
    if form.sums == "f16":
        return f"{name}-f16"
    return f"{name}-fast" if form.precision == "FAST" else name


def _pair(a, b):
    return a if a == b else f"{a}-{b}"


DENSE = {form.name: form for form in (
    Form("bf16", "bf16", "bf16"),
    Form("f16", "f16", "f16"),
    Form("f16-f16", "f16", "f16", "f16"),
    Form("f32", "f32", "f32"),
    Form("tf32", "f32", "f32", precision="TF32"),
    Form("tf32-fast", "f32", "f32", precision="FAST"),
    *(Form(f"{_pair(a, b)}{suffix}", a, b, sums, precision)
      for a in FP8 for b in FP8
      for suffix, sums, precision in (
          ("", "f32", ""), ("-fast", "f32", "FAST"), ("-f16", "f16", ""))),
    *(Form(f"{_pair(a, b)}{'-clamp' if clamps else ''}", a, b, "s32",
           saturate=clamps)
      for a in INTEGERS for b in INTEGERS for clamps in (False, True)),
    Form("b1", "b1", "b1", "s32"),
    Form("b1-xor", "b1", "b1", "s32", xor=True),
)}


def _sparse(form, side):
    made = form._replace(sparse=side)
    return made._replace(name=_name(made))


SPARSE = {form.name: form for form in (
    _sparse(form, side) for form in DENSE.values() for side in "ab"
    if form.name not in ("f32", "b1", "b1-xor"))}


def _with_weights(a, b, group="", zero_points=False):
    made = Form("", a, b, group=group, zero_points=zero_points)
    return made._replace(name=_name(made))


_MIXED = [pair for wide in WIDE for weights in quantized.TYPES
          for pair in ((wide, weights), (weights, wide))]
MIXED = {form.name: form for form in (
    _with_weights(a, b) for a, b in _MIXED)}
# Of weights of four bits every other group has zero points, in turn.
QUANTIZED = {form.name: form for form in (
    _with_weights(a, b, group, bool(
        {a, b} & set(quantized.FOUR_BITS)) and (number + turn) % 2 == 0)
    for number, (a, b) in enumerate(_MIXED)
    for turn, group in enumerate(quantized.GROUPS))}
FORMS = DENSE | SPARSE | MIXED | QUANTIZED
# Of each arithmetic one sparse operand, A and B in turn; and few of them.
CI = (*DENSE, *(name for number, name in enumerate(SPARSE)
                if number // 2 % 2 == number % 2),
      *list(MIXED)[::3], *list(QUANTIZED)[::5])
FEW_SPARSE = ("sparse-bf16", "e4m3-sparse", "sparse-s8", "tf32-sparse")
FEW_MIXED = ("bf16-s4", "e4m3-f16-f32", "u4-bf16/64z", "f16-s8/k",
             "bf16-s4/32z", "e4m3-bf16/128")


def truncate_to_tf32(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (bits & np.uint32(0xffffe000)).view(np.float32)


def round_to_tf32(values):
    """To nearest, ties to even; of what is not finite, itself."""
    values = np.ascontiguousarray(values, np.float32)
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0xfff) + (bits >> np.uint32(13) & np.uint32(1))
    return np.where(np.isfinite(values),
                    (rounded & np.uint32(0xffffe000)).view(np.float32), values)


def round_to(values, name):
    """float64 values, each exact in float32, as type `name` stores them."""
    dtype = TYPES[name]
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "s32":
            return values.astype(np.int64).astype(dtype)
        if name in INTEGERS or name in quantized.FOUR_BITS:
            limits = ml_dtypes.iinfo(dtype)
            least, most = int(limits.min), int(limits.max)
            clean = np.nan_to_num(np.rint(values), nan=0, posinf=most,
                                  neginf=least)
            return np.clip(clean, least, most).astype(dtype)
        values = values.astype(np.float32)
        if name in FP8:
            most = float(ml_dtypes.finfo(dtype).max)
            values = np.clip(values, -most, most)  # NaN stays.
        return values.astype(dtype)


def sums(form, a, b):
    """A B in exact arithmetic on what is read, in float64; integers wrap or
    clamp (once, at the end)."""
    if form.xor:
        a, b = (1.0 - 2.0 * x.astype(np.float64) for x in (a, b))
        return (a.shape[-1] - a @ b) / 2
    with np.errstate(invalid="ignore"):
        product = form.read("a", a) @ form.read("b", b)
    if form.sums != "s32":
        return product
    limits = np.iinfo(np.int32)
    if form.saturate:
        return np.clip(product, limits.min, limits.max)
    return product.astype(np.int64).astype(np.int32).astype(np.float64)


def _magnitudes(form, side, values):
    """Of what is read; subnormal numbers count as the least normal one."""
    read = np.abs(form.read(side, values))
    if side == form.weights:
        return read  # Which is widened to normal numbers.
    least = float(ml_dtypes.finfo(TYPES[getattr(form, side)]).smallest_normal)
    return np.where(read > 0, np.maximum(read, least), 0)


def sum_bound(form, a, b):
    """How far a sum may be from `sums`: 0 for integers."""
    if form.sums == "s32":
        return 0.0
    k = a.shape[-1]
    of_a, of_b = _magnitudes(form, "a", a), _magnitudes(form, "b", b)
    magnitude = of_a @ of_b
    if form.sums == "f16":
        return 2 * k * 2.0 ** -11 * magnitude + k * 2.0 ** -25
    if form.multiplied not in FP8:
        lost = k * 2.0 ** -146
        if form.name == "f32":
            # What elements have below 2^-133.
            lost = lost + 2.0 ** -134 * (of_a.sum(-1, keepdims=True)
                                         + of_b.sum(-2, keepdims=True))
            k = max(k, 2)
        return 2 * k * 2.0 ** -24 * magnitude + lost
    within = min(k, 128) if form.promotes else k
    return (2 * within * 2.0 ** -14 + 2 * k * 2.0 ** -24) * magnitude + (
        k * 2.0 ** -30)


# Half the spacing at one, and half the smallest subnormal, of each result.
_U_OUT = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8,
          "e4m3": 2.0 ** -4, "e5m2": 2.0 ** -3, "s8": 0, "u8": 0, "s32": 0}
_TINY = {"f32": 2.0 ** -150, "f16": 2.0 ** -25, "bf16": 2.0 ** -134,
         "e4m3": 2.0 ** -10, "e5m2": 2.0 ** -17, "s8": 0.5, "u8": 0.5,
         "s32": 0}


def result_bound(expected, error, output):
    """How far D may be from `expected` (float64, already clipped to D's
    range) when the value that is rounded is off by `error`."""
    u_out = _U_OUT[output]
    return error * (1 + u_out) + u_out * np.abs(expected) + _TINY[output]


def clip(values, output):
    """float64 values to the range of D, where D saturates."""
    if output in INTEGERS:
        limits = np.iinfo(TYPES[output])
        return np.clip(values, limits.min, limits.max)
    if output in FP8:
        most = float(ml_dtypes.finfo(TYPES[output]).max)
        return np.clip(values, -most, most)
    return values
