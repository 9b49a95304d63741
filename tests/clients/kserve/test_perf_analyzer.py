"""Triton's own measuring program, for a moment, where PyPI has it for this
machine."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from triton_case import TritonCase, values

PROGRAM = shutil.which("perf_analyzer",
                       path=str(pathlib.Path(sys.executable).parent))


@unittest.skipIf(PROGRAM is None, "PyPI has no perf_analyzer for this machine: "
                 "it needs glibc 2.38")
class PerfAnalyzerTest(TritonCase):
    def measure(self, model, **inputs):
        data = {name: {"content": array.ravel().tolist(),
                       "shape": list(array.shape)}
                for name, array in inputs.items()}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"data": [data]}, file)
            file.flush()
            done = subprocess.run(
                [PROGRAM, "-m", model, "-i", "grpc", "-u", self.target,
                 f"--input-data={file.name}", "--request-count=50",
                 "--concurrency-range=2"], capture_output=True, text=True,
                timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Throughput:", done.stdout, done.stderr)

    def test_it_measures(self):
        self.measure("matmul", A=values(64, 64), B=values(64, 64))
        self.gemmctl("model", "create", "linear", "--b",
                     self.upload(values(64, 32)))
        self.measure("linear", A=values(16, 64))


if __name__ == "__main__":
    unittest.main()
