"""The shapes that the suite multiplies: shapes.txt, parsed."""

import pathlib
from typing import NamedTuple


class Shape(NamedTuple):
    m: int
    n: int
    k: int

    def __str__(self):
        return f"{self.m}x{self.n}x{self.k}"


def load(subset: str):
    """Shapes of the subset "ci" or "full", as listed."""
    shapes = []
    path = pathlib.Path(__file__).with_name("shapes.txt")
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words and (subset == "full" or "ci" in words):
            shapes.append(Shape(*map(int, words[:3])))
    return shapes
