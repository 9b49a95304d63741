"""Commands on files, given files of all kinds and types that do not fit them: each
is done, or says what was wrong, and none is ended by a signal."""

import io
import itertools
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy as np

from gemmctl_case import FAILED, OK, USAGE
from host_daemon import BUILD
from mutations import Mutations

TYPES = ("f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1",
         "s32")
SHAPES = (), (0, 4), (16,), (32, 16), (2, 8, 16), (64, 33), (1, 1, 1, 1)
DTYPES = "f4", "f2", "u1", "i1", "u2", "i2", "i4", "V1", "V2", "?", "f8", "c8"
# Words, and how many files they take.
COMMANDS = ((("compress",), 1), (("compress", "--prune", "--of", "b"), 1),
            (("decompress",), 1), (("decompress", "--of", "b"), 1),
            (("quantize", "--scales", "scales"), 1), (("dequantize",), 1),
            (("from-gptq", "--scales", "scales"), 3),
            (("from-awq", "--scales", "scales"), 3), (("from-cutlass",), 2))
SEED = 20261125
MUTATED = 60
RUNS = 500


def contents():
    """Of files: right ones of every shape and dtype, and some that are not."""
    rng = np.random.default_rng(SEED)
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        bits = rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        array = np.frombuffer(bits, dtype).reshape(shape)
        for laid in array, np.asfortranarray(array):
            file = io.BytesIO()
            np.save(file, laid)
            yield file.getvalue()


class GemmctlOddFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self):
        """All files; their names."""
        mutations = Mutations(SEED, [])
        whole = list(contents())
        files = []
        for i, content in enumerate(whole + [
                mutations.of_bytes(mutations.random.choice(whole))
                for _ in range(MUTATED)]):
            files.append(self.folder / f"{i}.npy")
            files[-1].write_bytes(content)
        return files

    def test_none_is_ended_by_a_signal(self):
        rng = random.Random(SEED)
        files = self.save()
        codes = set()
        for _ in range(RUNS):
            words, count = rng.choice(COMMANDS)
            words = [self.folder / "scales.npy" if word == "scales" else word
                     for word in words]
            if words[0] == "dequantize":
                words += ["--scales", rng.choice(files)]
            if rng.random() < 0.8:
                words += ["--dtype", rng.choice(TYPES)]
            run = subprocess.run(
                [BUILD / "clients/gemmctl/gemmctl", *words,
                 *rng.choices(files, k=count), "-o", self.folder / "out.npy"],
                capture_output=True, timeout=60, check=False)
            said = run.stderr.decode()
            with self.subTest(run.args[1:], said=said):
                self.assertIn(run.returncode, (OK, FAILED, USAGE))
                self.assertEqual(run.returncode == OK, not said)
                self.assertTrue(said.replace("\n", "").isprintable())
            codes.add(run.returncode)
        self.assertEqual(codes, {OK, FAILED, USAGE})


if __name__ == "__main__":
    unittest.main()
