"""Calls that stand or fall together, as a Client's threads and as an
AsyncClient's tasks follow them."""

import asyncio
import threading
import unittest
from contextlib import nullcontext

import grpc

from gemmd import errors
from gemmd.together import Together


class Call:
    """Waits until it is cancelled."""

    def __init__(self):
        self.ended = threading.Event()

    def cancel(self):
        self.ended.set()


def failing(error):
    def fail(call):
        raise error
    return fail


def ending(error):
    """Of one that fails as others have ended it."""
    def fail(call):
        call.ended.wait(30)
        raise error
    return fail


def answered(error):
    """Of one that the daemon answers a little later, unless it is ended."""
    def fail(call):
        if call.ended.wait(0.1):
            raise errors.Cancelled("by the client")
        raise error
    return fail


class TogetherTest(unittest.TestCase):
    def run_parts(self, *parts):
        """Each is what happens to one, given its call."""
        together = Together(nullcontext)
        calls = [Call() for _ in parts]

        def follow(i):
            with together.part():
                parts[i](together.begun(calls[i]))

        try:
            together.by_threads(len(parts), follow)
        finally:
            self.assertTrue(all(call.ended.is_set() for call in calls))

    def test_the_first_failure_ends_the_others(self):
        for place in range(3):
            parts = [ending(errors.Cancelled("by the client"))] * 3
            parts[place] = failing(errors.Internal("broken"))
            with self.assertRaisesRegex(errors.Internal, "broken"):
                self.run_parts(*parts)

    def test_a_consequence_is_not_the_cause(self):
        for consequence in (errors.Aborted(""), errors.Cancelled(""),
                            grpc.FutureCancelledError(),
                            asyncio.CancelledError()):
            with self.assertRaisesRegex(errors.NotFound, "gone"):
                self.run_parts(failing(consequence),
                               answered(errors.NotFound("gone")))
        with self.assertRaisesRegex(errors.Aborted, "overwritten"):
            self.run_parts(failing(errors.Aborted("overwritten")),
                           answered(errors.Aborted("another part ended")))

    def test_an_interrupted_thread_ends_all(self):
        with self.assertRaises(KeyboardInterrupt):
            self.run_parts(failing(KeyboardInterrupt()),
                           ending(errors.Cancelled("by the client")))

    def test_what_begins_after_the_end_is_ended(self):
        together = Together(nullcontext)
        with together.part():
            raise errors.Internal("broken")
        late = Call()
        with together.part():
            together.begun(late)
        self.assertTrue(late.ended.is_set())

    def test_tasks_are_left_by_all_when_their_owner_is_cancelled(self):
        ended = []

        async def main():
            together = Together(nullcontext)

            async def follow(i):
                with together.part():
                    try:
                        await asyncio.Event().wait()
                    finally:
                        await asyncio.sleep(0.01)
                        ended.append(i)

            owner = asyncio.ensure_future(together.by_tasks(3, follow))
            await asyncio.sleep(0.01)
            owner.cancel()
            await asyncio.wait([owner], timeout=30)
            self.assertTrue(owner.cancelled())
            self.assertEqual(sorted(ended), [0, 1, 2])
            self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
