"""One product as a MatmulRequest, built field by field from the API: what the
clients do not offer, such as poisoned padding, is said here."""

import contextlib
import functools
from typing import NamedTuple, Optional

import gemmd
import grpc
import numpy as np
from gemmd import api

from . import forms, quantized

_TIMEOUT_S = 300
_ORDERS = {"r": api.ROW_MAJOR, "c": api.COLUMN_MAJOR}
_FOUR_BITS = [forms.TYPES[name] for name in quantized.FOUR_BITS]
_EXTENTS = api.enum("Extent")
_ACTIVATIONS = api.enum("Activation")
_REQUEST = api.message("MatmulRequest")
_RESPONSE = api.message("MatmulResponse")
_GROUPED_REQUEST = api.message("MatmulGroupedRequest")
_GROUPED_RESPONSE = api.message("MatmulGroupedResponse")


class Refused(Exception):
    """The daemon's answer to a request that it does not serve."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Epilogue(NamedTuple):
    """Arrays of float32, or None. A scale of one value is a tensor's; of two
    dimensions, one by block. A bias of shape (m, 1) belongs to rows."""
    a_scale: Optional[np.ndarray] = None
    b_scale: Optional[np.ndarray] = None
    bias: Optional[np.ndarray] = None
    d_scale: Optional[float] = None
    activation: str = ""
    auxiliary: bool = False
    amax: bool = False


class Product(NamedTuple):
    """Arrays of two dimensions, or three where the problem has a batch."""
    form: forms.Form
    a: np.ndarray
    b: np.ndarray
    output: str
    c: Optional[np.ndarray] = None
    c_type: str = ""  # Default: that of D.
    layout: str = "rr"  # Orders of A and B.
    order: str = "r"  # Of C and D.
    alpha: float = 1.0
    beta: float = 0.0
    batch: Optional[int] = None
    padding: tuple = (0, 0, 0, 0)  # Of the lines of A, B, C, D; of elements
    # of less than a byte, and of what is sparse or quantized, in bytes.
    epilogue: Epilogue = Epilogue()
    invariant: bool = False
    # Elements from one matrix of A, B and C to the next, where not tight; those
    # that overlap hold the same elements there.
    strides: tuple = (None, None, None)


class Answer(NamedTuple):
    d: np.ndarray
    auxiliary: Optional[np.ndarray]
    amax: Optional[float]
    kernel: str
    arithmetic: int = 0  # gemmd.v1.SumArithmetic.
    splits: int = 0  # Parts of k.


def _lines(array, order):
    return array if order == "r" else array.swapaxes(-1, -2)


def strided(flat, shape, steps):
    """A view of that shape; `steps` in elements."""
    bits = flat.view(f"u{flat.itemsize}")  # Of types that numpy does not know.
    return np.lib.stride_tricks.as_strided(
        bits, shape, [step * flat.itemsize for step in steps]).view(flat.dtype)


def encode(array, order, padding, layout, stride=None, pack=None) -> bytes:
    """The bytes of a matrix or a batch; sets `layout`. What does not count,
    padding and slack bits, is poisoned. `pack` makes bytes of lines that hold
    more than elements, or None; then padding counts bytes."""
    lines = np.ascontiguousarray(_lines(array, order))
    layout.order = _ORDERS[order]
    if lines.size == 0:
        return b""
    packed = pack(lines) if pack else None
    if packed is not None:
        lines = packed
    width = lines.shape[-1]
    if lines.dtype in _FOUR_BITS:
        lines, unit = quantized.elements_bytes(lines), 2
    elif lines.dtype == np.bool_:
        packed = np.packbits(lines, axis=-1, bitorder="little")
        if width % 8:
            packed[..., -1] |= 0xff << width % 8 & 0xff
        lines, unit = packed, 8
    else:
        unit = 1
    count, width = lines.shape[-2:]
    pitch = width + padding
    if padding:
        layout.leading_dimension = pitch * unit
    if stride is None:
        stride = count * pitch
    else:
        layout.batch_stride = stride * unit
    batch = lines.size // (count * width)
    flat = np.full((stride * (batch - 1) + count * pitch - padding)
                   * lines.itemsize, 0xff, np.uint8).view(lines.dtype)
    strided(flat, (batch, count, width), (stride, pitch, 1))[:] = lines
    return flat.tobytes()


def _decode(data, shape, output, order, padding):
    dtype = forms.TYPES[output]
    *batch, rows, columns = shape
    count, width = (rows, columns) if order == "r" else (columns, rows)
    if 0 in shape:
        if data:
            raise ValueError(f"{len(data)} bytes of an empty D")
        return np.zeros(shape, dtype)
    data = data + bytes(padding * dtype.itemsize)
    lines = np.frombuffer(data, np.uint8)
    expected = int(np.prod(shape)) // width * (width + padding)
    if lines.size != expected * dtype.itemsize:
        raise ValueError(f"{lines.size} bytes of D; {expected} elements "
                         "expected")
    lines = lines.view(dtype).reshape(*batch, count, width + padding)
    if lines[..., width:].tobytes().strip(b"\0"):
        raise ValueError("padding of D is not zero")
    return _lines(lines[..., :width], order)


def _extent(values, one_dimension):
    if values is None:
        return _EXTENTS["EXTENT_UNSPECIFIED"]
    if np.ndim(values) == 2:
        return _EXTENTS["EXTENT_BLOCK"]
    return _EXTENTS["EXTENT_TENSOR" if np.ndim(values) == 0
                    else one_dimension]


def _add_epilogue(epilogue, request):
    problem = request.header.problem
    said = problem.epilogue
    said.a_scale = _extent(epilogue.a_scale, "EXTENT_ROW")
    said.b_scale = _extent(epilogue.b_scale, "EXTENT_COLUMN")
    if epilogue.bias is not None:
        said.bias = _EXTENTS["EXTENT_ROW" if np.ndim(epilogue.bias) == 2
                             else "EXTENT_COLUMN"]
    said.d_scale = epilogue.d_scale is not None
    said.auxiliary, said.amax = epilogue.auxiliary, epilogue.amax
    if epilogue.activation:
        problem.activation = _ACTIVATIONS[
            f"ACTIVATION_{epilogue.activation.upper()}"]
    for name in ("a_scale", "b_scale", "bias", "d_scale"):
        values = getattr(epilogue, name)
        if values is not None:
            setattr(request, name, np.ascontiguousarray(
                values, np.float32).tobytes())


def request(product, device):
    """The MatmulRequest of a Product."""
    made = _REQUEST()
    made.header.device = device
    problem = made.header.problem
    product.form.describe(problem)
    problem.m, problem.k = product.a.shape[-2:]
    problem.n = product.b.shape[-1]
    problem.d_type = api.enum("DataType")[
        f"DATA_TYPE_{product.output.upper()}"]
    problem.c_type = api.enum("DataType")[
        f"DATA_TYPE_{(product.c_type or product.output).upper()}"]
    problem.a_order, problem.b_order = (_ORDERS[o] for o in product.layout)
    problem.d_order = _ORDERS[product.order]
    problem.alpha, problem.beta = product.alpha, product.beta
    problem.invariant = product.invariant
    if product.batch is not None:
        problem.batch = product.batch
    operands = {"a": product.a, "b": product.b}
    if product.c is not None:
        operands["c"] = product.c
    for (name, array), order, padding, stride in zip(
            operands.items(), (*product.layout, product.order),
            product.padding, product.strides):
        layout = getattr(made.header, name).inline
        pack = functools.partial(product.form.pack, name)
        setattr(made, name, encode(array, order, padding, layout, stride,
                                   pack))
        if product.batch not in (None, 1) and array.ndim == 2:
            layout.batch_stride = 0
    rows, columns = problem.m, problem.n
    made.header.d.inline.order = problem.d_order
    if product.padding[3]:
        width = columns if product.order == "r" else rows
        made.header.d.inline.leading_dimension = width + product.padding[3]
    _add_epilogue(product.epilogue, made)
    return made


@functools.cache
def _stub(target, method, response):
    channel = grpc.insecure_channel(target, options=(
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1)))
    return channel.unary_unary(
        f"/gemmd.v1.MatmulService/{method}",
        request_serializer=lambda made: made.SerializeToString(),
        response_deserializer=response.FromString)


def send(target, made, method="Matmul", response=_RESPONSE):
    """The MatmulResponse; Refused when the daemon says no."""
    try:
        return _stub(target, method, response)(made, timeout=_TIMEOUT_S)
    except grpc.RpcError as error:
        raise Refused(error.code().name, error.details()) from None


def prepare(client, device, *products):
    """So that products are made by the kernels that were planned for them, not
    by some that stand in until those are compiled."""
    with contextlib.suppress(gemmd.Error):  # The products will tell.
        client.prepare([request(product, device).header.problem
                        for product in products], device=device)


def multiply(target, device, product, in_place="") -> Answer:
    """ValueError when the answer is not one of this product. `in_place`: the
    tensor that holds C and receives D; then D is not in the answer."""
    made = request(product, device)
    if in_place:
        made.c = b""
        made.header.c.tensor = made.header.d.tensor = in_place
    return _answer(product, made, send(target, made), in_place)


def multiply_groups(target, device, products) -> list[Answer]:
    """All of them in one call; ValueError likewise."""
    made = [request(product, device) for product in products]
    response = send(target, _GROUPED_REQUEST(groups=made), "MatmulGrouped",
                    _GROUPED_RESPONSE)
    if len(response.groups) != len(made):
        raise ValueError(f"{len(response.groups)} answers for {len(made)} "
                         "groups")
    return [_answer(*group) for group in zip(products, made, response.groups)]


def _answer(product, made, response, in_place=""):
    shape = (made.header.problem.m, made.header.problem.n)
    if product.batch is not None:
        shape = (product.batch, *shape)
    d = None if in_place else _decode(response.d, shape, product.output,
                                      product.order, product.padding[3])
    auxiliary = None
    if product.epilogue.auxiliary:
        auxiliary = _decode(response.auxiliary, shape, product.output,
                            product.order, 0)
    return Answer(d, auxiliary, response.amax if response.HasField("amax")
                  else None, response.execution.kernel,
                  response.execution.arithmetic, response.execution.splits)
