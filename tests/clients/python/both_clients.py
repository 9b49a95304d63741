"""A Client, and an AsyncClient with the same methods, for tests of both."""

import asyncio

import gemmd


class _Awaited:
    """Waits for what its object's methods are to be awaited for. So do the
    tensors that they return."""

    def __init__(self, runner, of):
        self._runner = runner
        self._of = of

    def __getattr__(self, name):
        found = getattr(self._of, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        def call(*arguments, **options):
            result = self._runner.run(found(
                *map(_plain, arguments),
                **{name: _plain(value) for name, value in options.items()}))
            return (_Awaited(self._runner, result)
                    if isinstance(result, gemmd.AsyncTensor) else result)
        return call


def _plain(value):
    return value._of if isinstance(value, _Awaited) else value


def both_clients(target, **options):
    """One after the other."""
    with gemmd.Client(target, **options) as client:
        yield client

    async def make():
        return gemmd.AsyncClient(target, **options)

    with asyncio.Runner() as runner:
        client = _Awaited(runner, runner.run(make()))
        try:
            yield client
        finally:
            client.close()
            # gRPC hears a moment later of the end of what was cancelled.
            runner.run(asyncio.sleep(0.05))
