"""Arguments of Client.matmul -> header and bytes of one MatmulRequest."""

import numpy as np

from . import api, arrays
from .errors import InvalidArgument
from .tensor import Tensor


def _checked(value, name):
    return value if isinstance(value, Tensor) else arrays.check_matrix(value,
                                                                       name)


def _order_of(out, c, out_order):
    """Order of D: that of `out`, else out_order, else a tensor c's, else C."""
    if isinstance(out, Tensor):
        order, owner = out.order, "out"
    elif out is not None:
        order, owner = arrays.operand(out).order, "out"
    elif out_order is None and isinstance(c, Tensor):
        order, owner = c.order, "c"
    else:
        return out_order or "C"
    if out_order not in (None, order):
        raise InvalidArgument(
            f"out_order: {out_order!r} is not {owner}'s order {order!r}")
    return order


def _type_of(out, c, out_dtype, a):
    for given in (out, c):
        if given is not None:
            if out_dtype is not None and np.dtype(out_dtype) != given.dtype:
                name = "out" if given is out else "c"
                raise InvalidArgument(f"out_dtype: {np.dtype(out_dtype)} is "
                                      f"not {name}'s dtype {given.dtype}")
            return given.dtype
    return np.dtype(out_dtype or a.dtype)


class Call:
    """One product, checked: `header` and the operand buffers to send."""

    def __init__(self, a, b, *, c=None, alpha=1.0, beta=0.0, out_dtype=None,
                 out_order=None, out=None, device=""):
        a, b = _checked(a, "a"), _checked(b, "b")
        if c is not None:
            c = _checked(c, "c")
        if beta != 0 and c is None:
            raise InvalidArgument(f"c: required because beta is {beta}")
        if isinstance(out, np.ndarray):
            arrays.check_matrix(out, "out")
            if not out.flags.writeable:
                raise InvalidArgument("out: the array is read-only")
        elif out is not None and not isinstance(out, Tensor):
            raise InvalidArgument(f"out: {type(out).__name__} is neither a "
                                  "numpy array nor a Tensor")
        if a.shape[1] != b.shape[0]:
            raise InvalidArgument(
                f"b: has {b.shape[0]} rows but a has {a.shape[1]} columns "
                f"(shapes {a.shape} and {b.shape})")
        self.shape = (a.shape[0], b.shape[1])
        for name, value in (("c", c), ("out", out)):
            if value is not None and value.shape != self.shape:
                raise InvalidArgument(f"{name}: shape {value.shape} is not "
                                      f"that of the product, {self.shape}")
        if out_order is not None:
            arrays.wire_order(out_order, "out_order")
        self.out = out
        self.order = _order_of(out, c, out_order)
        self.dtype = _type_of(out, c, out_dtype, a)
        if isinstance(out, Tensor) and out.dtype != self.dtype:
            raise InvalidArgument(f"out: dtype {out.dtype} is not "
                                  f"{self.dtype}")
        if c is not None and c.dtype != self.dtype:
            raise InvalidArgument(f"c: dtype {c.dtype} is not that of the "
                                  f"result, {self.dtype}")

        self.header = header = api.MatmulHeader(device=device)
        problem = header.problem
        problem.m, problem.n = self.shape
        problem.k = a.shape[1]
        problem.a_type = arrays.wire_type(a.dtype, "a")
        problem.b_type = arrays.wire_type(b.dtype, "b")
        problem.c_type = problem.d_type = arrays.wire_type(self.dtype, "out")
        problem.d_order = arrays.wire_order(self.order)
        problem.alpha, problem.beta = alpha, beta
        self.a = self._source("a", a, None)
        self.b = self._source("b", b, None)
        self.c = None
        if c is not None and beta != 0:
            self.c = self._source("c", c, self.order)
        if isinstance(out, Tensor):
            header.d.tensor = out.handle
        else:
            header.d.inline.order = problem.d_order

    def _source(self, name, value, order):
        """Fills in where the operand comes from; its bytes when inline."""
        source = getattr(self.header, name)
        if isinstance(value, Tensor):
            if order not in (None, value.order):
                raise InvalidArgument(f"{name}: the tensor's order "
                                      f"{value.order!r} is not {order!r}")
            source.tensor = value.handle
            order, data = value.order, None
        else:
            operand = arrays.operand(value, order)
            source.inline.CopyFrom(operand.layout())
            order, data = operand.order, operand.data
        if name != "c":
            setattr(self.header.problem, f"{name}_order",
                    arrays.wire_order(order))
        return data

    def result(self, data):
        """What matmul returns, from the response's bytes of D."""
        if isinstance(self.out, Tensor):
            return self.out
        rows, columns = self.shape
        received = arrays.matrix(data if data is not None else b"", rows,
                                 columns, self.dtype, self.order)
        # One copy makes it aligned and writable.
        if self.out is None:
            return received.copy(order=self.order)
        self.out[...] = received
        return self.out
