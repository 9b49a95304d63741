"""Certificates for a session of TLS, made with openssl, and who may show them.

Standard library only: it runs where nothing is set up.
"""

import json
import os
import pathlib
import subprocess

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True,
                   capture_output=True)


def _authority(folder):
    _openssl("req", "-x509", *_KEY, "-subj", "/CN=authority", "-days", "1",
             "-keyout", folder / "authority.key",
             "-out", folder / "authority.pem")


def _certificate(folder, name, alternative):
    _openssl("req", *_KEY, "-subj", f"/CN={name}",
             "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
    _openssl("x509", "-req", "-days", "1", "-in", folder / f"{name}.csr",
             "-CA", folder / "authority.pem",
             "-CAkey", folder / "authority.key", "-CAcreateserial",
             "-extfile", folder / f"{name}.ext", "-out", folder / f"{name}.pem")


def write(folder, user, group):
    """`folder`, which `user` alone reads: certificates and keys of the daemon,
    which is localhost, of a worker and of a stranger, the authority of all
    three, and a policy whose only principal is the worker."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    _authority(folder)
    _certificate(folder, "daemon", "DNS:localhost")
    _certificate(folder, "worker", "URI:spiffe://example/worker")
    _certificate(folder, "stranger", "URI:spiffe://example/stranger")
    (folder / "policy.json").write_text(json.dumps({"principals": [
        {"name": "worker", "roles": ["compute"],
         "certificates": ["URI:spiffe://example/worker"]}]}))
    (folder / "authority.key").unlink()
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, group)
        path.chmod(0o500 if path.is_dir() else 0o400)
