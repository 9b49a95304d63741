#!/usr/bin/env bash
# Brings programs that only tests use. Those that cannot be installed beside
# what a machine has, or whose package would start a server, come to build/tools.
# Chromium is installed where the distribution has it as a package; elsewhere the
# tests that need it are skipped, and say so. Idempotent.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/tools
sudo=()
((EUID == 0)) || sudo=(sudo)

# unpack PROGRAM PACKAGE: brings build/tools/usr/bin/PROGRAM.
unpack() {
  [[ -x $tools/usr/bin/$1 ]] && return
  apt-cache show "$2" > /dev/null 2>&1 || "${sudo[@]}" apt-get update -q
  mkdir -p "$tools/packages"
  (cd "$tools/packages" && apt-get download -q "$2")
  dpkg-deb -x "$tools/packages/$2"_*.deb "$tools"
  rm -r "$tools/packages"
}

unpack promtool prometheus
unpack kubectl kubernetes-client ||
  echo "there is no kubernetes-client here"
if ! command -v chromium chromium-headless-shell > /dev/null; then
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends chromium-headless-shell ||
    echo "there is no chromium-headless-shell here"
fi

# Triton's client wants another gRPC than deploy/requirements.txt has. Its
# program that measures is there for glibc 2.38 and newer: without it a test is
# skipped, and says so.
triton=$tools/triton
requirements=tests/clients/kserve/requirements.txt
if ! cmp -s "$requirements" "$triton/installed.txt"; then
  rm -rf "$triton"
  /usr/bin/python3 -m venv "$triton"
  "$triton/bin/pip" install --quiet --disable-pip-version-check \
    -r "$requirements"
  "$triton/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    perf-analyzer==2.60.0 ||
    echo "there is no perf_analyzer for this machine"
  cp "$requirements" "$triton/installed.txt"
fi
