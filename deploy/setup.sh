#!/usr/bin/env bash
# Installs what gemmd is built from and tested with, on Debian 12 and 13 or
# Ubuntu 24.04: system packages, a Python environment in build/venv, and NVRTC
# with the CUDA header from pinned wheels. Idempotent; quick when nothing is
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates libhwy-dev
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libgtest-dev libgmock-dev libopenblas-pthread-dev libssl-dev
  libseccomp-dev libspdlog-dev libcli11-dev libzstd-dev python3 python3-venv
  redis-tools libboost-context-dev prometheus-cpp-dev libmicrohttpd-dev
  nlohmann-json3-dev libisal-dev
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
    grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  sudo=()
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

venv=build/venv
requirements=deploy/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$venv/installed.txt"
fi
