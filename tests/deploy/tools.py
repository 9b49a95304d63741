"""Programs that tests/tools.sh brings."""

import pathlib
import shutil
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def tool(*names):
    """The path of the first of them that there is. Skips the test, visibly,
    where there is none."""
    for name in names:
        path = shutil.which(name, path=_ROOT / "build/tools/usr/bin")
        path = path or shutil.which(name)
        if path is not None:
            return path
    raise unittest.SkipTest(f"{names[0]} is missing: tests/tools.sh")
