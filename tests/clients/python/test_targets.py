"""Addresses of daemons: those that gRPC would take for others are refused."""

import asyncio
import unittest
from unittest import mock

import gemmd
from arguments_case import ArgumentsCase
from both_clients import both_clients
from fake_daemon import FakeDaemon
from gemmd import address


class TargetTest(ArgumentsCase):
    def test_what_is_no_address(self):
        for target, says in (
                ("localhost", "has no port"), ("[::1]", "has no port"),
                ("[::1", "has no port"), ("localhost:99999", "port '99999'"),
                ("localhost:0", "port '0'"), ("localhost:", "port ''"),
                ("localhost:http", "port 'http'"), (":1", "has no host"),
                ("localhost:-1", "port '-1'"), ("[]:1", "has no host"),
                ("localhost:\u0663", "port"), ("localhost:1\n", "port"),
                ("::1:50051", "without brackets"), ("a b:1", "a blank"),
                ("http://localhost:1", "has a scheme"),
                ("grpc://[::1]:1", "has a scheme"),
                ("unix:", "has no path"), ("unix://run/socket", "two slashes"),
                ("unix:/" + "\u00e4" * 54, "109 bytes, .* at most 107"),
                ("unix:/" + "x" * 107, "108 bytes")):
            for make in gemmd.Client, address.check_target:
                self.refused(f"target: .*{says}.*; allowed: HOST:PORT", make,
                             target)
        for target in 5, b"localhost:1", "a\udc80":
            self.refused("target: ", gemmd.Client, target)

    def test_what_is_one(self):
        for target in ("localhost:1", "localhost:65535", "[::1]:50051",
                       "127.0.0.1:50051", "unix:/" + "x" * 106,
                       "unix:relative", "unix:///run/gemmd.sock",
                       "unix-abstract:name", "dns:///localhost:50051",
                       "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1"):
            self.assertEqual(address.check_target(target), target)
            gemmd.Client(target).close()

    def test_in_coroutines(self):
        async def make():
            gemmd.AsyncClient("localhost")

        self.refused("target: 'localhost' has no port", asyncio.run, make())

    def test_of_the_environment(self):
        with mock.patch.dict("os.environ", GEMMD_SERVER="localhost"):
            self.refused("target: 'localhost' has no port", gemmd.Client)

    def test_no_proxy_is_asked_for_this_machine(self):
        with FakeDaemon() as daemon, mock.patch.dict(
                "os.environ", http_proxy="http://127.0.0.1:1", no_proxy="",
                no_grpc_proxy=""):
            port = daemon.target.rpartition(":")[2]
            for host in "127.0.0.1", "localhost", "dns:///localhost":
                for client in both_clients(f"{host}:{port}", timeout=60):
                    self.assertEqual(client.info().version, "fake")


if __name__ == "__main__":
    unittest.main()
