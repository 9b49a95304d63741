"""Calls of every method, changed a little: each gets an answer that says what was
wrong, and others are served as before."""

import unittest

import grpc
import ml_dtypes
import numpy as np

import gemmd
from host_daemon import HostDaemon
from mutated_calls import MutatedCalls
from proxy import Proxy
from services import Services

F32, F16 = np.float32, np.float16
SEED = 20261125
COUNT = 12_000
MODELS = "/gemmd.v1.ModelService/"
INFERENCE = "/inference.GRPCInferenceService/"
# Not served, whatever they bring; and what would end the tensors that others
# name.
LEFT_OUT = ("/gemmd.v1.TensorService/DeleteTensor",) + tuple(INFERENCE + name for name in (
    "RepositoryModel", "SystemSharedMemory", "CudaSharedMemory", "TraceSetting",
    "LogSettings"))
# Of these some come through, and others are wrong.
MIXED = ("MatmulService/Matmul", "MatmulService/MatmulGrouped",
         "MatmulService/MatmulStream", "MatmulService/Sequence",
         "TensorService/CreateTensor", "KernelService/PrepareKernels")


def random(*shape, dtype=F32):
    return np.random.default_rng(len(shape)).standard_normal(
        shape).astype(dtype)


def use(target):
    """A bit of everything. Returns handles of tensors that stay."""
    a, b = random(24, 32), random(32, 40)
    client = gemmd.Client(target, timeout=60)
    for dtype in (F32, F16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
                  np.int8):
        client.matmul(a.astype(dtype), b.astype(dtype))
    client.matmul(a > 0, b > 0)
    client.matmul(a, b, c=np.ones((24, 40), F32), beta=2.0, alpha=0.5,
                  bias=np.ones(40, F32))
    client.matmul(np.stack([a, a]), b)
    client.matmul_grouped([a, a[:5]], [b, b])
    client.matmul(gemmd.sparse24(np.tile(np.array([1, 0, 2, 0], F16), (32, 16))),
                  random(64, 40, dtype=F16))
    tensors = [client.tensor(a), client.tensor(b), client.zeros((24, 40), F32)]
    client.matmul(tensors[0], tensors[1], out=tensors[2])
    tensors[2].numpy()
    tensors[0].upload(a)
    with client.sequence() as s:
        s.matmul(s.matmul(a, b), np.ones((40, 8), F32))
        s.matmul(tensors[0], tensors[1], out=tensors[2])
    client.zeros((3, 4), F16).delete()
    client.tensors()
    with gemmd.Client(target, timeout=60, stream_bytes=0) as streaming:
        streaming.matmul(a, b)
    return [tensor.handle for tensor in tensors]


def infer(services, model, arrays, in_place):
    """A request with its elements in place or behind."""
    request = services.message("inference.ModelInferRequest")(model_name=model)
    for name, array in arrays.items():
        given = request.inputs.add(name=name, datatype="FP32",
                                   shape=array.shape)
        if in_place:
            given.contents.fp32_contents.extend(array.ravel().tolist())
        else:
            request.raw_input_contents.append(array.tobytes())
    return request.SerializeToString()


def calls_of_models(services, b):
    """b: the handle of what the model "m" multiplies with."""
    inputs = {"A": random(24, 32), "B": random(32, 40)}
    inferences = [infer(services, model, given, in_place)
                  for model, given in (("matmul", inputs),
                                       ("m", {"A": inputs["A"]}))
                  for in_place in (False, True)]
    calls = {INFERENCE + "ModelInfer": [[each] for each in inferences],
             INFERENCE + "ModelStreamInfer": [inferences, inferences[:1]]}
    for name in ("ModelReady", "ModelMetadata", "ModelConfig",
                 "ModelStatistics"):
        calls[INFERENCE + name] = [[services.methods[INFERENCE + name][0](
            name="m").SerializeToString()]]
    create, *_ = services.methods[MODELS + "CreateModel"]
    calls[MODELS + "CreateModel"] = [
        [create(name="m", b=b).SerializeToString()]]
    return calls


class MutatedCallsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        daemon = HostDaemon("--admin-calls", "--max-tensor-bytes=64MiB")
        cls.daemon = daemon.__enter__()
        cls.addClassCleanup(daemon.__exit__)
        cls.services = Services()
        with Proxy(daemon.target) as proxy:
            cls.names = use(proxy.target)
            cls.calls = cls._calls(proxy.calls)

    @classmethod
    def _calls(cls, recorded):
        calls = {}
        for call in recorded:
            calls.setdefault(f"/gemmd.v1.{call.method}", []).append(
                call.requests)
        calls |= calls_of_models(cls.services, cls.names[1])
        for name, (kind, *_) in cls.services.methods.items():
            calls.setdefault(name, [[kind().SerializeToString()]])
        return {name: calls[name] for name in calls
                if not name.startswith(LEFT_OUT)}

    def test_each_is_answered(self):
        with grpc.insecure_channel(self.daemon.target) as channel:
            create = MODELS + "CreateModel"
            channel.unary_unary(create)(self.calls[create][0][0], timeout=60)
        with MutatedCalls(self.daemon.target, self.services.methods,
                          self.calls, self.names, SEED) as mutated:
            mutated.send(COUNT)
        self.assertFalse(mutated.complaints,
                         "\n".join(mutated.complaints[:10]))
        self.assertEqual(set(mutated.codes), set(self.calls))
        for name in MIXED:
            self.assertLessEqual(
                {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT},
                mutated.codes[f"/gemmd.v1.{name}"])
        a = random(40, 50)
        with gemmd.Client(self.daemon.target, timeout=60) as client:
            np.testing.assert_allclose(client.matmul(a, a.T), a @ a.T,
                                       rtol=1e-3, atol=1e-3)
