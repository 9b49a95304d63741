"""Sparse operands as types.proto describes them, written for these checks
alone: what a line stores and its bytes. Pure functions; lines run along the
last axis."""

import numpy as np

# Places of the values of a chunk, by its metadata.
PLACES = {4: {0x4: (0, 1), 0x8: (0, 2), 0x9: (1, 2), 0xC: (0, 3),
              0xD: (1, 3), 0xE: (2, 3)},
          2: {0x4: (0,), 0xE: (1,)}}
# Choices of metadata come again after so many chunks: 1 to 6 each, in turn.
_PERIOD = 60


def chunk(name):
    return 2 if name == "f32" else 4


def _choices(size):
    """(sets of elements, turns): metadata that have places for all of a set,
    in turn; 0 where none has."""
    table = np.zeros((1 << size, _PERIOD), np.uint8)
    for values in range(1 << size):
        fitting = [code for code, places in PLACES[size].items()
                   if not values & ~sum(1 << place for place in places)]
        if fitting:
            table[values] = np.resize(fitting, _PERIOD)
    return table


_CHOICES = {size: _choices(size) for size in PLACES}


def _chunks(lines, name):
    return lines.reshape(*lines.shape[:-1], -1, chunk(name))


def codes(lines, name):
    """Metadata of every chunk. Where a chunk has fewer values than places, all
    that are legal come in turn, by the chunk's number."""
    size = chunk(name)
    if not lines.size:
        return np.zeros((*lines.shape[:-1], lines.shape[-1] // size), np.uint8)
    with np.errstate(invalid="ignore"):
        nonzero = _chunks(lines.astype(np.float64), name) != 0
    sets = nonzero @ (1 << np.arange(size))
    turns = np.arange(sets.shape[-1]) % _PERIOD
    made = _CHOICES[size][sets, turns]
    assert made.all(), "more values than a chunk has places"
    return made


def _mask(made, size):
    """Which elements are stored, by the metadata of their chunks."""
    table = np.zeros((16, size), np.bool_)
    for code, places in PLACES[size].items():
        table[code, list(places)] = True
    mask = table[made]
    return mask.reshape(*made.shape[:-1], made.shape[-1] * size)


def stored(lines, name):
    """Which elements are stored."""
    return _mask(codes(lines, name), chunk(name))


def keep(lines, name, generator):
    """The elements at places drawn for every chunk, zeros elsewhere."""
    size = chunk(name)
    made = generator.choice(list(PLACES[size]), (
        *lines.shape[:-1], lines.shape[-1] // size))
    kept = lines.copy()
    kept[~_mask(made, size)] = 0
    return kept


def metadata(made):
    """The bytes of codes; half a byte that is left over is not legal."""
    if made.shape[-1] % 2:
        made = np.concatenate(
            (made, np.full((*made.shape[:-1], 1), 0xF, np.uint8)), axis=-1)
    return (made[..., 0::2] | made[..., 1::2] << 4).astype(np.uint8)


def pack(lines, name, made=None):
    """Values and metadata of every line as bytes; `made` are the codes if they
    are to be others, where they are not legal with the first elements."""
    if made is None:
        made = codes(lines, name)
    size = chunk(name)
    lines = np.ascontiguousarray(lines)
    plain = _chunks(lines.view(f"u{lines.itemsize}"), name)
    table = np.tile(np.arange(size // 2), (16, 1))
    for code, places in PLACES[size].items():
        table[code] = places
    values = np.take_along_axis(plain, table[made], axis=-1)
    values = np.ascontiguousarray(values).reshape(*lines.shape[:-1], -1)
    return np.concatenate((values.view(np.uint8), metadata(made)), axis=-1)
