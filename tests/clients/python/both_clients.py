"""A Client, and an AsyncClient with the same methods, for tests of both."""

import asyncio
import contextlib

import gemmd


class _Awaited:
    """Waits for what its object's methods are to be awaited for. So do the
    tensors that they return."""

    def __init__(self, complete, of):
        self._complete = complete
        self._of = of

    def __getattr__(self, name):
        found = getattr(self._of, name)
        if not callable(found):
            return found

        def call(*arguments, **options):
            result = found(
                *map(_plain, arguments),
                **{name: _plain(value) for name, value in options.items()})
            if asyncio.iscoroutine(result):
                result = self._complete(result)
            return (_Awaited(self._complete, result)
                    if isinstance(result, gemmd.AsyncTensor) else result)
        return call

    @contextlib.contextmanager
    def sequence(self, **options):
        """A block that is no coroutine."""
        recorded = self._of.sequence(**options)
        with contextlib.ExitStack() as block:
            block.push(lambda *error: self._complete(
                recorded.__aexit__(*error)))
            yield _Awaited(self._complete, recorded)


def _plain(value):
    """What the client knows, also of a list."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value._of if isinstance(value, _Awaited) else value


def both_clients(target, **options):
    """One after the other."""
    with gemmd.Client(target, **options) as client:
        yield client

    async def make():
        return gemmd.AsyncClient(target, **options)

    with contextlib.closing(asyncio.new_event_loop()) as loop:
        complete = loop.run_until_complete
        client = _Awaited(complete, complete(make()))
        try:
            yield client
        finally:
            client.close()
            # gRPC hears a moment later of the end of what was cancelled.
            complete(asyncio.sleep(0.05))
            complete(loop.shutdown_default_executor())
