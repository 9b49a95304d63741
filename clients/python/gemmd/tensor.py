"""Matrices resident on a device of the daemon."""

import math
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import api, arrays, bits, nibbles, rpcs, striped, time_left
from .blocking_caller import Blocking, completed
from .caller import Caller
from .composite import Composite
from .device_arrays import DeviceArray, as_device_array, is_on_device
from .errors import (Error, Internal, InvalidArgument, NotFound,
                     unpicklable)
from .quantized import Quantization, QuantizedMatrix, quantization_of
from .retry import told
from .shared import Block, Regions, lent
from .sparse import SparseMatrix, is_sparse
from .wire import Place

if TYPE_CHECKING:
    from .client import Client

# Whose bits can be counted in 63.
MOST_ELEMENTS = 1 << 57

Self = TypeVar("Self", bound="Resident")
Bytes = npt.NDArray[np.uint8]
Stored = Union[arrays.Array, Composite]


def matrix_of(value: Any, name: str) -> Any:
    """As arrays.check_matrix, or a matrix in device memory."""
    if not is_on_device(value):
        return arrays.check_matrix(value, name)
    array = as_device_array(value, name)
    if array.ndim != 2:
        raise InvalidArgument(f"{name}: has {array.ndim} dimension(s), shape "
                              f"{array.shape}; a matrix has 2")
    return array


def lie(array: Any, order: Optional[arrays.Order] = None) -> arrays.Operand:
    """As arrays.operand, also of a matrix in device memory."""
    return (array.operand(order) if isinstance(array, DeviceArray)
            else arrays.operand(array, order))


def home_of(regions: Regions, array: Any) -> str:
    """The daemon's name of the device in whose memory `array` is; "" of the
    host's."""
    if not isinstance(array, DeviceArray) or array.size == 0:
        return ""
    return regions.device.place(array)[1]


def _refuse(chunk: memoryview) -> None:
    raise Internal("the daemon sent a message where it was to write to shared "
                   "memory")


def dense(stored: Stored) -> arrays.Array:
    return stored.toarray() if isinstance(stored, Composite) else stored


class Resident:
    """What is known of a matrix on a device, whoever talks to the daemon."""

    # numpy leaves `array @ tensor` to the tensor.
    __array_ufunc__ = None

    # It stores two of every four elements of its lines.
    sparse: bool = False
    # None: its elements are those of an array.
    quantization: Optional[Quantization] = None
    handle: str = ""
    device: str = ""
    label: str = ""
    # Matrices, one behind the other: other clients make batches.
    _count: int = 1
    # What another process is given.
    _instead = "its handle, of which client.attach(handle) makes a tensor there"

    def __init__(self, client: Any, info: Any) -> None:
        if (min(info.rows, info.columns) < 1
                or info.rows * info.columns > MOST_ELEMENTS):
            raise Internal(f"the daemon describes a tensor of {info.rows} x "
                           f"{info.columns} elements, which is none")
        self._lie(client, (info.rows, info.columns),
                  "F" if info.order == api.COLUMN_MAJOR else "C",
                  arrays.numpy_type(info.dtype))
        self.sparse = info.sparsity == api.SPARSE
        self.quantization = Quantization.of(info)
        self.handle = info.handle
        self.device = info.device
        self.label = info.label
        self._count = max(info.count, 1)

    def _lie(self, client: Any, shape: tuple[int, int], order: arrays.Order,
             dtype: "np.dtype[Any]") -> None:
        """All of __init__, of what has nothing else."""
        self._client = client
        self._stored_shape = shape
        self._stored_order: arrays.Order = order
        self._transposed = False
        self._kind: Any = None  # Once it was asked for.
        self.dtype = dtype

    @property
    def kind(self) -> Any:
        """What products depend on of a matrix, beside its elements."""
        if self._kind is None:
            self._kind = (self.shape, self.order, self.dtype, self.sparse,
                          self.quantization, self._transposed,
                          bool(self.handle))
        return self._kind

    def point(self, source: Any) -> None:
        """Makes it the operand that an api.Source stands for."""
        self.name_in(source)
        source.transposed = self._transposed

    def name_in(self, source: Any) -> None:
        """The same, of a Source that one of the same kind was."""
        source.tensor = self.handle

    def check_operand(self, name: str, batch: tuple[int, ...]) -> None:
        """InvalidArgument where no product of that batch reads it."""

    def check_single(self, name: str) -> None:
        """InvalidArgument of a batch."""
        if self._count > 1:
            raise InvalidArgument(
                f"{name}: is a batch of {self._count} matrices of "
                f"{self.shape[0]} x {self.shape[1]}; allowed: a single matrix."
                " gemmctl tensor downloads and uploads batches")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns); of a batch those of each matrix."""
        rows, columns = self._stored_shape
        return (columns, rows) if self._transposed else (rows, columns)

    @property
    def order(self) -> arrays.Order:
        """How it lies on the device: "C", row-major, or "F"."""
        if not self._transposed:
            return self._stored_order
        return "C" if self._stored_order == "F" else "F"

    @property
    def ndim(self) -> int:
        return 2

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements and of what a sparse or quantized tensor has
        besides; on the device, lines are padded."""
        lines, size = self._stored_lines()
        return self._count * lines * size

    def _stored_lines(self) -> tuple[int, int]:
        """How many a matrix has, and their bytes."""
        lines, length = (self._stored_shape if self._stored_order == "C"
                         else self._stored_shape[::-1])
        if self.sparse:
            return lines, SparseMatrix.line_bytes(length, self.dtype)
        if self.quantization is not None:
            return lines, self.quantization.line_bytes(length, self.dtype)
        if nibbles.are(self.dtype):
            return lines, nibbles.width(length)
        if self.dtype == np.bool_:
            return lines, bits.size_of(length)
        return lines, length * self.dtype.itemsize

    @property
    def T(self: Self) -> Self:
        """The transpose: another view of the same elements, without a copy."""
        view = self.__copy__()
        view._transposed = not self._transposed
        view._kind = None
        return view

    def __copy__(self: Self) -> Self:
        """Another view of the same elements."""
        view = type(self).__new__(type(self))
        view.__dict__.update(self.__dict__)
        return view

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise unpicklable(self, self._instead)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        kind = "sparse " if self.sparse else ""
        if self.quantization is not None:
            kind = f"quantized (by {self.quantization}) "
        if self._count > 1:
            label += f" batch of {self._count},"
        return (f"<gemmd.{type(self).__name__}{label} {self.shape[0]}x"
                f"{self.shape[1]} {kind}{self.dtype} order {self.order} on "
                f"{self.device or '?'}>")

    def _empty(self, regions: Regions) -> tuple[Bytes, Optional[Block]]:
        """The lines that a download fills, and where the daemon does."""
        shape = self._stored_lines()
        block = regions.block_or_none(math.prod(shape))
        if block is None:
            return np.empty(shape, np.uint8), None
        return block.bytes.reshape(shape), block

    def _place(self, regions: Regions,
               operand: arrays.Operand) -> Optional[Place]:
        """Where the daemon reads what is uploaded; None: it is sent."""
        if isinstance(operand.source, DeviceArray):
            return regions.device.place(operand.source)[0]
        if self.sparse or operand.batch_stride is not None:
            return None
        return regions.place(operand.data)

    async def _fetch(self, caller: Caller,
                     timeout: Optional[float]) -> Stored:
        """The elements."""
        self.check_single("tensor")
        with time_left.within(caller._seconds(timeout)):
            lines, block = await caller._aside(self._empty)
            timeout = told(time_left.left())
        layout = api.Layout(order=arrays.wire_order(self._stored_order))
        if block is None:
            await striped.download(caller, self.handle, layout,
                                   lines.reshape(-1).data, timeout)
        else:
            with lent([block.written]):
                await caller._receive(
                    rpcs.download_to(block.place, self.handle, layout),
                    timeout, _refuse)
        return self._as_seen(lines)

    async def _replace(self, caller: Caller, array: Any,
                       timeout: Optional[float]) -> None:
        """The elements by others."""
        operand = self._to_upload(array)
        with time_left.within(caller._seconds(timeout)):
            place = await caller._aside(self._place, operand)
            timeout = told(time_left.left())
        if place is None:
            await striped.upload(caller, self.handle, operand.layout(),
                                 operand.data, timeout)
        else:
            await caller._run(rpcs.upload_from(place, self.handle,
                                               operand.layout()), timeout)

    def _as_seen(self, lines: Bytes) -> Stored:
        """What lines hold, transposed where this view is."""
        rows = self._stored_order == "C"
        length = self._stored_shape[1 if rows else 0]
        axis = -1 if rows else -2
        stored: Stored
        if self.sparse:
            stored = SparseMatrix(lines, self.dtype, length, axis)
        elif self.quantization is not None:
            stored = QuantizedMatrix(lines, self.dtype, length,
                                     self.quantization, axis)
        else:
            elements = (nibbles.unpack(lines, length, self.dtype)
                        if nibbles.are(self.dtype) else
                        bits.unpack(lines, length)
                        if self.dtype == np.bool_ else lines.view(self.dtype))
            stored = elements if rows else elements.T
        return stored.T if self._transposed else stored

    def _check_compressed(self, stored: Stored) -> SparseMatrix:
        if not isinstance(stored, SparseMatrix):
            raise InvalidArgument("compressed: the tensor is not sparse; use "
                                  "numpy()")
        return stored

    def _check_quantized(self, stored: Stored) -> QuantizedMatrix:
        if not isinstance(stored, QuantizedMatrix):
            raise InvalidArgument("quantized: the tensor is not; use numpy()")
        return stored

    def _to_upload(self, value: Any) -> arrays.Operand:
        self.check_single("tensor")
        array = matrix_of(value, "array")
        if array.shape != self.shape:
            raise InvalidArgument(f"array: shape {array.shape} is not the "
                                  f"tensor's {self.shape}")
        if array.dtype != self.dtype:
            raise InvalidArgument(
                f"array: dtype {array.dtype} is not the tensor's {self.dtype};"
                f" use array.astype(tensor.dtype)")
        if self.sparse != is_sparse(array):
            raise InvalidArgument(
                "array: is not sparse, as the tensor is; use gemmd.sparse24"
                if self.sparse else
                "array: is sparse, and the tensor is not; use array.toarray()")
        if self.quantization != quantization_of(array):
            raise InvalidArgument(
                "array: is not quantized as the tensor is, by "
                f"{self.quantization}; use gemmd.quantize"
                if self.quantization is not None else
                "array: is quantized, and the tensor is not; use "
                "array.elements, its elements without scales")
        if isinstance(array, Composite):
            if array.order != self.order:
                raise InvalidArgument(
                    f"array: its lines are those of order {array.order!r}; the "
                    f"tensor's order is {self.order!r}")
            return arrays.operand(array)
        if self._transposed:
            array = array.T
        return lie(array, self._stored_order)


class Tensor(Resident):
    """A matrix on a device; an operand or the result of many products.

    Made by Client.tensor, zeros, tensors and attach. It lives until delete(),
    the end of its `with` block, or the end of its time to live: it is not
    deleted with the Python object. `tensor @ b` multiplies, `tensor.T` is its
    transpose, np.asarray(tensor) its elements. Thread-safe.
    """

    _client: "Client"

    def __enter__(self) -> "Tensor":
        return self

    def __exit__(self, kind: Optional[type[BaseException]],
                 error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            self.delete()
        except NotFound:
            pass
        except Error:
            # What went wrong inside says more.
            if error is None:
                raise

    def __matmul__(self, other: Any) -> Any:
        return self._client.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._client.matmul(other, self)

    def __array__(self, dtype: Any = None,
                  copy: Optional[bool] = None) -> arrays.Array:
        if copy is False:
            raise ValueError("the elements of a tensor are always copied")
        elements = self.numpy()
        return elements if dtype is None else elements.astype(dtype)

    def numpy(self, *, timeout: Optional[float] = None) -> arrays.Array:
        """The elements, in the tensor's order; of a quantized one what they
        stand for, in float32."""
        return dense(self._download(timeout))

    def compressed(self, *,
                   timeout: Optional[float] = None) -> SparseMatrix:
        """The SparseMatrix that a sparse tensor has."""
        return self._check_compressed(self._download(timeout))

    def quantized(self, *,
                  timeout: Optional[float] = None) -> QuantizedMatrix:
        """The QuantizedMatrix that a quantized tensor has."""
        return self._check_quantized(self._download(timeout))

    def _download(self, timeout: Optional[float]) -> Stored:
        return completed(self._fetch(Blocking(self._client), timeout))

    def upload(self, array: Any, *,
               timeout: Optional[float] = None) -> "Tensor":
        """Replaces the elements by those of an array of the same shape."""
        completed(self._replace(Blocking(self._client), array, timeout))
        return self

    def info(self, *, timeout: Optional[float] = None) -> Any:
        """The daemon's TensorInfo, with device_bytes, ttl_s and idle_s."""
        return self._client._run(rpcs.describe_tensor(self.handle), timeout)

    def delete(self, *, timeout: Optional[float] = None) -> None:
        """Frees the device memory. NotFound when it is already gone."""
        self._client._run(rpcs.delete_tensor(self.handle), timeout)
