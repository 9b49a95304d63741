"""Matrices resident on a device of the daemon."""

import numpy as np

from . import api, arrays, wire
from .errors import InvalidArgument


class Tensor:
    """A matrix on a device; an operand or the result of many products.

    Made by Client.tensor, Client.zeros and Client.tensors. It lives until
    delete(), the end of its `with` block, or the end of its time to live:
    it is not deleted with the Python object. Thread-safe.
    """

    def __init__(self, client, info):
        self._client = client
        self.handle = info.handle
        self.shape = (info.rows, info.columns)
        self.dtype = arrays.numpy_type(info.dtype)
        self.order = "F" if info.order == api.COLUMN_MAJOR else "C"
        self.device = info.device
        self.label = info.label

    def __repr__(self):
        return (f"<gemmd.Tensor {self.shape[0]}x{self.shape[1]} {self.dtype} "
                f"order {self.order} on {self.device or '?'}>")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.delete()

    def numpy(self, *, timeout=None) -> np.ndarray:
        """The elements, in the tensor's order."""
        result = np.empty(self.shape, self.dtype, order=self.order)
        # Bytes in the order of memory.
        flat = memoryview((result if self.order == "C" else result.T)
                          .view(np.uint8).reshape(-1))
        request = api.DownloadTensorRequest(
            handle=self.handle, layout=self._layout(), chunk_bytes=4 << 20)
        position = 0
        for chunk in self._client._stream_from("DownloadTensor", request,
                                               timeout):
            flat[position:position + len(chunk)] = chunk
            position += len(chunk)
        if position != len(flat):
            raise InvalidArgument(f"daemon sent {position} bytes of a tensor "
                                  f"of {len(flat)}")
        return result

    def upload(self, array, *, timeout=None) -> "Tensor":
        """Replaces the elements by those of an array of the same shape."""
        array = arrays.check_matrix(array, "array")
        if array.shape != self.shape:
            raise InvalidArgument(f"array: shape {array.shape} is not the "
                                  f"tensor's {self.shape}")
        if array.dtype != self.dtype:
            raise InvalidArgument(f"array: dtype {array.dtype} is not the "
                                  f"tensor's {self.dtype}")
        operand = arrays.operand(array, self.order)
        self._client._stream_to("UploadTensor", wire.upload_requests(
            self.handle, operand.layout(), operand.data), timeout)
        return self

    def info(self, *, timeout=None):
        """The daemon's TensorInfo, with device_bytes, ttl_s and idle_s."""
        return self._client._call(
            "TensorService/DescribeTensor",
            api.DescribeTensorRequest(handle=self.handle), api.TensorInfo,
            timeout)

    def delete(self, *, timeout=None) -> None:
        """Frees the device memory. NotFound when it is already gone."""
        self._client._call(
            "TensorService/DeleteTensor",
            api.DeleteTensorRequest(handle=self.handle),
            api.DeleteTensorResponse, timeout)

    def _layout(self):
        return api.Layout(order=arrays.wire_order(self.order))
