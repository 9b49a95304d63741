#!/usr/bin/env bash
# Collects what a GPU machine needs to run tests/gpu/run.sh: binaries with
# their libraries, the Python client, the suite, shapes.
#
#   tests/gpu/bundle.sh [BUILD_DIR] [OUTPUT_DIR]
#
# Defaults: build/release and build/gpu-bundle. The GPU machine brings glibc
# 2.36 or newer, libstdc++, the NVIDIA driver, NVRTC 13 (CUDA toolkit), and
# python3 with numpy, ml_dtypes, grpcio and protobuf.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "${1:-$root/build/release}")
output=${2:-$root/build/gpu-bundle}
limit_mib=60

# The digest below is that of the sources, so the binaries must be too.
ninja -C "$build" gemmd gemmctl gemm-warmup gemm_bench grouped_bench latency \
  prepare_bench wire \
  gemmd_python

rm -rf "$output"
mkdir -p "$output/bin" "$output/lib" "$output/python/gemmd" \
  "$output/tests" "$output/shapes"
binaries=(
  service/gemmd clients/gemmctl/gemmctl clients/warmup/gemm-warmup
  tests/bench/gemm_bench tests/bench/grouped_bench tests/bench/latency/latency
  tests/bench/prepare/prepare_bench tests/bench/wire/wire
)
for binary in "${binaries[@]}"; do
  strip -s -o "$output/bin/$(basename "$binary")" "$build/$binary"
  ldd "$build/$binary"
done | awk '$3 ~ /^\// { print $1, $3 }' | sort -u |
  while read -r name path; do
    case $name in
      # The machine's own: older ones would break what else it loads.
      libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | \
        libresolv.so* | libstdc++.so* | libgcc_s.so* | ld-linux*) ;;
      libcuda* | libnvrtc* | libcublas*)
        echo "$name must not be linked" >&2
        exit 1
        ;;
      *) install -m 644 "$path" "$output/lib/$name" ;;
    esac
  done
# Stored compressed, unpacked by run.sh: OpenBLAS alone has 35 MiB.
tar -C "$output" -czf "$output/programs.tar.gz" bin lib
rm -rf "$output/bin" "$output/lib"

cp "$root"/clients/python/gemmd/*.py "$build/python/gemmd/api.binpb" \
  "$output/python/gemmd/"
cp -r "$root/tests/conformance" "$output/tests/"
cp -r "$root/templates" "$output/"
find "$output" -name __pycache__ -prune -exec rm -rf {} +
cp "$root"/tests/bench/shapes/{core,forms,grouped,squares,types}.txt "$root/deploy/product.py" \
  "$output/shapes/"
mv "$output/shapes/product.py" "$output/"
cp "$root"/tests/gpu/{run.sh,summarize.py,tune.sh,summarize_tuning.py,ask_for.py,device_memory.py,own_memory.py,two_devices.py} \
  "$output/"
"$root/tests/gpu/digest.sh" > "$output/digest.txt"
git -C "$root" rev-parse HEAD > "$output/commit.txt" 2> /dev/null || true

size_mib=$(du -sm "$output" | cut -f 1)
echo "$output: $size_mib MiB, digest $(< "$output/digest.txt")"
((size_mib < limit_mib)) || { echo "over $limit_mib MiB" >&2; exit 1; }
