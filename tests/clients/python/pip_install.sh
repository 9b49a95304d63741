#!/usr/bin/env bash
# Installs the Python package as a user does, into the folder given, and
# imports it from there alone.
set -euo pipefail
site=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
python3 -m pip install --quiet --disable-pip-version-check --no-deps \
  --target "$site" ./clients/python
cd "$site"
PYTHONPATH=$site python3 -c '
import importlib.metadata
import pathlib
import sys

import gemmd
from gemmd import api

assert pathlib.Path(gemmd.__file__).is_relative_to(sys.argv[1]), gemmd.__file__
assert api.Problem(m=1).m == 1
assert any("google-crc32c" in each and "checksums" in each
           for each in importlib.metadata.requires("gemmd"))
' "$site"
