#!/usr/bin/env bash
# Builds the image of deploy/Dockerfile and multiplies matrices in it, on
# Debian 12 or Ubuntu 24.04 without a container engine, an image registry or a
# GPU: buildah builds in a chroot on a Debian that debootstrap made.
#
#   deploy/test-image.sh [--keep]
#
# Needs root that may mount. The first run takes most of its time to install
# the toolchain; build/image keeps that and the base for the next run.
# --keep leaves the image in build/image/storage too.
set -euo pipefail
((EUID == 0)) || exec sudo -E "$0" "$@"
keep=${1:-}
if [[ $# -gt 1 || ($# == 1 && $keep != --keep) ]]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
work=$PWD/build/image
host=$work/host
mkdir -p "$work/tmp" "$host"
# No image service, no overlay file system, no user namespace is assumed.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot TMPDIR=$work/tmp
buildah=(buildah --root "$work/storage" --runroot "$work/run")
step() { printf '%4d s  %s\n' $SECONDS "$*"; }

install_tools() {
  local package missing=()
  for package in buildah debootstrap debian-archive-keyring iproute2 openssl python3; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q 'install ok installed' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# Lines "URI suite component..." of Debian 12: where this machine takes its
# own packages from, when it is a Debian 12.
debian_sources() {
  local lines
  lines=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' |
    awk '$2 ~ /^bookworm(-updates|-security)?$/ && $3 == "main"' | sort -u)
  if grep -q ' bookworm main$' <<< "$lines"; then
    echo "$lines"
    return
  fi
  local mirror=http://deb.debian.org
  printf '%s main\n' "$mirror/debian bookworm" \
    "$mirror/debian bookworm-updates" \
    "$mirror/debian-security bookworm-security"
}

# What debian:12-slim is: the required packages, without documentation.
make_base() {
  local root=$work/rootfs mirror
  mirror=$(debian_sources | awk '$2 == "bookworm" { print $1 }')
  rm -rf "$root"
  debootstrap --variant=minbase bookworm "$root" "$mirror"
  debian_sources | sed 's/^/deb /' > "$root/etc/apt/sources.list"
  rm -rf "$root"/usr/share/{doc,info,locale,man}/* "$root"/var/log/* \
    "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
  tar -C "$root" --one-file-system -cf "$work/base.tar.partial" .
  mv "$work/base.tar.partial" "$work/base.tar"
  rm -rf "$root"
}

import_base() {
  local container
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add --quiet "$container" "$work/base.tar" / > /dev/null
  "${buildah[@]}" config --cmd bash "$container"
  "${buildah[@]}" commit --quiet --rm "$container" gemmd-base > /dev/null
}

# How this machine reaches its package sources, for the build alone: mounted
# over RUN steps, never part of a layer.
write_host_settings() {
  apt-config dump Acquire |
    grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date)' \
      > "$host/apt.conf" || true
  cp /etc/ssl/certs/ca-certificates.crt "$host/ca.crt" 2>/dev/null ||
    : > "$host/ca.crt"
  {
    echo '[global]'
    [[ ! -s $host/ca.crt ]] || echo 'cert = /run/host-ca.crt'
    local key name value
    for key in index-url extra-index-url trusted-host proxy; do
      name=PIP_$(tr a-z- A-Z_ <<< "$key")
      value=${!name:-$(python3 -m pip config get "global.$key" 2>/dev/null ||
        true)}
      [[ -z $value ]] || echo "$key = $value"
    done
  } > "$host/pip.conf"
}

# build TAG ARGUMENT...
build() {
  local tag=$1
  shift
  nice "${buildah[@]}" build --layers --format docker --pull-never \
    --build-arg BASE=localhost/gemmd-base --tag "$tag" \
    --ignorefile deploy/Dockerfile.dockerignore --file deploy/Dockerfile \
    --volume "$host/apt.conf:/etc/apt/apt.conf.d/99host:ro" \
    --volume "$host/pip.conf:/etc/pip.conf:ro" \
    --volume "$host/ca.crt:/run/host-ca.crt:ro" "$@" . > "$work/$tag.log" 2>&1 || {
    tail -n 60 "$work/$tag.log"
    exit 1
  }
}

clean_up() {
  "${buildah[@]}" rm --all > /dev/null 2>&1 || true
  [[ $keep == --keep ]] || "${buildah[@]}" rmi gemmd > /dev/null 2>&1 || true
  # Layers that no kept image needs.
  "${buildah[@]}" rmi --prune > /dev/null 2>&1 || true
  rm -rf "$work/rootfs" "$work/tmp/session"
}
trap clean_up EXIT

install_tools > "$work/tools.log" 2>&1 || { cat "$work/tools.log"; exit 1; }
step "tools are installed"
if [[ ! -e $work/base.tar ]]; then
  make_base > "$work/base.log" 2>&1 || { tail "$work/base.log"; exit 1; }
fi
"${buildah[@]}" inspect --type image gemmd-base > /dev/null 2>&1 || import_base
step "base image is imported"
write_host_settings
build gemmd-toolchain --target toolchain
step "toolchain is installed"
build gemmd
step "image is built: $("${buildah[@]}" images --format '{{.Size}}' gemmd)"

session=$work/tmp/session
mkdir -p "$session"
"${buildah[@]}" inspect --type image gemmd > "$session/image.json"
root=$("${buildah[@]}" mount "$("${buildah[@]}" from --pull-never gemmd)")
# Processes end with the namespace, whatever happens.
unshare --mount --pid --net --ipc --uts --fork --kill-child \
  python3 deploy/image_session.py "$root" "$session"
step "the image multiplies correctly, also with TLS on both sides"
