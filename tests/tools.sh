#!/usr/bin/env bash
# Brings programs that only tests use. promtool and prometheus come to
# build/tools, since installing their package would start a server. Chromium is
# installed where the distribution has it as a package; elsewhere the tests that
# need it are skipped, and say so. Idempotent.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/tools
if [[ ! -x $tools/usr/bin/promtool ]]; then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  apt-cache show prometheus > /dev/null 2>&1 || "${sudo[@]}" apt-get update -q
  mkdir -p "$tools/packages"
  (cd "$tools/packages" && apt-get download -q prometheus)
  dpkg-deb -x "$tools"/packages/prometheus_*.deb "$tools"
  rm -r "$tools/packages"
fi
if ! command -v chromium chromium-headless-shell > /dev/null; then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends chromium-headless-shell ||
    echo "there is no chromium-headless-shell here"
fi
