"""What gemm-warmup compiles for the problems that a daemon recorded, or for
lines that say the same, is what products with an epilogue use: a daemon that
compiles nothing answers them."""

import os
import subprocess
import tempfile
import unittest

import gemmd
import ml_dtypes
import numpy as np
from gemmd import api

from host_daemon import BUILD, HostDaemon

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F16, F32 = np.float16, np.float32
_HALVES = np.ones((64, 128), F16), np.ones((128, 48), F16)
_BYTES = np.ones((64, 256), E4M3), np.ones((256, 48), E4M3)
_BITS = np.ones((64, 256), bool), np.ones((256, 48), bool)

# Operands, options of matmul, and the problem as gemm-warmup takes it.
PRODUCTS = (
    (_HALVES, {"bias": np.ones(48), "activation": "silu"},
     "f16 TT 64 48 128 order=row bias=column act=silu"),
    (_HALVES, {"bias": np.ones((64, 1)), "a_scale": np.ones(64),
               "b_scale": 2.0, "out_scale": 0.5, "out_dtype": F32},
     "f16 TT 64 48 128 order=row d=f32 bias=row a_scale=row b_scale=tensor "
     "d_scale"),
    (_HALVES, {"activation": "relu", "return_pre_activation": True,
               "return_amax": True},
     "f16 TT 64 48 128 order=row act=relu aux amax"),
    (_BYTES, {"a_scale": np.ones((64, 2)), "b_scale": np.ones((2, 1))},
     "e4m3 TT 64 48 256 order=row a_scale=block b_scale=block"),
    (_BITS, {"bits": "xor"}, "b1-xor TN 64 48 256 order=row"),
)


class WarmedKernelsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def multiply_all(self, daemon):
        """The sources of the kernels of PRODUCTS, by name."""
        with gemmd.Client(daemon.target, timeout=120) as client:
            executions = [client.product(*operands, **options).execution
                          for operands, options, _ in PRODUCTS]
        return {made.kernel: api.enum_name("CubinSource", made.cubin_source)
                for made in executions}

    def compile(self, problems):
        subprocess.run(
            [BUILD / "clients/warmup/gemm-warmup", "compile",
             f"--cache-dir={self.path('cache')}", problems],
            check=True, capture_output=True, timeout=240)

    def assert_nothing_is_compiled(self):
        with HostDaemon(f"--cache-dir={self.path('cache')}",
                        "--require-complete") as daemon:
            kernels = self.multiply_all(daemon)
        self.assertEqual(len(kernels), len(PRODUCTS), kernels)
        self.assertEqual(set(kernels.values()), {"CUBIN_SOURCE_DISK"}, kernels)

    def test_of_what_a_daemon_recorded(self):
        with HostDaemon(f"--record-problems={self.path('seen')}") as daemon:
            self.multiply_all(daemon)
        self.compile(self.path("seen"))
        self.assert_nothing_is_compiled()

    def test_of_lines(self):
        with open(self.path("lines"), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for *_, line in PRODUCTS))
        self.compile(self.path("lines"))
        self.assert_nothing_is_compiled()


if __name__ == "__main__":
    unittest.main()
