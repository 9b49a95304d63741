#!/usr/bin/env bash
# Sets up, builds, starts a daemon on a free loopback port, multiplies two
# matrices through it from Python, shows what happened, stops the daemon.
# Needs no GPU; with a Hopper GPU the product runs there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/release
cache=$PWD/build/quickstart-cache
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

echo "== Setting up (once)"
deploy/setup.sh
echo "== Building the daemon and its clients"
cmake -G Ninja -S . -B "$build" > "build/quickstart-configure.log" ||
  { cat "build/quickstart-configure.log"; exit 1; }
ninja -C "$build" gemmd gemmctl gemm-warmup gemmd_python

work=$(mktemp -d)
daemon=
stop() {
  if [[ $daemon ]]; then
    kill -TERM "$daemon" 2> /dev/null || true
    wait "$daemon" 2> /dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM

echo "== Starting a daemon"
# An empty cache, so that the first product shows a compile.
rm -rf "$cache"
"$build/service/gemmd" --listen=127.0.0.1:0 --port-file="$work/port" \
  --cache-dir="$cache" > "$work/log" 2>&1 &
daemon=$!
for ((i = 0; i < 300; i++)); do
  [[ -s $work/port ]] && break
  kill -0 "$daemon" 2> /dev/null || break
  sleep 0.1
done
if [[ ! -s $work/port ]]; then
  echo "the daemon did not start:"
  cat "$work/log"
  exit 1
fi
target=$(head -n 1 "$work/port")
"$build/clients/gemmctl/gemmctl" info --server "$target"

echo "== Multiplying"
PYTHONPATH=clients/python:$build/python build/venv/bin/python \
  deploy/product.py --target "$target" | tee "$work/product"
key=$(awk '/^cubin key/ { print $3 }' "$work/product")
[[ $key ]] && echo "cubin file     $(find "$cache" -name "*$key*" | head -n 1)"

cat << END
== How to go on
  cmake --install $build --prefix build/local
  export PATH=\$PWD/build/local/bin:\$PATH
  gemmd &                          # on 127.0.0.1:50051; gemmd --help
  gemmctl info                     # gemmctl matmul --help, gemm-warmup --help
  python3 -m venv build/client && build/client/bin/pip install ./clients/python
  build/client/bin/python deploy/product.py
  tests/run.sh                     # every test that needs no GPU
END
