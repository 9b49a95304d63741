"""The commands in the manuals, in scripts and in manifests are those that the
programs have, with their options spelled as --help spells them."""

import functools
import os
import pathlib
import re
import subprocess
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BUILD = pathlib.Path(os.environ.get("GEMMD_BUILD", _ROOT / "build/release"))
_PROGRAMS = {
    "gemmd": _BUILD / "service/gemmd",
    "gemmctl": _BUILD / "clients/gemmctl/gemmctl",
    "gemm-warmup": _BUILD / "clients/warmup/gemm-warmup",
}
_MANUALS = ("README.md", "deploy/README.md", "clients/python/README.md")


@functools.cache
def _help(program, *words):
    done = subprocess.run([_PROGRAMS[program], *words, "--help"],
                          capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, f"{program} {words}: {done.stderr}"
    return done.stdout


def _options(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*(?:_\w+)?", text))


def _subcommands(program, *words):
    listed = _help(program, *words).partition("Subcommands:")[2]
    return [line.split()[0] for line in listed.splitlines()
            if line.startswith("  ") and line[2] != " "]


@functools.cache
def _all_options():
    """Every option of every program."""
    known = set()
    for program in _PROGRAMS:
        groups = [()]
        while groups:
            words = groups.pop()
            known |= _options(_help(program, *words))
            groups += [(*words, name) for name in
                       _subcommands(program, *words)]
    return known


def _command_lines(text):
    """Indented lines of a manual, continued ones joined, without comments."""
    block = "\n".join(line for line in text.splitlines()
                      if line.startswith("    "))
    for line in block.replace("\\\n", " ").splitlines():
        yield line.split("#")[0].strip()


def _commands(text):
    """(program, words behind it) of each call of one of the programs."""
    for line in _command_lines(text):
        for part in re.split(r"[;&|]+", line):
            words = part.split()
            for i, word in enumerate(words):
                if word.rpartition("/")[2] in _PROGRAMS and (
                        i == 0 or "exec" in words[:i]):
                    yield word.rpartition("/")[2], words[i + 1:]
                    break


class CommandsTest(unittest.TestCase):
    def test_commands_of_the_manuals_are_understood(self):
        count = 0
        for manual in _MANUALS:
            for program, words in _commands((_ROOT / manual).read_text()):
                with self.subTest(manual=manual, command=words):
                    count += 1
                    group = []
                    while words and words[0] in _subcommands(program, *group):
                        group.append(words.pop(0))
                    known = _options(_help(program, *group))
                    self.assertLessEqual(_options(" ".join(words)), known)
        self.assertGreater(count, 10)

    def test_options_in_prose_exist(self):
        for manual in _MANUALS:
            text = (_ROOT / manual).read_text()
            for option in re.findall(r"`(--[a-z0-9_-]+)", text):
                with self.subTest(manual=manual, option=option):
                    self.assertIn(option, _all_options())

    def test_the_manual_names_the_gpus_that_kernels_are_prepared_for(self):
        text = (_ROOT / "deploy/README.md").read_text()
        listed = re.search(r"will run them: (.*?)\. Default: (\w+)", " ".join(
            _help("gemm-warmup", "compile").split()))
        for name in listed[1].split(", "):
            self.assertIn(f"`{name}`", text)
        self.assertIn(f"`{listed[2]}` (the default)", text)

    def test_the_configuration_file_of_the_manual_is_read(self):
        text = (_ROOT / "deploy/README.md").read_text()
        names = re.findall(r"^    ([a-z-]+) = ", text, re.M)
        self.assertGreater(len(names), 3)
        for name in names:
            self.assertIn(f"--{name}", _options(_help("gemmd")))

    def test_scripts_use_the_spelling_of_today(self):
        for pattern in ("deploy/*", "tests/*.sh", "tests/gpu/*.sh"):
            for path in _ROOT.glob(pattern):
                if not path.is_file() or path.suffix == ".pyc":
                    continue
                old = re.findall(r"--(?:cache|drain|port|max|record|require"
                                 r"|compile|network|tensor|allow)_\w+",
                                 path.read_text())
                if path.parent.name == "gpu":  # That of gemm_bench.
                    old = [word for word in old if word != "--cache_dir"]
                with self.subTest(path=path.name):
                    self.assertEqual(old, [])


if __name__ == "__main__":
    unittest.main()
