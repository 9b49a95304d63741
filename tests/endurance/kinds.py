"""What clients do, over and over: each kind does one round of work with a
client and checks what comes back.

Matrices hold small integers, so that every result is exact; a product is checked
by two products with a vector.
"""

import time

import ml_dtypes
import numpy as np

import gemmd

BF16 = ml_dtypes.bfloat16
FLOATS = (np.float32, np.float16, BF16, ml_dtypes.float8_e4m3fn)
INTEGERS = (np.int8, np.uint8)


class Wrong(Exception):
    """An answer that is not what was asked for."""


def expect(holds, what):
    if not holds:
        raise Wrong(what)


class Dice:
    """Matrices and choices at random. `scale` is that of large ones."""

    def __init__(self, seed, scale):
        self.random = np.random.default_rng(seed)
        self.scale = scale

    def side(self, most=200):
        return int(self.random.integers(1, most))

    def one_of(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def matrix(self, rows, columns, dtype, least=-2):
        values = self.random.integers(least, 3, (columns, rows), np.int8)
        array = values.astype(dtype)
        # Stored by columns as often as by rows.
        return array.T if self.random.random() < .5 else np.ascontiguousarray(
            array.T)

    def pair(self, dtype, k=None):
        m, n, k = self.side(), self.side(), k or self.side()
        least = 0 if dtype == np.uint8 else -2
        return (self.matrix(m, k, dtype, least),
                self.matrix(k, n, dtype, least))


def check(dice, d, a, b, add=0.0):
    """d = a b + add, by way of a vector."""
    vector = dice.random.integers(-2, 3, b.shape[-1]).astype(np.float64)
    want = a.astype(np.float64) @ (b.astype(np.float64) @ vector)
    want = want + add * vector.sum()
    expect(np.array_equal(np.asarray(d, np.float64) @ vector, want),
           f"a product of {a.dtype} {a.shape} and {b.shape}")


def inline(client, dice):
    a, b = dice.pair(dice.one_of(FLOATS))
    check(dice, client.matmul(a, b, out_dtype=np.float32), a, b)


def integers(client, dice):
    a, b = dice.pair(dice.one_of(INTEGERS))
    check(dice, client.matmul(a, b), a, b)


def epilogue(client, dice):
    a, b = dice.pair(BF16)
    bias = np.full(b.shape[1], 3, np.float32)
    d = client.matmul(a, b, bias=bias, alpha=2, out_dtype=np.float32)
    check(dice, d, 2 * a.astype(np.float32), b, add=3.0)


def resident(client, dice):
    a, b = dice.pair(dice.one_of((np.float32, BF16)))
    with client.tensor(a) as x, client.tensor(b) as y, client.zeros(
            (a.shape[0], b.shape[1]), np.float32) as z:
        for _ in range(4):
            client.matmul(x, y, out=z)
        check(dice, z.numpy(), a, b)


def stream(client, dice):
    a, b = dice.pair(np.float32, k=4000)  # Beyond `stream_bytes`.
    check(dice, client.matmul(a, b, precision="tf32"), a, b)


def sequence(client, dice):
    a, b = dice.pair(BF16, k=64)
    c = dice.matrix(b.shape[1], 24, BF16)
    with client.sequence() as steps:
        first = steps.matmul(a, b, out_dtype=np.float32)
        second = steps.matmul(a, b, out_dtype=BF16)
        last = steps.matmul(second, c, out_dtype=np.float32)
        steps.returns(first, second, last)
    check(dice, first.numpy(), a, b)
    check(dice, last.numpy(), second.numpy(), c)


def grouped(client, dice):
    b = dice.matrix(96, 64, BF16)
    tokens = [dice.matrix(rows, 96, BF16) for rows in (0, 7, dice.side(), 33)]
    found = client.matmul_grouped(tokens, [b] * 4, out_dtype=np.float32)
    for d, a in zip(found, tokens):
        check(dice, d, a, b)


def sparse(client, dice):
    a, b = dice.pair(BF16, k=4 * dice.side(60))
    a = np.ascontiguousarray(a)
    a[:, np.arange(a.shape[1]) % 4 >= 2] = 0
    d = client.matmul(gemmd.sparse24(a), b, out_dtype=np.float32)
    check(dice, d, a, b)


def quantized(client, dice):
    n = dice.side()
    x = dice.matrix(dice.side(), 256, BF16)
    elements = dice.random.integers(-8, 8, (n, 256)).astype(ml_dtypes.int4)
    w = gemmd.quantized(elements, np.full((n, 2), 0.5, np.float32))
    d = client.matmul(w, x.T, out_dtype=np.float32)
    check(dice, d, elements.astype(np.float32) / 2, x.T)


def shared(client, dice):
    """Over a Unix socket: in memory that both see."""
    rows, columns, k = dice.side(), dice.side(), dice.side()
    a, b = client.empty((rows, k), BF16), client.empty((k, columns), BF16)
    d = client.empty((rows, columns), np.float32)
    a[...], b[...] = dice.matrix(rows, k, BF16), dice.matrix(k, columns, BF16)
    client.matmul(a, b, out=d)
    check(dice, d, a, b)


def refused(client, dice):
    """What may not be, and harms nobody."""
    try:
        client.attach("a-handle-that-is-not-there").numpy()
    except gemmd.NotFound:
        pass
    else:
        raise Wrong("a tensor that is not there was read")
    try:
        with client.zeros((1 << 15, 1 << 15), np.float32):  # Beyond the quota.
            raise Wrong("a quota of bytes was exceeded")
    except gemmd.ResourceExhausted:
        pass


def impatient(client, dice):
    """Answers come in time or not at all."""
    a, b = dice.pair(np.float32)
    try:
        check(dice, client.matmul(a, b, timeout=dice.one_of((1e-4, 2e-3, 1e-2))),
              a, b)
    except gemmd.DeadlineExceeded:
        pass


def large(client, dice):
    """Products whose operands and results stay on the device, one after
    another, as fast as one client asks."""
    side = 256 * dice.scale
    a, b = dice.matrix(side, side, BF16), dice.matrix(side, side, BF16)
    with client.tensor(a) as x, client.tensor(b) as y, client.zeros(
            (side, side), np.float32) as z:
        for _ in range(20 * dice.scale):
            client.matmul(x, y, out=z)
        check(dice, z.numpy(), a, b)


EVERYWHERE = (inline, integers, epilogue, resident, stream, sequence, grouped,
              sparse, quantized, refused, impatient)
ON_THIS_MACHINE = (shared, large)


def run(kinds, connect, dice, seconds):
    """{kind: [seconds of each round]}, and what went wrong. Every kind has its
    turn, in another order each time; clients come and go."""
    times, failures, turns = {}, [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(failures) < 20:
        with connect() as client:
            for _ in range(int(dice.random.integers(1, 60))):
                turns = turns or list(dice.random.permutation(len(kinds)))
                kind = kinds[turns.pop()]
                began = time.monotonic()
                if began >= end:
                    break
                try:
                    kind(client, dice)
                except (gemmd.Error, Wrong, ValueError) as error:
                    failures.append(f"{kind.__name__}: "
                                    f"{type(error).__name__}: {error}")
                    continue
                times.setdefault(kind.__name__, []).append(
                    time.monotonic() - began)
    return times, failures


def work(number, kinds, target, how, seconds, seed, scale, queue):
    """Of a process."""
    try:
        queue.put(run(kinds, lambda: gemmd.Client(target, **how),
                      Dice(seed * 1000 + number, scale), seconds))
    except Exception as error:  # pylint: disable=broad-exception-caught
        queue.put(({}, [f"worker {number}: {type(error).__name__}: {error}"]))
