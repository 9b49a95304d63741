"""Runs the image as an engine would, and checks what it does.

  image_session.py ROOT SESSION

ROOT is the image's file system; SESSION a folder with image.json, what
`buildah inspect` says of the image, and room for its cache. Run by
test-image.sh in mount, pid, network, ipc and uts namespaces of its own, as
root. Everything in the image runs as the image's user, without capabilities,
on a read-only root with /tmp and the cache volume.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import image_certificates
import image_product

_FORBIDDEN = ("libcuda", "libcudart", "libnvrtc", "libcublas")
_START_S = 60
_STOP_S = 40
# Of a session with TLS, in the image.
_TLS = "/tmp/tls"
_SOCKET = "unix:/tmp/gemmd.sock"


def _check(condition, message):
    if not condition:
        raise AssertionError(message)


def _host(*command):
    subprocess.run(command, check=True)


class Image:
    """The image's root, mounted as a container's."""

    def __init__(self, root, session):
        self.root = pathlib.Path(root)
        self.session = pathlib.Path(session)
        self.config = json.loads((self.session / "image.json").read_text())[
            "Docker"]["config"]
        self.user, _, self.group = self.config["User"].partition(":")
        self.environment = dict(each.split("=", 1)
                                for each in self.config["Env"])
        self._mount()

    def _mount(self):
        _host("mount", "--make-rprivate", "/")
        _host("mount", "--bind", self.root, self.root)
        _host("mount", "-o", "remount,bind,ro", self.root)
        _host("mount", "-t", "proc", "proc", self.root / "proc")
        _host("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs",
              self.root / "tmp")
        _host("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs",
              self.root / "dev")
        for device in ("null", "zero", "random", "urandom"):
            (self.root / "dev" / device).touch()
            _host("mount", "--bind", f"/dev/{device}",
                  self.root / "dev" / device)
        volume, = self.config["Volumes"]
        cache = self.session / "cache"
        cache.mkdir()
        os.chown(cache, int(self.user), int(self.group))
        _host("mount", "--bind", cache, self.root / volume.lstrip("/"))
        _host("ip", "link", "set", "lo", "up")

    def path(self, name):
        """Where this side sees a file of the image."""
        return self.root / name.lstrip("/")

    def _command(self, words):
        return ["chroot", str(self.root), "setpriv", f"--reuid={self.user}",
                f"--regid={self.group}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all", "--", *words]

    def try_run(self, *words):
        return subprocess.run(self._command(words), env=self.environment,
                              cwd="/", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)

    def run(self, *words):
        result = self.try_run(*words)
        _check(result.returncode == 0,
               f"{' '.join(words)} ended with {result.returncode}:\n"
               f"{result.stdout}")
        return result.stdout

    def start(self, *flags):
        """The image's own entry point, as its configuration has it."""
        words = [*self.config["Entrypoint"],
                 *(flags or self.config.get("Cmd") or [])]
        log = open(self.session / "daemon.log", "a")
        return subprocess.Popen(self._command(words), cwd="/",
                                env=self.environment, stdout=log,
                                stderr=subprocess.STDOUT)

    def health(self):
        kind, *words = self.config["Healthcheck"]["Test"]
        _check(kind == "CMD", f"the health check is {kind}")
        return self.try_run(*words)


def check_libraries(image):
    for name in ("gemmd", "gemmctl", "gemm-warmup"):
        lines = image.run("ldd", f"/opt/gemmd/bin/{name}")
        _check("not found" not in lines, lines)
        for library in _FORBIDDEN:
            _check(not re.search(rf"\b{library}\.so", lines),
                   f"{name} links {library}:\n{lines}")
    shipped = sorted(p.name for p in image.path("/opt/gemmd/lib/gemmd").iterdir())
    _check([name.split(".so")[0] for name in shipped]
           == ["libnvrtc-builtins", "libnvrtc"], f"lib holds {shipped}")
    print(f"       ldd: no {', '.join(_FORBIDDEN)}; lib: {', '.join(shipped)}")


def check_warmup(image):
    problems = pathlib.Path(__file__).with_name("warmup.txt").read_text()
    image.path("/tmp/warmup.txt").write_text(problems)
    lines = image.run("gemm-warmup", "compile",
                      "--cache-dir=/var/cache/gemmd", "/tmp/warmup.txt")
    print(f"       gemm-warmup: {lines.splitlines()[-1].strip()}")


def wait_until_healthy(image, daemon):
    end = time.monotonic() + _START_S
    while image.health().returncode != 0:
        _check(daemon.poll() is None, f"gemmd ended with {daemon.returncode}")
        _check(time.monotonic() < end, f"not healthy after {_START_S} s")
        time.sleep(0.2)


def check_confinement(image, daemon):
    status = image.path(f"/proc/{daemon.pid}/status").read_text()
    for line in (rf"Uid:(\s+{image.user}){{4}}", r"CapEff:\s+0+",
                 r"CapBnd:\s+0+", r"NoNewPrivs:\s+1"):
        _check(re.search(rf"^{line}$", status, re.M), f"no {line} in {status}")
    root = image.run("cat", "/proc/mounts").splitlines()
    _check(any(re.match(r"\S+ / \S+ ro[, ]", line) for line in root),
           "the root file system is writable")
    print(f"       gemmd: uid {image.user}, no capability, read-only root")


def _product(*flags):
    return ["gemmctl", "matmul", "/tmp/a.npy", "/tmp/b.npy", "-o", "/tmp/d.npy",
            "--dtype", "bf16", "--d-type", "f32", *flags]


def multiply(image, *flags):
    """Checks one product of a client with `flags`."""
    image.path("/tmp/d.npy").unlink(missing_ok=True)
    said = image.run(*_product(*flags))
    worst = image_product.worst_error(image.path("/tmp/a.npy"),
                                      image.path("/tmp/b.npy"),
                                      image.path("/tmp/d.npy"))
    _check(worst <= 1, f"an element is off by {worst} of its bound: {said}")
    print(f"       {said.splitlines()[0]}; worst error {worst:.1e} of bound")


def cache_statistics(image):
    statistics = json.loads(image.run("gemmctl", "stats", "--json"))
    return {name: int(value) for name, value in statistics["cache"].items()
            if name != "tiers"}


def stop(image, daemon):
    daemon.send_signal(signal.SIGTERM)
    _check(daemon.wait(_STOP_S) == 0,
           f"after SIGTERM gemmd ended with {daemon.returncode}")
    _check(image.health().returncode != 0, "healthy after its end")


def _shown_by(name):
    return (f"--certificate-file={_TLS}/{name}.pem",
            f"--key-file={_TLS}/{name}.key")


def check_mutual_tls(image):
    """The port is for clients with a certificate of the policy alone; probes
    ask a Unix socket."""
    image_certificates.write(image.path(_TLS), int(image.user),
                             int(image.group))
    image.environment["GEMMD_SERVER"] = _SOCKET
    daemon = image.start(
        f"--listen=0.0.0.0:50051,{_SOCKET}",
        f"--tls-certificate-file={_TLS}/daemon.pem",
        f"--tls-key-file={_TLS}/daemon.key",
        f"--tls-client-ca-file={_TLS}/authority.pem",
        f"--policy-file={_TLS}/policy.json")
    wait_until_healthy(image, daemon)
    check_confinement(image, daemon)
    port = "--server=localhost:50051"
    secure = (port, f"--ca-file={_TLS}/authority.pem")
    multiply(image, *secure, *_shown_by("worker"))
    for client, flags, reason in (
            ("in plaintext", (port,), "UNAVAILABLE"),
            ("without a certificate", secure, "credentials are missing"),
            ("of a stranger", (*secure, *_shown_by("stranger")),
             "stands for no principal"),
            ("on the socket", (), "stands for no principal")):
        refused = image.try_run(*_product(*flags))
        _check(refused.returncode == 1 and reason in refused.stdout,
               f"a client {client} was told with {refused.returncode}: "
               f"{refused.stdout}")
        print(f"       a client {client} is refused")
    stop(image, daemon)


def check(image):
    check_libraries(image)
    check_warmup(image)
    image_product.write_operands(image.path("/tmp/a.npy"), image.path("/tmp/b.npy"))
    daemon = image.start()
    wait_until_healthy(image, daemon)
    check_confinement(image, daemon)
    print("      ", image.run("gemmctl", "info").replace("\n", "\n       ")
          .strip())
    multiply(image)
    stop(image, daemon)
    # The cache volume outlives the daemon.
    daemon = image.start()
    wait_until_healthy(image, daemon)
    multiply(image)
    cache = cache_statistics(image)
    _check(cache.get("compiles", 0) == 0 and cache.get("disk_hits", 0) > 0,
           f"the cache was not used: {cache}")
    stop(image, daemon)
    check_mutual_tls(image)


def main():
    image = Image(*sys.argv[1:])
    try:
        check(image)
    except (AssertionError, subprocess.SubprocessError, OSError,
            ValueError) as error:
        log = image.session / "daemon.log"
        if log.exists():
            print(log.read_text()[-4000:])
        print(f"FAILED: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
