"""What the image says that it is made of."""

import json
import os
import pathlib
import re
import subprocess
import unittest

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import flags

_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD",
                                     flags.ROOT / "build/release"))
_SANITIZED = "GEMMD_SANITIZE:STRING=\n" not in (
    _BUILD / "CMakeCache.txt").read_text()


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def _packages_of_libraries(program):
    """Debian packages of the libraries that `program` loads."""
    return _packages_of({str(pathlib.Path(path).resolve()) for path in
                         re.findall(r"=> (/\S+)", _output("ldd", program))})

def _packages_of_archives(program):
    """Debian packages of the archives that `program` is linked with."""
    commands = _output("ninja", "-C", _BUILD, "-t", "commands", program)
    return _packages_of(set(re.findall(r"/usr/\S+[.]a\b",
                                       commands.splitlines()[-1])))


def _packages_of(paths):
    # The loader finds libraries in /lib, which is /usr/lib.
    paths |= {path.removeprefix("/usr") for path in paths}
    # Without check: each file is asked for under two names.
    owners = subprocess.run(["dpkg-query", "-S", *sorted(paths)], text=True,
                            capture_output=True, check=False).stdout
    return {line.split(":")[0] for line in owners.splitlines()}


class SbomTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.text = _output(flags.ROOT / "deploy/sbom.sh",
                           _BUILD / "service/gemmd")
        cls.components = json.loads(cls.text)["components"]

    def test_it_fits_the_strict_schema(self):
        validator = JsonStrictValidator(SchemaVersion.V1_5)
        self.assertIsNone(validator.validate_str(self.text))

    def test_a_misspelled_field_is_found(self):
        validator = JsonStrictValidator(SchemaVersion.V1_5)
        spoilt = self.text.replace('"purl"', '"pull"', 1)
        self.assertIsNotNone(validator.validate_str(spoilt))

    def test_the_libraries_of_the_daemon_are_named(self):
        names = {each["name"] for each in self.components}
        needed = _packages_of_libraries(_BUILD / "service/gemmd")
        self.assertIn("libssl3", needed)
        self.assertLessEqual(needed, names)

    @unittest.skipIf(_SANITIZED, "a sanitizer's build links no archives")
    def test_what_is_linked_into_the_daemon_is_named_and_has_its_licence(self):
        needed = _packages_of_archives("gemmd")
        self.assertIn("libgrpc-dev", needed)
        # As in the image, which has none of them itself.
        script = (flags.ROOT / "deploy/sbom.sh").read_text()
        named = re.search(r"^linked=\((.*?)\)$", script, re.M | re.S)[1].split()
        self.assertEqual(needed, set(named))
        self.assertLessEqual(needed, {each["name"] for each in self.components})
        install = (_BUILD / "cmake_install.cmake").read_text()
        licences = set(re.findall(r"/usr/share/doc/([^/]+)/copyright", install))
        self.assertEqual(needed - {"libgrpc++-dev"},  # Of libgrpc-dev's source.
                         licences)

    def test_no_component_is_named_twice(self):
        references = [each["purl"] for each in self.components]
        self.assertEqual(len(references), len(set(references)))

    def test_the_compiler_and_the_daemon_have_their_versions(self):
        requirements = (flags.ROOT / "deploy/requirements.txt").read_text()
        nvrtc = re.search(r"nvrtc==(\S+)", requirements)[1]
        self.assertIn({"type": "library", "name": "nvidia-cuda-nvrtc",
                       "version": nvrtc,
                       "purl": f"pkg:pypi/nvidia-cuda-nvrtc@{nvrtc}"},
                      self.components)
        version = re.search(r"project\(gemmd VERSION (\S+)",
                            (flags.ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(
            json.loads(self.text)["metadata"]["component"]["version"], version)

    def test_the_image_has_it(self):
        dockerfile = (flags.ROOT / "deploy/Dockerfile").read_text()
        self.assertIn("/src/deploy/sbom.sh /opt/gemmd/bin/gemmd /src/dpkg", dockerfile)
        ignored = (flags.ROOT / "deploy/Dockerfile.dockerignore").read_text()
        self.assertIn("!deploy/sbom.sh", ignored.splitlines())


if __name__ == "__main__":
    unittest.main()
