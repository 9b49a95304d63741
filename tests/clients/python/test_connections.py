"""Connections that are lost, and come again."""

import contextlib
import socket
import threading
import time
import unittest

import gemmd
import numpy as np

from both_clients import both_clients
from gemmd import rpcs
from host_daemon import HostDaemon


@contextlib.contextmanager
def closing_each():
    """A port of this machine where every connection ends as it begins, and
    the times at which they did."""
    times = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()
                times.append(time.monotonic())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], times
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class ConnectionsTest(unittest.TestCase):
    def test_all_that_failed_are_waited_for(self):
        array = np.ones((512, 1024), np.float32)
        with HostDaemon() as daemon:
            for client in both_clients(daemon.target, timeout=60, stripes=3):
                client._stripes.least_bytes = 0
                client.matmul(array, array.T)
                daemon.kill()
                # The first call notices, the second tries to connect.
                for channel in 2 * client._stripes.channels(3):
                    with self.assertRaises(gemmd.Unavailable):
                        client._run(rpcs.check_health(), None, channel)
                daemon.start_again()
                client.wait_for_ready(60)
                self.assertTrue((client.matmul(array, array.T) == 1024).all())

    def test_the_next_try_is_never_far_away(self):
        with closing_each() as (port, times), \
                gemmd.Client(f"127.0.0.1:{port}") as client:
            with self.assertRaises(gemmd.DeadlineExceeded):
                client.wait_for_ready(5.5)
            self.assertGreaterEqual(len(times), 5)
            self.assertLess(times[4] - times[3], 2)


if __name__ == "__main__":
    unittest.main()
