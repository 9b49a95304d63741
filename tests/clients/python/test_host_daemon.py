"""What the tests' own daemons tell of."""

import os
import signal
import unittest

from host_daemon import HostDaemon
from secure_daemon import SecureDaemon


class DaemonsTest(unittest.TestCase):
    def test_one_that_dies_fails_the_test_that_has_it(self):
        for kind in (HostDaemon, SecureDaemon):
            with self.subTest(kind=kind.__name__):
                daemon = kind().__enter__()
                os.kill(daemon.process.pid, signal.SIGKILL)
                with self.assertRaisesRegex(RuntimeError, "code -9: .*event="):
                    daemon.__exit__()


if __name__ == "__main__":
    unittest.main()
