"""The daemon's flags, as manifests and the image's entry point give them."""

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def of(words):
    """{name: value} of the words that are flags."""
    return {name: value for name, value in
            re.findall(r"--([\w-]+)(?:=(\S+))?", " ".join(words))}


def known():
    source = (ROOT / "service/daemon/options.cc").read_text()
    return set(re.findall(r'\bc\.\w+\(\s*"--([\w-]+)', source))


def size(text):
    """Bytes of a number with a unit, as flags and --help spell them."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * _UNITS[unit]


def drain_s(words):
    flags = of(words)
    return (int(flags.get("drain-grace", "0s").removesuffix("s"))
            + int(flags.get("drain-timeout", "30s").removesuffix("s")))


def entrypoint():
    text = (ROOT / "deploy/Dockerfile").read_text()
    return yaml.safe_load(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1])
