"""README's project in C++ is one that CMake takes, with this checkout as a
folder of it, and its program compiles and multiplies."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "tests/clients/python"))

from host_daemon import HostDaemon  # noqa: E402

_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", _ROOT / "build/release"))

_SANITIZED = "GEMMD_SANITIZE:STRING=\n" not in (
    _BUILD / "CMakeCache.txt").read_text(encoding="utf-8")


def _example(language):
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)[1]


class CppExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "gemmd").symlink_to(_ROOT)
        (self.folder / "CMakeLists.txt").write_text(_example("cmake"))

    def run_in_folder(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True,
                              text=True, timeout=500, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def configured(self):
        """Ninja's commands by which the program is linked and compiled."""
        self.run_in_folder("cmake", "-G", "Ninja", "-S", ".", "-B", "build")
        said = self.run_in_folder("ninja", "-C", "build", "-t", "commands",
                                  "multiply").splitlines()
        return said[-1], next(line for line in said if "-o CMakeFiles/multiply"
                              ".dir/multiply.cc.o" in line)

    @unittest.skipIf(_SANITIZED, "its libraries are of no plain program")
    def test_it_multiplies(self):
        with HostDaemon() as daemon:
            program = self.folder / "multiply.cc"
            program.write_text(_example("cpp").replace(
                "localhost:50051", daemon.target))
            link, compile_ = self.configured()
            # The libraries are those that the build tree has.
            ours = {"gemmd/proto": "proto", "gemmd/clients": "clients"}
            for theirs, there in ours.items():
                compile_ = re.sub(rf"\S*build/{theirs}\b", f"{_BUILD}/{there}",
                                  compile_)
                link = re.sub(rf"(?<= ){theirs}\b", f"{_BUILD}/{there}", link)
            for command in ("mkdir -p CMakeFiles/multiply.dir", compile_, link):
                self.run_in_folder("bash", "-c", f"cd build && {command}")
            self.assertRegex(self.run_in_folder("build/multiply"),
                             r"^120000 bytes by gemm_bf16_")


if __name__ == "__main__":
    unittest.main()
