"""The examples of the manuals run as they are written, one after the other."""

import contextlib
import io
import pathlib
import re
import unittest

import gemmd
from host_daemon import HostDaemon

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_ADDRESS = '"localhost:50051"'


def _examples(path):
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(),
                      re.M | re.S)


class DocsTest(unittest.TestCase):
    def run_examples(self, name):
        examples = _examples(_ROOT / name)
        self.assertTrue(examples)
        scope = {"__name__": "example"}
        with HostDaemon() as daemon, contextlib.redirect_stdout(io.StringIO()):
            for example in examples:
                text = example.replace(_ADDRESS, repr(daemon.target))
                exec(compile(text, name, "exec"), scope)

    def test_readme(self):
        self.run_examples("README.md")

    def test_sizes_of_the_readme_are_those_that_are_served(self):
        power, less = re.search(r"^\| sizes \| .*? up to 2\^(\d+) - (\d+)",
                                (_ROOT / "README.md").read_text(), re.M).groups()
        with HostDaemon() as daemon, gemmd.Client(daemon.target) as client:
            self.assertEqual(2**int(power) - int(less),
                             client.info().limits.max_dimension)

    def test_manual_of_the_python_client(self):
        self.run_examples("clients/python/README.md")

    def test_what_asyncio_lacks_is_told(self):
        lacks = {name for name in set(dir(gemmd.Client))
                 - set(dir(gemmd.AsyncClient)) if not name.startswith("_")}
        self.assertEqual(lacks, {"kernels", "kernel", "prepare", "evict",
                                 "execute"})
        manual = (_ROOT / "clients/python/README.md").read_text()
        told = re.search(r"`AsyncClient` lacks\n(.*?);", manual, re.S)[1]
        self.assertEqual(lacks, set(re.findall(r"`(\w+)`", told)))
        told = re.search(r"but for (.*), which it lacks",
                         gemmd.AsyncClient.__doc__, re.S)[1]
        self.assertEqual(lacks, set(re.findall(r"\w+", told)) - {"and"})

    def test_example_of_the_package(self):
        example = re.search(r"((?:^    .*\n)+)", gemmd.__doc__, re.M)[1]
        lines = [line[4:] for line in example.splitlines()]
        with HostDaemon() as daemon:
            exec("\n".join(lines).replace(_ADDRESS, repr(daemon.target)), {})


if __name__ == "__main__":
    unittest.main()
