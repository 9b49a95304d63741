"""The package is annotated throughout: mypy's strict mode finds nothing, in it
or in a program that uses it."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

_PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "clients/python"

_PROGRAM = """
    import gemmd
    import numpy as np

    def use(client: gemmd.Client) -> gemmd.Tensor:
        a = np.ones((2, 3), np.float16)
        with client.tensor(a, label="a") as tensor:
            d = client.matmul(a.T, tensor, alpha=2.0, out_dtype=np.float32,
                              idempotency_key="0123456789abcdef")
            d, amax = client.matmul(a.T, tensor, bias=[1.0, 2.0],
                                    activation="relu", a_scale=0.5,
                                    alpha=np.float32(2), return_amax=True)
            print(d, tensor.T @ a, tensor.shape[0] + tensor.nbytes)
        weights = gemmd.quantize(np.ones((3, 4)), "u4", axis=0, group=None,
                                 zero_points=True)
        print(client.matmul(a, weights), weights.T.scales, weights.nbytes)
        return client.attach("handle")
"""


def _mypy(*arguments):
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--config-file",
             _PACKAGE / "pyproject.toml", "--cache-dir", cache, *arguments],
            cwd=_PACKAGE, capture_output=True, text=True, timeout=300,
            check=False)


class AnnotationsTest(unittest.TestCase):
    def test_the_package_passes(self):
        result = _mypy()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_program_is_checked_against_it(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text(textwrap.dedent(_PROGRAM))
            self.assertEqual(_mypy(program).returncode, 0)
            wrong = _PROGRAM.replace("alpha=2.0", "alpha='two', gamma=1"
                                     ).replace('"relu"', "1"
                                     ).replace('"0123456789abcdef"', "2")
            program.write_text(textwrap.dedent(wrong))
            said = _mypy(program).stdout
        self.assertIn('"alpha"', said)
        self.assertIn('"gamma"', said)
        self.assertIn('"activation"', said)
        self.assertIn('"idempotency_key"', said)


if __name__ == "__main__":
    unittest.main()
