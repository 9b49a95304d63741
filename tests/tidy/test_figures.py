"""README.md's figures of a GPU are those of the evidence."""

import pathlib
import sys
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "tests/gpu"))

import figures  # noqa: E402
import performance  # noqa: E402


class FiguresTest(unittest.TestCase):
    def test_readme_has_those_of_the_evidence(self):
        text = (_ROOT / "README.md").read_text()
        self.assertEqual(text, figures.written(text),
                         "run tests/gpu/figures.py --write")

    def test_every_type_that_was_timed_is_a_row(self):
        rows = figures.table("types").splitlines()[2:]
        self.assertGreater(len({row.split()[1] for row in rows}), 5)
        for row in rows:
            self.assertEqual(row.count("|"), 7)

    def test_pictures_are_of_the_evidence(self):
        folder = _ROOT / "tests/gpu/performance"
        pictures = sorted(path.name for path in folder.glob("*.svg"))
        page = (folder / "README.md").read_text()
        self.assertEqual(len(pictures), 3)
        for name in pictures:
            self.assertIn(f"({name})", page)
            self.assertIn(f"evidence {performance.digest()}",
                          (folder / name).read_text(),
                          "run tests/gpu/performance.py plot")


if __name__ == "__main__":
    unittest.main()
