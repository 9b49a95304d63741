"""A daemon that falls silent while a call waits for it, without a timeout."""

import socket
import threading
import time
import unittest
from unittest import mock

import gemmd
from both_clients import both_clients

# A greeting: SETTINGS without any, and that the client's are taken.
_SETTINGS = b"\0\0\0\4\0\0\0\0\0" b"\0\0\0\4\1\0\0\0\0"


class SilentServer:
    """Greets clients over HTTP/2, reads what they send, and says no more."""

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

    @staticmethod
    def _read(client):
        with client:
            while client.recv(65536):
                pass


class SilenceTest(unittest.TestCase):
    def test_who_waits_for_an_answer_learns_that_none_comes(self):
        short = tuple((name, 300 if value == gemmd.connections.SILENCE_MS
                       else value)
                      for name, value in gemmd.connections.CHANNEL_OPTIONS)
        with SilentServer() as server, \
                mock.patch("gemmd.blocking_caller.CHANNEL_OPTIONS", short), \
                mock.patch("gemmd.aio_caller.CHANNEL_OPTIONS", short):
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

    def test_a_daemon_is_not_asked_too_often(self):
        options = dict(gemmd.connections.CHANNEL_OPTIONS)
        self.assertGreaterEqual(options["grpc.keepalive_time_ms"], 10_000)


if __name__ == "__main__":
    unittest.main()
