"""What was built finds the NVRTC that deploy/setup.sh installed, and what was
installed brings it along, on a machine without a CUDA toolkit."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import no_toolkit

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", _ROOT / "build/release"))
_VENV = _ROOT / "build/venv"
_PROBLEM = "bf16 TN 256 256 256"


class WithoutToolkitTest(unittest.TestCase):
    def setUp(self):
        self.way, reason = no_toolkit.way_in()
        if self.way is None:
            self.skipTest(reason)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def run_hidden(self, *command, hide=()):
        done = no_toolkit.run(self.way, *command, hide=hide)
        self.assertEqual(done.returncode, 0,
                         f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def assert_compiles(self, warmup, hide=()):
        problems = self.work / "problems.txt"
        problems.write_text(_PROBLEM + "\n")
        self.run_hidden(warmup, "compile", f"--cache_dir={self.work}/cache",
                        problems, hide=hide)

    def assert_daemon_has_compiler(self, gemmd, gemmctl, hide=()):
        script = """
          "$1" --device=host --listen=127.0.0.1:0 --port_file="$3/port" \
            --cache_dir="$3/cache" &
          for ((i = 0; i < 600; i++)); do
            [[ -s $3/port ]] && break
            sleep 0.1
          done
          "$2" info --target "$(head -n 1 "$3/port")"
          code=$?
          kill %1
          wait
          exit $code"""
        lines = self.run_hidden("bash", "-c", script, "_", gemmd, gemmctl,
                                self.work, hide=hide)
        self.assertRegex(lines, r"NVRTC 1[0-9]\.[0-9]+ sha256:")

    def test_no_toolkit_can_be_seen(self):
        """The other tests prove nothing where this one fails."""
        for major in (12, 13):
            code = f"import ctypes; ctypes.CDLL('libnvrtc.so.{major}')"
            done = no_toolkit.run(self.way, sys.executable, "-c", code)
            self.assertIn("OSError", done.stderr)

    def test_warmup_compiles_in_the_build_tree(self):
        self.assert_compiles(_BUILD / "clients/warmup/gemm-warmup")

    def test_daemon_has_a_compiler_in_the_build_tree(self):
        self.assert_daemon_has_compiler(_BUILD / "service/gemmd",
                                        _BUILD / "clients/gemmctl/gemmctl")

    def test_installed_programs_bring_their_compiler(self):
        prefix = self.work / "prefix"
        subprocess.run(["cmake", "--install", _BUILD, "--prefix", prefix],
                       check=True, capture_output=True)
        # That the build tree still has one must not help.
        self.assert_compiles(prefix / "bin/gemm-warmup", hide=[_VENV])
        self.assert_daemon_has_compiler(prefix / "bin/gemmd",
                                        prefix / "bin/gemmctl", hide=[_VENV])


if __name__ == "__main__":
    unittest.main()
