"""What is striped, and a daemon for it that goes wrong where it is told to."""

import threading
import time

import gemmd
import grpc
import ml_dtypes
import numpy as np

from gemmd import api, wire
from fake_daemon import FakeDaemon
from random_products import Generator

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


def arrays():
    """What tensors are made of, and what their numpy() is then."""
    g = Generator(1)
    for array in (g.matrix(BF16, 4, 301, 70),
                  np.asfortranarray(g.matrix(F32, 4, 33, 900)),
                  g.matrix(F32, 4, 50, 80)[:, :70]):
        yield array, array
    sparse = gemmd.sparse24(g.matrix(BF16, 4, 64, 128), axis=1, prune=True)
    yield sparse, sparse.toarray()
    quantized = gemmd.quantize(g.matrix(F32, 4, 90, 256), "s4", group=64,
                               axis=1)
    yield quantized, quantized.dequantize()


def products():
    """Arguments of products, and which operands and results are tensors."""
    g = Generator(2)
    a, b = g.matrix(BF16, 4, 1100, 900), g.matrix(BF16, 4, 900, 700)
    yield (a, b), {"out_dtype": F32}, "a b d"
    yield (a.T[:, :900], b), {"out_order": "F"}, "a b d"
    options = {"c": g.matrix(F32, 4, 1100, 700), "beta": 2.0,
               "out_dtype": F32, "bias": np.arange(700),
               "activation": "relu", "return_amax": True}
    yield (a, b), options, "a b c d"
    yield (a, b), {**options, "return_pre_activation": True}, ""
    stack = g.matrix(BF16, 4, 4 * 300, 900).reshape(4, 300, 900)
    yield (stack, b), {}, "a b d"
    yield (stack[:, :280], b), {}, ""          # With gaps.
    yield (np.ones((3, 0), F32), np.ones((0, 4), F32)), {}, ""
    quantized = gemmd.quantize(np.random.randn(900, 2400), "s4", group=128,
                               axis=0)
    yield (a, quantized), {}, "a b d"
    sparse = gemmd.sparse24(g.matrix(BF16, 4, 1100, 1024), axis=1, prune=True)
    yield (sparse, g.matrix(BF16, 4, 1024, 700)), {}, "a b d"
    sparse = gemmd.sparse24(g.matrix(BF16, 4, 1024, 1100), axis=0, prune=True)
    yield (g.matrix(BF16, 4, 700, 1024), sparse), {}, "a b d"
    yield (a > 0, b > 0), {}, "d"


def check_product(test, found, expected, tensors):
    """By several connections, and by one."""
    np.testing.assert_array_equal(found.d, expected.d)
    test.assertEqual(found.d.dtype, expected.d.dtype)
    test.assertEqual(found.d.flags.f_contiguous, expected.d.flags.f_contiguous)
    test.assertTrue(found.d.flags.writeable)
    test.assertEqual(found.amax, expected.amax)
    if expected.pre_activation is not None:
        np.testing.assert_array_equal(found.pre_activation,
                                      expected.pre_activation)
    paths = found.execution.paths
    test.assertEqual(" ".join(
        name for name in "abcd"
        if getattr(paths, name) == api.enum("Path")["PATH_TENSOR"]), tensors)


class PartsDaemon(FakeDaemon):
    """Takes and gives tensors in parts. They are of float32, row-major, and
    their lines tight."""

    def __init__(self, address="127.0.0.1:0"):
        super().__init__(address=address)
        # Of the next parts with line 0, in this order: the gRPC code that ends
        # it, or "hang": it hears nothing until it is ended.
        self.part_ends = []
        self.hung = threading.Event()
        # Bytes that a download has more than it should, and whether it ends.
        self.too_many = 0
        self.endless = False
        # What is not set holds up what makes and what deletes tensors.
        self.made = 0
        self.creates = threading.Event()
        self.creates.set()
        self.deletes = threading.Event()
        self.deletes.set()
        # Kinds of calls, newest last: "part" or "whole".
        self.calls = []
        self.part_peers = set()  # Connections that brought or took one.

    def __exit__(self, *unused):
        self.creates.set()
        self.deletes.set()
        super().__exit__()

    def _create(self, request):
        self.creates.wait()
        info = super()._create(request)
        self.made += 1
        info.version = 1
        return info

    def _delete(self, request):
        self.deletes.wait()
        return super()._delete(request)

    def _hang(self, context):
        self.hung.set()
        while context.is_active():
            time.sleep(0.01)
        self.hung.clear()

    def _ends(self, lines, context):
        """Ends the part that is to be."""
        self.calls.append("part")
        self.part_peers.add(context.peer())
        if lines.first or not self.part_ends:
            return
        fault = self.part_ends.pop(0)
        if fault == "hang":
            self._hang(context)
        else:
            context.abort(fault, "as it was told")

    def _upload(self, requests, context):
        header = next(requests).header
        info, matrix = self._find(header.handle)
        lines = header.part.lines
        # Not HasField, which now and then is not found where threads ask at a
        # time (protobuf 4.25).
        if lines.count:
            self._ends(lines, context)
        else:
            self.calls.append("whole")
        data = b"".join(part.data for part in requests)
        flat = np.frombuffer(data, matrix.dtype).reshape(-1, matrix.shape[1])
        matrix[lines.first:lines.first + len(flat)] = flat
        return info

    def _download(self, request, context):
        _, matrix = self._find(request.handle)
        chosen = matrix
        lines = request.lines
        if lines.count:
            self._ends(lines, context)
            chosen = matrix[lines.first:lines.first + lines.count]
        else:
            self.calls.append("whole")
        data = chosen.tobytes()
        if self.too_many:
            data = (data + bytes(self.too_many) if self.too_many > 0
                    else data[:self.too_many])
        yield wire.field(1, len(data)) + data
        if self.endless:
            self._hang(context)


REFUSED = grpc.StatusCode.RESOURCE_EXHAUSTED
BROKEN = grpc.StatusCode.INTERNAL
ABORTED = grpc.StatusCode.ABORTED
