"""A daemon that falls silent while a call waits for it, without a timeout, or
stops reading what a call with one sends."""

import asyncio
import socket
import threading
import time
import unittest
from unittest import mock

import gemmd
import numpy as np
from both_clients import both_clients
from deaf_server import deaf_server
from fake_daemon import FakeDaemon
from gemmd import api, arrays, time_left

# A greeting: SETTINGS without any, and that the client's are taken.
_SETTINGS = b"\0\0\0\4\0\0\0\0\0" b"\0\0\0\4\1\0\0\0\0"


class SilentServer:
    """Greets clients over HTTP/2, reads what they send, answers so many pings
    of each, and says no more."""

    def __init__(self, pings):
        self._pings = pings

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            client.sendall(_SETTINGS)
            threading.Thread(target=self._read, args=(client,),
                             daemon=True).start()

    def _read(self, client):
        left = self._pings
        with client, client.makefile("rb") as sent:
            sent.read(24)  # The preface.
            while frame := sent.read(9):
                payload = sent.read(int.from_bytes(frame[:3], "big"))
                if left and frame[3:5] == b"\6\0":
                    client.sendall(frame[:4] + b"\1" + frame[5:] + payload)
                    left -= 1


class StallingDaemon(FakeDaemon):
    """Takes no upload and deletes nothing until `goes_on`; a tensor is made in
    0.1 s."""

    def __init__(self):
        super().__init__()
        self.goes_on = threading.Event()

    def _create(self, request):
        time.sleep(0.1)
        return super()._create(request)

    def _upload(self, requests, context):
        self.goes_on.wait(60)
        return super()._upload(requests, context)

    def _delete(self, request):
        self.goes_on.wait(60)
        return super()._delete(request)


class SilenceTest(unittest.TestCase):
    def test_who_waits_for_an_answer_learns_that_none_comes(self):
        short = tuple((name, 300 if value == gemmd.connections.SILENCE_MS
                       else value)
                      for name, value in gemmd.connections.CHANNEL_OPTIONS)
        with SilentServer(pings=3) as server, \
                mock.patch("gemmd.connections.CHANNEL_OPTIONS", short):
            for client in both_clients(server.target):
                ended = threading.Event()

                def call(client=client, ended=ended):
                    try:
                        client.info()
                    except gemmd.Unavailable:
                        ended.set()

                threading.Thread(target=call, daemon=True).start()
                with self.subTest(client):
                    self.assertTrue(ended.wait(20), "it waits for ever")

    def test_a_timeout_ends_calls_that_nobody_reads(self):
        # More than a socket takes, and less than the daemon is asked about.
        large = np.ones((450, 450), np.float32)
        info = api.TensorInfo(
            handle="h", dtype=arrays.wire_type(large.dtype), rows=450,
            columns=450, order=api.ROW_MAJOR)

        def upload(target):
            with gemmd.Client(target) as client:
                gemmd.Tensor(client, info).upload(large, timeout=0.2)

        def multiply(target):
            with gemmd.Client(target) as client:
                client.matmul(large, large[:, 0], timeout=0.2)

        async def multiply_by_aio(target):
            async with gemmd.AsyncClient(target) as client:
                await client.matmul(large, large[:, 0], timeout=0.2)

        for act in (upload, multiply,
                    lambda target: asyncio.run(multiply_by_aio(target))):
            with self.subTest(act), deaf_server() as target, \
                    mock.patch("gemmd.blocking_caller.CLOSING_S", 0.1):
                ended = threading.Event()

                def call(act=act, target=target, ended=ended):
                    try:
                        act(target)
                    except gemmd.DeadlineExceeded:
                        ended.set()  # And the client is closed.

                threading.Thread(target=call, daemon=True).start()
                self.assertTrue(ended.wait(20), "it waits for ever")

    def test_the_timeout_of_a_tensor_is_that_of_both_its_calls(self):
        with StallingDaemon() as daemon, \
                mock.patch("gemmd.Tensor.upload") as upload, \
                mock.patch("gemmd.AsyncTensor.upload") as upload_by_aio:
            for client in both_clients(daemon.target):
                client.tensor(np.ones((2, 2), np.float32), timeout=60)
        for each in upload, upload_by_aio:
            self.assertLess(each.call_args.kwargs["timeout"], 59.95)

    def test_the_timeout_of_a_product_is_that_of_all_that_is_tried(self):
        async def find_no_room(caller, call, timeout):
            time.sleep(0.1)

        a = np.ones((2, 2), np.float32)
        with mock.patch("gemmd.striped_product.multiply", find_no_room), \
                mock.patch("gemmd.Client._run",
                           side_effect=gemmd.Unavailable("")) as run, \
                mock.patch("gemmd.AsyncClient._run",
                           side_effect=gemmd.Unavailable("")) as run_by_aio:
            for client in both_clients("localhost:1", stripes=2):
                client._stripes.least_bytes = 0
                with self.assertRaises(gemmd.Unavailable):
                    client.matmul(a, a, timeout=60)
        for each in run, run_by_aio:
            self.assertLess(each.call_args.args[1], 59.95)

    def test_the_timeout_of_a_tensor_is_that_of_finding_its_device(self):
        left = []

        def home(regions, array):
            left.append(time_left.left())
            return ""

        with FakeDaemon() as daemon, \
                mock.patch("gemmd.client.home_of", home), \
                mock.patch("gemmd.aio.home_of", home):
            for client in both_clients(daemon.target):
                client.tensor(np.ones((2, 2), np.float32), timeout=60)
        self.assertEqual([0 < each <= 60 for each in left], [True, True])

    def test_what_is_left_of_a_tensor_is_not_waited_for(self):
        with StallingDaemon() as daemon, \
                mock.patch("gemmd.client.CLEANING_S", 0.1), \
                mock.patch("gemmd.aio_caller._CLEANING_S", 0.1):
            for client in both_clients(daemon.target):
                daemon.goes_on.clear()
                gives_up = threading.Timer(20, daemon.goes_on.set)
                gives_up.start()
                with self.subTest(client):
                    with self.assertRaises(gemmd.DeadlineExceeded):
                        client.tensor(np.ones((2, 2), np.float32), timeout=0.5)
                    self.assertFalse(daemon.goes_on.is_set())
                gives_up.cancel()
                daemon.goes_on.set()

    def test_a_daemon_is_not_asked_too_often(self):
        options = dict(gemmd.connections.CHANNEL_OPTIONS)
        self.assertGreaterEqual(options["grpc.keepalive_time_ms"], 10_000)


if __name__ == "__main__":
    unittest.main()
