"""Protobuf messages and their bytes, changed a little at random: what a client
with a mistake in it sends, or one that means harm."""

import random
from collections.abc import MutableMapping, MutableSequence

from google.protobuf.descriptor import FieldDescriptor

_INTEGERS = [0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257,
             *(1 << bits for bits in (12, 16, 20, 24, 31, 32, 40, 62)),
             *((1 << bits) - 1 for bits in (16, 31, 32, 63)),
             -1, -2, -16, -(1 << 31), -(1 << 63)]
_NUMBERS = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"),
            1e-45, 3.4e38]
# What fields that hold several values are.
_REPEATED = (MutableMapping, MutableSequence)
_TEXTS = ["", "host", "cuda:0", "host ", 300 * "x", "\0", "\x1b[31m", "\u00e4",
          "%s%n", "../../etc/passwd", "a\nb", "operand 0", "d 0"]


class Mutations:
    """Of a seed the same every time. `names` are put in for other texts."""

    def __init__(self, seed, names):
        self.random = random.Random(seed)
        self._names = names

    def of_message(self, message):
        """Changes up to three fields at any depth."""
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            at = self.random.choice(list(_messages(message)))
            if not at.DESCRIPTOR.fields:
                continue
            # Half the time one that is there.
            there = [field for field, _ in at.ListFields()]
            field = self.random.choice(
                there if there and self.random.random() < 0.5
                else at.DESCRIPTOR.fields)
            value = getattr(at, field.name)
            if isinstance(value, _REPEATED):
                self._repeated(value, field)
            elif self.random.random() < 0.15:
                at.ClearField(field.name)
            elif field.message_type is not None:
                value.SetInParent()
            else:
                setattr(at, field.name, self._value(field, value))

    def of_bytes(self, data):
        """Overwrites, drops, inserts or repeats some near the beginning."""
        data = bytearray(data)
        for _ in range(self.random.choice([1, 1, 2, 5])):
            at = self.random.randrange(min(len(data), 400) + 1)
            some = self.random.choice([1, 2, 8, 100])
            data[at:at + some] = self.random.choice([
                b"", self.random.randbytes(1), self.random.randbytes(some),
                2 * data[at:at + some]])
        return bytes(data)

    def of_stream(self, messages):
        """Drops, repeats or moves a message of several."""
        at = self.random.randrange(len(messages))
        message = messages.pop(at)
        for _ in range(self.random.choice([0, 1, 2])):
            messages.insert(self.random.randrange(len(messages) + 1), message)

    def _repeated(self, values, field):
        if field.message_type is not None and _is_map(field):
            return
        if values and self.random.random() < 0.3:
            del values[self.random.randrange(len(values))]
        elif field.message_type is None:
            value = self._value(field, None)
            values.extend(self.random.choice([1, 2, 300]) * [value])
        elif values:
            one = type(values[0])()
            one.CopyFrom(self.random.choice(values))
            values.extend(self.random.choice([1, 2, 300]) * [one])
        else:
            values.add()

    def _value(self, field, old):
        kind = field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self.random.random() < 0.5
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self.random.choice(
                [*(value.number for value in field.enum_type.values), -1, 99])
        if kind in (FieldDescriptor.CPPTYPE_FLOAT,
                    FieldDescriptor.CPPTYPE_DOUBLE):
            return self.random.choice(_NUMBERS)
        if field.type == FieldDescriptor.TYPE_BYTES:
            size = len(old or b"") + self.random.choice([-1, 0, 1, 16, 70_000])
            return self.random.randbytes(max(size, 0))
        if kind == FieldDescriptor.CPPTYPE_STRING:
            return self.random.choice(_TEXTS + len(_TEXTS) * self._names)
        bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32,
                              FieldDescriptor.CPPTYPE_UINT32) else 64
        value = self.random.choice(_INTEGERS + 3 * [(old or 0) + 1,
                                                    2 * (old or 0)])
        if kind in (FieldDescriptor.CPPTYPE_UINT32,
                    FieldDescriptor.CPPTYPE_UINT64):
            return value % (1 << bits)
        most = (1 << (bits - 1)) - 1
        return max(-most - 1, min(value, most))


def _is_map(field):
    return field.message_type.GetOptions().map_entry


def _messages(message):
    """It and those that it holds."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for held in value if isinstance(value, _REPEATED) else [value]:
            yield from _messages(held)
