"""Every client against a daemon with TLS and a policy: files by argument, in
the environment and in a configuration, tokens that stay secret, and what is
refused before anything is sent."""

import asyncio
import os
import pathlib
import re
import subprocess
import unittest
from unittest import mock

import numpy as np

import gemmd
from both_clients import both_clients
from eventually import eventually
from secure_daemon import BUILD, TOKEN, SecureDaemon, openssl

ONES = np.ones((4, 4), np.float32)


def setUpModule():
    global DAEMON
    DAEMON = SecureDaemon().__enter__()


def tearDownModule():
    DAEMON.__exit__()


def files(**names):
    return {key: DAEMON.path(name) for key, name in names.items()}


def variables(**names):
    return {f"GEMMD_{key.upper()}": DAEMON.path(name)
            for key, name in names.items()}


def run(program, *arguments, **environment):
    folder = {"gemmctl": "gemmctl", "gemm-warmup": "warmup"}[program]
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith("GEMMD_")}
    return subprocess.run(
        [BUILD / "clients" / folder / program, *arguments],
        env={**clean, **environment}, capture_output=True, text=True,
        timeout=120, check=False)


class PythonTest(unittest.TestCase):
    def multiply(self, target=None, **how):
        with gemmd.Client(target or DAEMON.target, timeout=60, **how) as client:
            np.testing.assert_array_equal(client.matmul(ONES, ONES), 4 * ONES)

    def test_a_token_over_tls(self):
        self.multiply(**files(ca_file="authority.pem", token_file="token"))

    def test_a_certificate(self):
        self.multiply(**files(ca_file="authority.pem",
                              certificate_file="worker.pem",
                              key_file="worker.key"))

    def test_a_token_over_a_unix_socket(self):
        self.multiply(DAEMON.unix, **files(token_file="token"))

    def test_from_the_environment(self):
        with mock.patch.dict(os.environ, variables(
                ca_file="authority.pem", token_file="token")):
            self.multiply()

    def test_from_a_configuration_and_an_argument_counts_more(self):
        config = DAEMON.write("config", f"""
# of a test
ca-file = "{DAEMON.path('stranger.pem')}"
token-file = {DAEMON.path('token')}
""")
        with mock.patch.dict(os.environ, {"GEMMD_CONFIG": config}):
            self.multiply(**files(ca_file="authority.pem"))
            with self.assertRaises(gemmd.Unavailable):
                self.multiply()
        with mock.patch.dict(os.environ, {
                "GEMMD_CONFIG": DAEMON.write("wrong", "cafile = x")}):
            with self.assertRaisesRegex(gemmd.InvalidArgument, "line 1 is wro"):
                self.multiply()

    def test_asyncio(self):
        async def multiply():
            async with gemmd.AsyncClient(DAEMON.target, **files(
                    ca_file="authority.pem", token_file="token")) as client:
                return await client.matmul(ONES, ONES, timeout=60)
        np.testing.assert_array_equal(asyncio.run(multiply()), 4 * ONES)

    def test_what_the_daemon_says(self):
        with self.assertRaisesRegex(gemmd.Unauthenticated, "are missing"):
            self.multiply(**files(ca_file="authority.pem"))
        other = DAEMON.write("other", "another-token-0123456789")
        with self.assertRaisesRegex(gemmd.Unauthenticated, "is unknown"):
            self.multiply(ca_file=DAEMON.path("authority.pem"),
                          token_file=other)
        with gemmd.Client(DAEMON.unix, **files(token_file="token")) as client:
            with self.assertRaisesRegex(gemmd.PermissionDenied, "role admin"):
                client.evict("0" * 64)

    def test_a_daemon_that_nobody_vouches_for(self):
        with self.assertRaises(gemmd.Unavailable):
            self.multiply(**files(ca_file="stranger.pem", token_file="token"))

    def test_who_alone_speaks_tls(self):
        trusting = files(ca_file="authority.pem")
        for target, how, says in (
                (DAEMON.target, {}, "no daemon answers in plaintext at TARGET: "
                 ".*; the daemon may speak TLS: ca_file$"),
                (DAEMON.unix, trusting, "no daemon answers at TARGET: .*; the "
                 "daemon may speak plaintext: no ca_file$"),
                # Of anything else there is nothing to guess.
                (DAEMON.target, files(ca_file="stranger.pem"),
                 "no daemon answers at TARGET: (?!.*the daemon may)"),
                (f"unix:{DAEMON.path('nobody')}", {}, "no daemon answers in "
                 "plaintext at TARGET: (?!.*the daemon may)")):
            for client in both_clients(target, timeout=60, **how):
                says = says.replace("TARGET", re.escape(target))
                with self.subTest(says), self.assertRaisesRegex(
                        gemmd.Unavailable, f"^UNAVAILABLE: {says}"):
                    client.matmul(ONES, ONES)

    def test_no_token_goes_over_a_network_in_plaintext(self):
        for target in ("example.com:50051", "10.0.0.1:50051",
                       "dns:///gemmd:50051", "ipv4:127.0.0.1:1,10.0.0.1:1",
                       "ipv4:127.0.0.1:1%2C10.0.0.1:1",
                       "dns://8.8.8.8/localhost:1", "localhost.example.com:1",
                       "[2001:db8::1]:1", "ipv6:[2001:db8::1]:1"):
            with self.assertRaisesRegex(gemmd.InvalidArgument, "plaintext"):
                gemmd.Client(target, **files(token_file="token"))
        for target in ("localhost:1", "127.0.0.2:1", "[::1]:1", "unix:/x",
                       "dns:///localhost:1", "ipv4:127.0.0.1:1"):
            gemmd.Client(target, **files(token_file="token")).close()

    def test_files_that_are_wrong(self):
        with self.assertRaisesRegex(gemmd.InvalidArgument, "go together"):
            gemmd.Client(**files(certificate_file="worker.pem"))
        with self.assertRaisesRegex(gemmd.InvalidArgument, "token_file is /no"):
            gemmd.Client(token_file="/none")
        bad = DAEMON.write("bad", "secret one\nsecret two")
        with self.assertRaises(gemmd.InvalidArgument) as caught:
            gemmd.Client(token_file=bad)
        self.assertNotIn("secret", str(caught.exception))
        with open(DAEMON.path("authority.pem"), encoding="ascii") as file:
            half = DAEMON.write("half", file.read()[:300])
        for ca_file in (bad, half):
            with self.assertRaisesRegex(
                    gemmd.InvalidArgument, "ca_file .* no certificates in PEM"):
                gemmd.Client(ca_file=ca_file)
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    "do not go together"):
            gemmd.Client(**files(certificate_file="worker.pem",
                                 key_file="daemon.key"))


class ProgramsTest(unittest.TestCase):
    def test_gemmctl(self):
        flags = (f"--server={DAEMON.target}",
                 f"--ca-file={DAEMON.path('authority.pem')}",
                 f"--token-file={DAEMON.path('token')}")
        done = run("gemmctl", "info", *flags)
        self.assertEqual(0, done.returncode, done.stderr)
        done = run("gemmctl", "info", *flags[:2])
        self.assertEqual(1, done.returncode)
        self.assertIn("UNAUTHENTICATED: credentials are missing", done.stderr)
        done = run("gemmctl", "info", GEMMD_SERVER=DAEMON.target,
                   **variables(ca_file="authority.pem",
                               certificate_file="worker.pem",
                               key_file="worker.key"))
        self.assertEqual(0, done.returncode, done.stderr)

    def test_why_no_daemon_answers(self):
        done = run("gemmctl", "info", "--wait=2s", f"--server={DAEMON.target}",
                   **variables(ca_file="stranger.pem"))
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, "no daemon answers at .* within 2s: .*"
                         "(?i:certificate.verify.failed)")
        # What speaks TLS alone ends a connection without it, without a word.
        done = run("gemmctl", "info", "--wait=2s", f"--server={DAEMON.target}")
        self.assertEqual(1, done.returncode)
        self.assertIn(f"no daemon answers in plaintext at {DAEMON.target} "
                      "within 2s: ", done.stderr)
        nobody = f"unix:{DAEMON.path('nobody')}"
        done = run("gemmctl", "info", "--wait=1s", f"--server={nobody}")
        self.assertRegex(done.stderr, "within 1s: .*No such file")

    def test_files_that_are_wrong(self):
        for name, text in (("empty", ""), ("text", "no PEM"),
                           ("blank", "\n")):
            DAEMON.write(name, text)
        with open(DAEMON.path("authority.pem"), encoding="ascii") as file:
            authority = file.read()
        DAEMON.write("half", authority[:300])
        DAEMON.write("and-half", authority + authority[:300])
        openssl("ec", "-in", DAEMON.path("worker.key"), "-aes128", "-passout",
                "pass:secret", "-out", DAEMON.path("locked.key"))
        own = {"certificate_file": "worker.pem"}
        for names, says in (
                ({"ca_file": "nobody"}, "cannot be read: No such file"),
                ({"ca_file": "."}, "cannot be read: Is a directory"),
                ({"ca_file": "/dev/zero"}, "has more than 16777216 bytes"),
                ({"ca_file": "empty"}, "is empty"),
                ({"ca_file": "text"}, "holds no certificate in PEM"),
                ({"ca_file": "half"}, "holds a certificate that is not whole"),
                ({"ca_file": "and-half"}, "a certificate that is not whole"),
                ({"token_file": "blank"}, "holds no token"),
                ({"key_file": "worker.key", "certificate_file": "text"},
                 "holds no certificate in PEM"),
                ({**own, "key_file": "text"}, "holds no whole key in PEM"),
                ({**own, "key_file": "locked.key"}, "or an encrypted one"),
                ({**own, "key_file": "daemon.key"}, "holds another key than "
                 f"that of the certificate in {DAEMON.path('worker.pem')}")):
            *_, (wrong, file) = names.items()
            for program, command in (("gemmctl", ("info",)),
                                     ("gemm-warmup", ("load", "/dev/null"))):
                with self.subTest(names, program=program):
                    # Nobody listens there: nothing is to be sent.
                    done = run(program, *command, "--server=unix:/nobody",
                               **variables(**names))
                    self.assertEqual(2, done.returncode, done.stderr)
                    self.assertEqual("", done.stdout)
                    self.assertIn(f"{wrong.replace('_', '-')} is "
                                  f"{DAEMON.path(file)}, which", done.stderr)
                    self.assertIn(says, done.stderr)
                    self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_health_needs_nobody(self):
        done = run("gemmctl", "health", f"--server={DAEMON.unix}")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_configuration(self):
        config = DAEMON.write("client.conf", f"""
ca-file = {DAEMON.path('authority.pem')}
token-file = "{DAEMON.path('token')}"
""")
        done = run("gemmctl", "stats", f"--server={DAEMON.target}",
                   GEMMD_CONFIG=config)
        self.assertEqual(0, done.returncode, done.stderr)
        wrong = DAEMON.write("wrong.conf", "# fine\ntoken = secret\n")
        done = run("gemmctl", "stats", GEMMD_CONFIG=wrong)
        self.assertEqual(2, done.returncode)
        self.assertIn("line 2 is wrong", done.stderr)
        self.assertNotIn("secret", done.stderr)

    def test_gemm_warmup(self):
        problems = DAEMON.write("problems.txt", "bf16 TN 64 64 64\n")
        done = run("gemm-warmup", "load", f"--server={DAEMON.target}",
                   f"--ca-file={DAEMON.path('authority.pem')}",
                   f"--token-file={DAEMON.path('token')}", problems)
        self.assertEqual(0, done.returncode, done.stderr + done.stdout)
        done = run("gemm-warmup", "load", problems, GEMMD_SERVER=DAEMON.target,
                   **variables(ca_file="authority.pem"))
        self.assertNotEqual(0, done.returncode)
        self.assertIn("credentials are missing", done.stderr + done.stdout)

    def test_no_token_goes_over_a_network_in_plaintext(self):
        for program, command in (("gemmctl", "info"), ("gemm-warmup", "load")):
            done = run(program, command, "--server=example.com:50051",
                       f"--token-file={DAEMON.path('token')}")
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("is not sent to example.com:50051 in plaintext",
                          done.stderr)


class SecretsTest(unittest.TestCase):
    """Runs last of its file's classes: by then much has been logged."""

    def test_the_token_is_in_no_log_and_no_list_of_processes(self):
        with gemmd.Client(DAEMON.unix, **files(token_file="token")) as client:
            with self.assertRaises(gemmd.InvalidArgument):
                client.kernel("x")
        self.assertTrue(eventually(
            lambda: re.search("request_failed.*principal=alice",
                              DAEMON.log())), DAEMON.log())
        log = DAEMON.log()
        for secret in (TOKEN, "another-token", "PRIVATE KEY"):
            self.assertNotIn(secret, log)
        process = pathlib.Path(f"/proc/{DAEMON.process.pid}")
        for name in ("cmdline", "environ"):
            self.assertNotIn(TOKEN.encode(), (process / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
