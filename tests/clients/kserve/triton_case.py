"""A daemon on its host device, Triton's client as PyPI has it, and our own."""

import os
import subprocess
import tempfile
import unittest

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

import gemmd
from host_daemon import BUILD, HostDaemon

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = {np.dtype(np.float32): "FP32", np.dtype(np.float16): "FP16",
         BF16: "BF16", np.dtype(np.int8): "INT8", np.dtype(np.uint8): "UINT8",
         np.dtype(np.int32): "INT32"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def values(*shape, dtype=np.float32, seed=0):
    """Of a seed the same every time: fractions, or all that an integer holds."""
    generator = np.random.default_rng((seed, *shape))
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max + 1, shape, dtype)
    return generator.standard_normal(shape).astype(dtype)


def given(name, array):
    """An input as a user gives it."""
    value = triton.InferInput(name, array.shape, NAMES[array.dtype])
    return value.set_data_from_numpy(array)


def array_of(result, name="D"):
    """The output, of any type."""
    output = result.get_output(name)
    response = result.get_response()
    at = [o.name for o in response.outputs].index(name)
    return np.frombuffer(response.raw_output_contents[at],
                         DTYPES[output.datatype]).reshape(output.shape)


class TritonCase(unittest.TestCase):
    daemon_flags = ("--admin-calls",)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        daemon = HostDaemon(*cls.daemon_flags).__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.connect(daemon.target)

    @classmethod
    def connect(cls, target):
        cls.target = target
        cls.client = triton.InferenceServerClient(target)
        cls.addClassCleanup(cls.client.close)
        cls.stub = service_pb2_grpc.GRPCInferenceServiceStub(
            cls.client._channel)
        cls.gemmd = gemmd.Client(target)
        cls.addClassCleanup(cls.gemmd.close)

    def infer(self, inputs, model="matmul", **options):
        """`inputs` are arrays by name."""
        return self.client.infer(
            model, [given(name, array) for name, array in inputs.items()],
            **options)

    def product(self, inputs, model="matmul", **options):
        return array_of(self.infer(inputs, model, **options))

    def refuse(self, code, text, call, *words, **options):
        """The call fails with this code, and a text in which `text` is."""
        with self.assertRaises(InferenceServerException) as caught:
            call(*words, **options)
        self.assertEqual(caught.exception.status(), f"StatusCode.{code}",
                         caught.exception.message())
        self.assertIn(text, caught.exception.message())

    def gemmctl(self, *words, code=0, target=None):
        done = subprocess.run(
            [BUILD / "clients/gemmctl/gemmctl", *words, "--server",
             target or self.target], capture_output=True, timeout=120,
            check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return (done.stderr if code else done.stdout).decode().strip()

    def upload(self, array, *words, target=None):
        """The handle of a tensor of these elements."""
        path = os.path.join(self.folder, "tensor.npy")
        if array.dtype == BF16:
            array, words = array.view(np.uint16), ("--dtype", "bf16", *words)
        np.save(path, array)
        return self.gemmctl("tensor", "upload", path, *words, target=target)


__all__ = ["BF16", "BUILD", "DTYPES", "NAMES", "HostDaemon", "TritonCase",
           "array_of", "given", "service_pb2", "triton", "values"]
