"""Ctrl-C at the worst moments: the client is of use afterwards, and nothing is
left at the daemon."""

import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import gemmd
from eventually import eventually
from fake_daemon import FakeDaemon
from gemmd.interrupts import Held

F32 = np.dtype(np.float32)
WAIT_S = 60

# Interrupts each call at each place where it has just taken a lock, and then
# says how often.
AT_EVERY_LOCK = """
import signal, sys, ml_dtypes, numpy as np, gemmd

class Interrupting:
    def __init__(self, place):
        self.left = place

    def __call__(self, frame, event, arg):
        if event == "c_return" and arg.__name__ in ("__enter__", "acquire"):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)

interrupts = 0
a = np.ones((8, 8), ml_dtypes.bfloat16)
with gemmd.Client(sys.argv[1]) as client:
    client.wait_for_ready()
    tensor = client.tensor(a)
    for call in (lambda: client.matmul(a, a), lambda: tensor.upload(a),
                 tensor.numpy, lambda: client.zeros((8, 8), a.dtype)):
        place = 1
        while True:
            made = None
            interrupting = Interrupting(place)
            try:
                sys.setprofile(interrupting)
                made = call()
                sys.setprofile(None)
            except KeyboardInterrupt:
                sys.setprofile(None)
                interrupts += 1
            if isinstance(made, gemmd.Tensor) and made is not tensor:
                made.delete()
            if interrupting.left > 0:
                break
            client.matmul(a, a)
            place += 1
    tensor.delete()
print(interrupts)
"""


class InterruptedDaemon(FakeDaemon):
    """Its client is interrupted when a tensor has been made; the answer comes
    when `answers` is set."""

    def __init__(self):
        super().__init__()
        self.answers = threading.Event()

    def _create(self, request):
        info = super()._create(request)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        self.answers.wait(WAIT_S)
        return info


def setUpModule():
    """Background jobs of a shell ignore interrupts."""
    unittest.addModuleCleanup(
        signal.signal, signal.SIGINT,
        signal.signal(signal.SIGINT, signal.default_int_handler))


class InterruptsTest(unittest.TestCase):
    def test_no_call_keeps_a_lock(self):
        with FakeDaemon() as daemon:
            said = subprocess.run(
                [sys.executable, "-c", AT_EVERY_LOCK, daemon.target],
                capture_output=True, text=True, timeout=WAIT_S, check=False)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertGreater(int(said.stdout), 8)
            self.assertEqual(daemon.tensors, {})

    def test_a_tensor_whose_maker_is_interrupted_is_deleted(self):
        for answers_at_once in True, False:
            with InterruptedDaemon() as daemon:
                with gemmd.Client(daemon.target) as client:
                    client.wait_for_ready()
                    for make in (
                            lambda: client.zeros((3, 4), F32),
                            lambda: client.tensor(np.ones((3, 4), F32))):
                        daemon.answers.clear()
                        if answers_at_once:
                            daemon.answers.set()
                        with self.assertRaises(KeyboardInterrupt):
                            make()
                        daemon.answers.set()
                        self.assertTrue(
                            eventually(lambda: not daemon.tensors))

    def test_closing_waits_for_the_deletion(self):
        with InterruptedDaemon() as daemon:
            with self.assertRaises(KeyboardInterrupt):
                with gemmd.Client(daemon.target) as client:
                    threading.Timer(0.2, daemon.answers.set).start()
                    client.zeros((3, 4), F32)
            self.assertEqual(daemon.tensors, {})

    def test_an_interrupt_is_raised_at_the_end(self):
        done = []
        with self.assertRaises(KeyboardInterrupt):
            with Held() as held:
                held.undoes(lambda: done.append("undone"))
                signal.raise_signal(signal.SIGINT)
                held.ends(lambda: done.append("ended"))
                done.append("went on")
        self.assertEqual(done, ["ended", "went on", "undone"])
        self.assertIs(signal.getsignal(signal.SIGINT),
                      signal.default_int_handler)

    def test_what_runs_is_ended(self):
        ended = threading.Event()
        with self.assertRaises(KeyboardInterrupt):
            with Held() as held:
                held.ends(ended.set)
                signal.raise_signal(signal.SIGINT)
                self.assertTrue(ended.wait(WAIT_S))

    def test_handlers_of_others_stay(self):
        came = []
        before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
        try:
            with Held():
                signal.raise_signal(signal.SIGINT)
                self.assertEqual(came, [True])
        finally:
            signal.signal(signal.SIGINT, before)

    def test_nothing_comes_of_it_without_an_interrupt(self):
        with Held() as held:
            held.undoes(self.fail)
            held.ends(self.fail)


if __name__ == "__main__":
    unittest.main()
