#!/usr/bin/env bash
# Runs the tests of the Python client with other versions of what it needs than
# deploy/requirements.txt has: the oldest that its metadata allow, or the newest
# on PyPI. Needs a build, which GEMMD_BUILD names. There are no such old ones for
# Pythons after 3.11.
#
#   tests/clients/python/versions.sh oldest|newest [PYTHON]
#
# E.g.: tests/clients/python/versions.sh oldest /usr/bin/python3.10
set -euo pipefail
which=${1:-}
case $which in
  oldest) version='==\3.*' ;;
  newest) version= ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
export GEMMD_BUILD=${GEMMD_BUILD:-build/release}
mapfile -t packages < <(
  sed -nE "s/^(  |checksums = \[)\"([a-z0-9_-]+)>=(.+)\"\]?,?$/\2$version/p" \
    clients/python/pyproject.toml)
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"${2:-python3}" -m venv "$environment"
export PATH=$environment/bin:$PATH
pip install --quiet --disable-pip-version-check --only-binary :all: \
  "${packages[@]}" mypy types-protobuf
python3 --version
pip list --disable-pip-version-check
export PYTHONPATH=clients/python:$GEMMD_BUILD/python:tests
export PYTHONDONTWRITEBYTECODE=1
python3 tests/tally.py unittest tests/clients/python
