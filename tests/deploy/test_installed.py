"""README's way from a built tree to a product in Python, line by line: what is
installed is found, and the package installs where the system's Python refuses.

Two things are not as they stand there: the daemon serves on a socket of the
test's own, on the processors, and ends with the test.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", _ROOT / "build/release"))


def _section(title):
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^## {title}\n(.*?)^## ", text, re.M | re.S)[1]


def _shell_lines(text):
    block = re.search(r"((?:^    .*\n)+)", text, re.M)[1]
    return [line[4:].split("#")[0].strip() for line in block.splitlines()]


class InstalledTest(unittest.TestCase):
    def test_the_lines_of_the_readme_lead_to_a_product(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tree = pathlib.Path(folder.name)
        for name in ("clients", "proto", "tests/conformance"):
            shutil.copytree(_ROOT / name, tree / name, ignore=(
                shutil.ignore_patterns("__pycache__", "build", "*.egg-info")))
        (tree / "build").mkdir()
        (tree / "build/release").symlink_to(_BUILD)

        section = _section("From Python")
        lines = _shell_lines(section)
        self.assertEqual(lines[-1], "build/client/bin/python")
        daemon = lines.index("gemmd &")
        lines[daemon] = f"gemmd --device=host --listen=unix:{tree}/socket &"
        # Ends with the shell, however that ends.
        lines.insert(daemon + 1, "trap 'kill %1; wait' EXIT")
        example = re.search(r"^```python\n(.*?)^```$", section,
                            re.M | re.S)[1]
        (tree / "example.py").write_text(
            example.replace("localhost:50051", f"unix:{tree}/socket"))
        lines[-1] += " example.py"
        bits = re.search(r"^    (PYTHONPATH=tests .*conformance --help)$",
                         (_ROOT / "README.md").read_text(), re.M)[1]
        lines += ["gemmctl info --server " f"unix:{tree}/socket", bits]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("GEMMD_", "PYTHON"))}
        environment |= {"HOME": str(tree),
                        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(
            ["bash", "-e"], input="\n".join(lines), cwd=tree, text=True,
            env=environment, capture_output=True, timeout=540, check=False)
        said = done.stdout + done.stderr
        if "No matching distribution found" in said or (
                "Could not find a version" in said):
            self.skipTest("the package index does not answer")
        self.assertEqual(done.returncode, 0, said)
        self.assertRegex(said, r"(?m)^host gemm_bf16\S* \d+$")
        self.assertIn("device host", said)
        self.assertIn("usage: ", said)


class LibrariesTest(unittest.TestCase):
    def test_none_is_looked_for_where_a_program_is_started(self):
        for program in ("service/gemmd", "clients/gemmctl/gemmctl",
                        "clients/warmup/gemm-warmup"):
            dynamic = subprocess.run(
                ["readelf", "-d", _BUILD / program], check=True, text=True,
                capture_output=True).stdout
            paths = re.search(r"\(RPATH\).*\[(.*)\]", dynamic)[1]
            for path in paths.split(":"):
                self.assertRegex(path, r"^(/|\$ORIGIN/)", program)


if __name__ == "__main__":
    unittest.main()
