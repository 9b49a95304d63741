"""Transfers of tensors, by several connections where there are many bytes."""

from typing import Any, Optional

from . import api, errors, rpcs, wire
from .caller import Caller
from .message_room import message_room
from .stripes import Deadline, Filling, Stripe, split, transfer


async def upload(caller: Caller, handle: str, layout: Any, data: wire.Buffer,
                 timeout: Optional[float]) -> None:
    """Replaces all elements of a tensor by those in `data`."""
    deadline = Deadline(caller._seconds(timeout))
    room = await message_room(caller, len(data), deadline.left())
    stripes, _ = await _stripes(caller, handle, layout, len(data), deadline)
    if stripes:
        part = api.UploadPart(transfer=transfer())
        calls = []
        for stripe in stripes:
            part.lines.CopyFrom(stripe.lines())
            calls.append(rpcs.upload_lines(
                handle, layout, data[stripe.start:stripe.end], room,
                api.UploadPart.FromString(part.SerializeToString())))
        try:
            await caller._run_together(calls, deadline.left(),
                                       lambda i, message: None)
            return
        except errors.ResourceExhausted:
            pass  # There may be room for one call.
    await caller._run(rpcs.upload_lines(handle, layout, data, room),
                      deadline.left())


async def download(caller: Caller, handle: str, layout: Any,
                   target: memoryview, timeout: Optional[float]) -> None:
    """Fills `target` with all elements of a tensor; lines are tight."""
    deadline = Deadline(caller._seconds(timeout))
    stripes, version = await _stripes(caller, handle, layout, len(target),
                                      deadline)
    if stripes:
        parts = [Filling(target[stripe.start:stripe.end])
                 for stripe in stripes]
        try:
            await caller._run_together(
                [rpcs.download_lines(handle, layout, stripe.lines(), version)
                 for stripe in stripes],
                deadline.left(), lambda i, chunk: parts[i].take(chunk))
            for part in parts:
                part.check()
            return
        except errors.ResourceExhausted:
            pass  # As above.
    whole = Filling(target)
    await caller._receive(rpcs.download_lines(handle, layout),
                          deadline.left(), whole.take)
    whole.check()


async def _stripes(caller: Caller, handle: str, layout: Any, size: int,
                   deadline: Deadline) -> tuple[list[Stripe], int]:
    """As split(), and the tensor's version."""
    connections = caller._stripes.count_for(size)
    if connections == 1:
        return [], 0
    info = await caller._run(rpcs.describe_tensor(handle), deadline.left())
    return split(info, layout, size, connections), info.version
