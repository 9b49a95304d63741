"""Encoding of the messages that carry matrix bytes.

Protobuf's own Python runtime copies `bytes` fields several times. Here the
small parts go through protobuf and matrix bytes are joined to them once; on
the way back they are viewed in place. Everything else uses api.py's classes.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from . import api

Buffer = Union[bytes, memoryview]

_LENGTH_DELIMITED = 2
# Of what travels in chunks, where a message has room for as much.
CHUNK_BYTES = 2 << 20
# What a message of an upload, and of a streamed product, has beside its chunk,
# at most.
UPLOAD_PREFIX_BYTES = 16
STREAM_PREFIX_BYTES = 64


def varint(value: int) -> bytes:
    """Base-128 varint of a non-negative integer."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(number: int, length: int) -> bytes:
    """What precedes the bytes of length-delimited field `number`."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(length)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, position behind it). ValueError when truncated."""
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("malformed varint")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7


def fields(data: Buffer) -> Iterator[tuple[int, memoryview]]:
    """Yields (number, view) of each length-delimited or 32-bit field of a
    message.

    Fields of other wire types are skipped. ValueError when malformed.
    """
    view = memoryview(data)
    size = len(view)
    position = 0
    while position < size:
        tag = view[position]
        position += 1
        if tag > 0x7F:
            tag, position = read_varint(view, position - 1)
        kind = tag & 7
        if kind == 0:
            _, position = read_varint(view, position)
            continue
        if kind == 1:
            position += 8
            continue
        if kind == 5:
            yield tag >> 3, view[position:position + 4]
            position += 4
            continue
        if kind != _LENGTH_DELIMITED:
            raise ValueError(f"unknown wire type {kind}")
        length, position = read_varint(view, position)
        if position + length > size:
            raise ValueError("truncated field")
        yield tag >> 3, view[position:position + length]
        position += length


# Fields of MatmulRequest that hold values.
OPERANDS = {"a": 2, "b": 3, "c": 4, "bias": 5, "a_scale": 6, "b_scale": 7,
            "d_scale": 8}


Operands = Mapping[str, Optional[Buffer]]


def _request_parts(header: Any, operands: Operands) -> list[Buffer]:
    head = header.SerializeToString()
    parts: list[Buffer] = [field(1, len(head)), head]
    for name, operand in operands.items():
        if operand is not None:
            parts += [field(OPERANDS[name], len(operand)), operand]
    return parts


def matmul_request(header: Any, **operands: Optional[Buffer]) -> bytes:
    """MatmulRequest of a MatmulHeader and buffers of bytes (or None), by the
    names of the request's fields."""
    return b"".join(_request_parts(header, operands))


def grouped_request(groups: Iterable[tuple[Any, Operands]]) -> bytes:
    """MatmulGroupedRequest of headers and operands, as above."""
    parts: list[Buffer] = []
    for header, operands in groups:
        group = _request_parts(header, operands)
        parts += [field(1, sum(map(len, group))), *group]
    return b"".join(parts)


class Place(NamedTuple):
    """Where bytes lie that are shared with the daemon."""
    region: str
    offset: int


def set_place(part: Any, place: Place, layout: Any) -> None:
    """Fills a RegionPart."""
    part.layout.CopyFrom(layout)
    part.region, part.offset = place


class Response(NamedTuple):
    """A MatmulResponse; matrices are views of their bytes, None if absent."""
    execution: Any
    d: Optional[memoryview]
    auxiliary: Optional[memoryview] = None
    amax: Optional[float] = None


def parse_matmul_response(data: Buffer,
                          execution: Any = None) -> Response:
    """The Response in a serialised MatmulResponse; `execution` where that is
    told elsewhere."""
    amax = None
    if execution is None:
        execution = api.Execution()
    views: dict[int, memoryview] = {}
    for number, view in fields(data):
        if number == 1:
            execution.MergeFromString(bytes(view))
        elif number == 4 and len(view) == 4:
            amax = float(struct.unpack("<f", view)[0])
        else:
            views[number] = view
    return Response(execution, views.get(2), views.get(3), amax)


def parse_grouped_response(data: Buffer) -> list[Response]:
    """The Responses in a serialised MatmulGroupedResponse."""
    return [parse_matmul_response(view) for number, view in fields(data)
            if number == 1]


class Named(NamedTuple):
    """An operand of a sequence: its bytes, or where they lie."""
    name: str
    layout: Any
    data: memoryview
    place: Optional[Place] = None


def sequence_request(steps: Iterable[Any], operands: Iterable[Named],
                     device: str) -> bytes:
    """SequenceRequest of MatmulHeaders and operands."""
    parts: list[Buffer] = []
    for step in steps:
        head = step.SerializeToString()
        parts += [field(1, len(head)), head]
    for name, layout, data, place in operands:
        if place is not None:
            operand = api.SequenceOperand(name=name)
            set_place(operand.region, place, layout)
            head = operand.SerializeToString()
            parts += [field(2, len(head)), head]
            continue
        head = api.SequenceOperand(
            name=name, layout=layout).SerializeToString()
        prefix = field(3, len(data))
        parts += [field(2, len(head) + len(prefix) + len(data)), head, prefix,
                  data]
    rest = api.SequenceRequest(device=device, shared_executions=True)
    return b"".join([*parts, rest.SerializeToString()])


class SequenceResponse(NamedTuple):
    steps: list[Response]
    phases: Any


def parse_sequence_response(data: Buffer) -> SequenceResponse:
    """ValueError where steps lack their execution. Daemons that do not share
    executions send one with each."""
    steps, rest = [], api.SequenceResponse()
    for number, view in fields(data):
        if number == 1:
            steps.append(view)
        else:
            rest.MergeFromString(field(number, len(view)) + bytes(view))
    known, indices = list(rest.executions), rest.step_executions
    executions = [known[i] for i in indices if i < len(known)]
    if known and len(executions) != len(steps):
        raise ValueError("an answer without the executions of its steps")
    return SequenceResponse(
        [parse_matmul_response(view, execution) for view, execution
         in zip(steps, executions or [None] * len(steps))], rest.phases)


def upload_requests(handle: str, layout: Any, data: Buffer,
                    chunk_bytes: int, part: Any = None) -> Iterator[bytes]:
    """Yields the serialised messages of one UploadTensor stream: of all
    elements, or of a part."""
    first = api.UploadTensorRequest()
    first.header.handle = handle
    first.header.layout.CopyFrom(layout)
    if part is not None:
        first.header.part.CopyFrom(part)
    yield first.SerializeToString()
    for start in range(0, len(data), chunk_bytes):
        chunk = data[start:start + chunk_bytes]
        yield b"".join((field(2, len(chunk)), chunk))


def _chunk(operand: int, data: Buffer) -> bytes:
    """A MatmulStreamRequest with one chunk."""
    inner = b"".join((varint(1 << 3), varint(operand),
                      field(2, len(data))))
    return b"".join((field(2, len(inner) + len(data)), inner, data))


def stream_requests(header: Any, operands: Operands,
                    chunk_bytes: int) -> Iterator[bytes]:
    """Yields the serialised messages of one MatmulStream."""
    head = header.SerializeToString()
    yield field(1, len(head)) + head
    # Operands are numbered from 1 as their fields from 2, and come in order.
    for name, number in OPERANDS.items():
        data = operands.get(name)
        for start in range(0, len(data) if data is not None else 0,
                           chunk_bytes):
            assert data is not None
            yield _chunk(number - 1, data[start:start + chunk_bytes])


def parse_stream_response(data: Buffer) -> Response:
    """One MatmulStreamResponse: a chunk of a result, or, in the last one, the
    execution."""
    execution, amax = None, None
    views: dict[int, memoryview] = {}
    for number, view in fields(data):
        if number == 2:
            execution = api.Execution.FromString(bytes(view))
        elif number == 4 and len(view) == 4:
            amax = float(struct.unpack("<f", view)[0])
        else:
            views[number] = view
    return Response(execution, views.get(1), views.get(3), amax)


def parse_download_response(data: Buffer) -> memoryview:
    """View of the bytes of one DownloadTensorResponse."""
    for number, view in fields(data):
        if number == 1:
            return view
    return memoryview(b"")
