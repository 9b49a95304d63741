"""Requests that must be refused, with the code and a text that helps.

UNSUPPORTED lists what the API describes but daemons of this version do not
serve. Each entry is probed, so that the list stays true.
"""

from typing import NamedTuple

import gemmd
import numpy as np
from gemmd import api, arrays

from . import fills, results

_TYPES = api.enum("DataType")
_BF16 = arrays.wire_type(fills.BF16)


def _header(device, m=4, n=5, k=6, **fields):
    header = api.MatmulHeader(device=device)
    problem = header.problem
    problem.m, problem.n, problem.k = m, n, k
    problem.a_type = problem.b_type = problem.d_type = _BF16
    for name, value in fields.items():
        setattr(problem, name, value)
    return header


def _bytes(m=4, n=5, k=6, size=2):
    return bytes(m * k * size), bytes(k * n * size)


class Unsupported(NamedTuple):
    name: str
    reason: str
    fields: dict  # Of the problem.


_LATER = "described by the API, served by no daemon of this version"

UNSUPPORTED = [
    Unsupported("s32 inputs", _LATER, {"a_type": _TYPES["DATA_TYPE_S32"],
                                       "b_type": _TYPES["DATA_TYPE_S32"]}),
    *(Unsupported(f"{name.lower()} results of bf16", _LATER,
                  {"d_type": _TYPES[f"DATA_TYPE_{name}"]})
      for name in ("S8", "U8", "S32")),
    Unsupported("a and b of different types", _LATER,
                {"b_type": _TYPES["DATA_TYPE_F16"]}),
    Unsupported("c narrower than d", _LATER,
                {"beta": 1.0, "d_type": _TYPES["DATA_TYPE_F32"],
                 "c_type": _TYPES["DATA_TYPE_BF16"]}),
    Unsupported("bf16 accumulated in f16", _LATER,
                {"accumulator": api.enum("Accumulator")["ACCUMULATOR_F16"]}),
    Unsupported("sparse f32 in full", _LATER,
                {"sparsity": api.SPARSE, "a_type": _TYPES["DATA_TYPE_F32"],
                 "b_type": _TYPES["DATA_TYPE_F32"]}),
    Unsupported("sparse weights", _LATER,
                {"b_sparsity": api.SPARSE,
                 "b_type": _TYPES["DATA_TYPE_S8"]}),
    Unsupported("weights of F32", _LATER,
                {"a_type": _TYPES["DATA_TYPE_F32"],
                 "b_type": _TYPES["DATA_TYPE_S4"]}),
    Unsupported("weights beside weights", _LATER,
                {"a_type": _TYPES["DATA_TYPE_S4"],
                 "b_type": _TYPES["DATA_TYPE_S4"]}),
    Unsupported("weights of U8", _LATER, {"b_type": _TYPES["DATA_TYPE_U8"]}),
    Unsupported("weights summed in f16", _LATER,
                {"a_type": _TYPES["DATA_TYPE_F16"],
                 "b_type": _TYPES["DATA_TYPE_S8"],
                 "accumulator": api.enum("Accumulator")["ACCUMULATOR_F16"]}),
    Unsupported("sparse bits", _LATER,
                {"sparsity": api.SPARSE, "a_type": _TYPES["DATA_TYPE_B1"],
                 "b_type": _TYPES["DATA_TYPE_B1"]}),
]


def _refused(case, call, codes, text=""):
    """Passed when `call` raises one of `codes` with `text` in its message."""
    try:
        call()
    except gemmd.Error as error:
        if error.code not in codes:
            return results.failed(case, f"{error}; expected {codes}")
        if text.lower() not in error.message.lower():
            return results.failed(
                case, f"{error}; the text does not mention {text!r}")
        return results.Result(case)
    return results.failed(case, f"accepted; expected {codes}")


def unsupported(client, device):
    """(Result, entry for the report) for each entry of UNSUPPORTED."""
    for entry in UNSUPPORTED:
        header = _header(device, **entry.fields)
        yield (_refused(f"unsupported: {entry.name}",
                        lambda: client.execute(header, *_bytes()),
                        ("UNIMPLEMENTED", "INVALID_ARGUMENT")),
               {"name": entry.name, "reason": entry.reason})


_INVALID = ("INVALID_ARGUMENT",)


def _bad_products(client, device):
    """(name, call, codes, text) of products that must be refused."""
    def product(*operands, **fields):
        header = _header(device, **fields)
        return lambda: client.execute(header, *operands)

    a, b = _bytes()
    for name in ("m", "n", "k"):
        yield f"{name} = -1", product(a, b, **{name: -1}), _INVALID, name
        yield (f"{name} = 2^40", product(a, b, **{name: 2 ** 40}), _INVALID,
               name)
    yield "batch = -1", product(a, b, batch=-1), _INVALID, "batch"
    yield "unknown a_type", product(a, b, a_type=99), (
        "INVALID_ARGUMENT", "UNIMPLEMENTED"), "a_type"
    yield "unknown a_order", product(a, b, a_order=7), _INVALID, "a_order"
    yield "short a", product(a[:-2], b), _INVALID, "a"
    yield "long b", product(a, b + b"12"), _INVALID, "b"
    yield "missing b", product(a), _INVALID, "b"
    yield "missing c", product(a, b, beta=1.0), _INVALID, "c"
    # 100 GB of operands announced, none sent.
    yield ("huge without bytes", product(m=200000, n=200000, k=200000),
           ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), "")
    yield ("huge result", product(bytes(2 * 2 ** 20), bytes(2 * 2 ** 20),
                                  m=2 ** 20, n=2 ** 20, k=1),
           ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"), "")
    for name in ("a", "b", "d"):
        header = _header(device)
        getattr(header, name).inline.leading_dimension = 3
        yield (f"{name} with a leading dimension below its width",
               lambda header=header: client.execute(header, a, b), _INVALID,
               "leading_dimension")
        header = _header(device)
        getattr(header, name).tensor = "0" * 32
        inline = [None if name == "a" else a, None if name == "b" else b]
        yield (f"{name} is an unknown tensor",
               lambda header=header, inline=inline: client.execute(
                   header, *inline), ("NOT_FOUND",), "tensor")
    yield ("unknown device", lambda: client.execute(
        _header("cuda:99"), a, b), ("INVALID_ARGUMENT", "NOT_FOUND"), "device")


def _bad_tensors(client, device):
    good = np.ones((4, 6), fills.BF16)
    yield "tensor of no rows", lambda: client.zeros((0, 4), fills.BF16), \
        _INVALID, "rows"
    yield "tensor of -1 columns", lambda: client.zeros((4, -1), fills.BF16), \
        _INVALID, "columns"
    yield ("tensor beyond memory",
           lambda: client.zeros((2 ** 30, 2 ** 30), fills.F32),
           ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"), "")

    def wrong_operand(array):
        with client.tensor(array, device=device) as tensor:
            header = _header(device)
            header.a.tensor = tensor.handle
            client.execute(header, None, _bytes()[1])

    yield ("tensor of another shape",
           lambda: wrong_operand(good.T.copy()), _INVALID, "a")
    yield ("tensor of another type",
           lambda: wrong_operand(good.astype(fills.F16)), _INVALID, "a")
    yield ("tensor of another order",
           lambda: wrong_operand(np.asfortranarray(good)), _INVALID, "a")

    def deleted_twice():
        tensor = client.tensor(good, device=device)
        tensor.delete()
        tensor.delete()

    yield "tensor deleted twice", deleted_twice, ("NOT_FOUND",), ""


def refusals(client, device):
    """Results of all bad requests, and that the daemon works afterwards."""
    for bad in (_bad_products, _bad_tensors):
        for name, call, codes, text in bad(client, device):
            yield _refused(f"refused: {name}", call, codes, text)
    ones = np.ones((4, 4), fills.BF16)
    yield results.equal("works after refusals",
                        client.matmul(ones, ones, device=device), ones * 4)
