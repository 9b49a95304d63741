"""A bf16 product as .npy files, and the proof that a result is right.

Standard library only: it runs where nothing is set up.
"""

import array
import ast
import operator
import pathlib
import random
import struct

# Odd on purpose: no tile and no alignment fits.
M, N, K = 301, 203, 1001
_UNIT_F32 = 2.0 ** -24


def _random_bf16(source):
    """A value in (-1, 1) that bf16 holds exactly."""
    bits, = struct.unpack("<I", struct.pack("<f", source.uniform(-1, 1)))
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def _write_npy(path, rows):
    header = repr({"descr": "<f4", "fortran_order": False,
                   "shape": (len(rows), len(rows[0]))}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)))
        file.write(header)
        for row in rows:
            file.write(array.array("f", row).tobytes())


def _read_npy(path):
    content = pathlib.Path(path).read_bytes()
    if content[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{path} is not a .npy file of version 1")
    start = 10 + struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:start].decode())
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"{path} holds {header}")
    rows, columns = header["shape"]
    values = array.array("f", content[start:])
    if len(values) != rows * columns:
        raise ValueError(f"{path} holds {len(values)} values for {header}")
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def write_operands(a_path, b_path, seed=1):
    source = random.Random(seed)
    _write_npy(a_path, [[_random_bf16(source) for _ in range(K)]
                        for _ in range(M)])
    _write_npy(b_path, [[_random_bf16(source) for _ in range(N)]
                        for _ in range(K)])


def _dot(x, y):
    return sum(map(operator.mul, x, y))


def worst_error(a_path, b_path, d_path):
    """The largest |D - A B| of any element, as a fraction of what summing k
    products in f32 and rounding once to f32 may cost: 2 k u |A||B| + u |AB|.
    """
    a, d = _read_npy(a_path), _read_npy(d_path)
    columns = list(zip(*_read_npy(b_path)))
    if (len(d), len(d[0])) != (M, N):
        raise ValueError(f"D is {len(d)} x {len(d[0])}, not {M} x {N}")
    absolute_columns = [list(map(abs, column)) for column in columns]
    worst = 0.0
    for row, results in zip(a, d):
        absolute_row = list(map(abs, row))
        for column, absolute, result in zip(columns, absolute_columns, results):
            expected = _dot(row, column)
            bound = _UNIT_F32 * (2 * K * _dot(absolute_row, absolute)
                                 + abs(expected))
            error = abs(result - expected) / bound
            # A NaN is the worst, whichever way it compares.
            worst = worst if error <= worst else error
            if worst != worst:
                return worst
    return worst
