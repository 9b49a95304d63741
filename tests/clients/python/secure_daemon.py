"""A daemon with TLS and a policy, and the files of its clients, made with
openssl: in `folder`, with `ca`, `cert`, `key`, `token` and those of others."""

import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

from host_daemon import end

BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", "build/release"))
TOKEN = "a-token-that-no-log-may-hold-0123456789"
_START_S = 60
_EVERY = ["compute", "tensors", "kernels"]
_POLICY = {"principals": [
    {"name": "alice", "roles": _EVERY},
    {"name": "worker", "roles": _EVERY,
     "certificates": ["URI:spiffe://worker"]}]}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True,
                   capture_output=True)


class SecureDaemon:
    """`target` is TLS on loopback, `unix` a plaintext socket. `policy` knows
    alice, who has the token, and worker, who has a certificate."""

    def __init__(self, *flags, device="host", program=BUILD / "service/gemmd",
                 policy=None, environment=None):
        self._flags = flags
        self._device = device
        self._program = program
        self._policy = policy or _POLICY
        self._environment = environment or {}

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, text):
        """In one step."""
        path = self.folder / name
        path.with_suffix(".new").write_text(text)
        os.replace(path.with_suffix(".new"), path)
        return str(path)

    def authority(self, name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-days", "1", "-keyout", self.path(f"{name}.key"), "-out",
                self.path(f"{name}.pem"))

    def certificate(self, name, authority, alternatives):
        openssl("req", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", self.path(f"{name}.key"), "-out",
                self.path(f"{name}.csr"))
        self.write(f"{name}.ext", f"subjectAltName={alternatives}\n")
        openssl("x509", "-req", "-in", self.path(f"{name}.csr"), "-CA",
                self.path(f"{authority}.pem"), "-CAkey",
                self.path(f"{authority}.key"), "-CAcreateserial", "-days", "1",
                "-extfile", self.path(f"{name}.ext"), "-out",
                self.path(f"{name}.pem"))

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._temporary.name)
        self.authority("authority")
        self.authority("stranger")
        self.certificate("daemon", "authority", "DNS:localhost,IP:127.0.0.1")
        self.certificate("worker", "authority", "URI:spiffe://worker")
        self.write("token", TOKEN + "\n")
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        self.write("tokens", f"alice {digest}\n")
        self.write("policy", json.dumps(self._policy))
        self.unix = f"unix:{self.path('socket')}"
        self._log = open(self.path("log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [self._program, f"--device={self._device}",
             f"--listen=127.0.0.1:0,{self.unix}",
             f"--port-file={self.path('port')}",
             f"--cache-dir={BUILD}/test-cache",
             f"--tls-certificate-file={self.path('daemon.pem')}",
             f"--tls-key-file={self.path('daemon.key')}",
             f"--tls-client-ca-file={self.path('authority.pem')}",
             f"--policy-file={self.path('policy')}",
             f"--token-digest-file={self.path('tokens')}",
             *self._flags], stderr=self._log,
            env={**os.environ, **self._environment})
        latest = time.monotonic() + _START_S
        port = self.folder / "port"
        while not port.exists() or not port.read_text():
            if self.process.poll() is not None or time.monotonic() > latest:
                said = self.log()
                self.process.kill()
                self.process.wait()
                self._forget()
                raise RuntimeError(f"the daemon does not listen: {said}")
            time.sleep(0.05)
        self.target = port.read_text().splitlines()[0]
        return self

    def __exit__(self, *unused):
        try:
            end(self.process, self.log)
        finally:
            self._forget()

    def _forget(self):
        self._log.close()
        self._temporary.cleanup()

    def log(self):
        return pathlib.Path(self.path("log")).read_text()
