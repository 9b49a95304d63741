#!/usr/bin/env bash
# Runs conformance, benchmark and latency on the GPU of this machine and writes
# the evidence. Builds nothing: needs a bundle (tests/gpu/bundle.sh), a Hopper
# GPU with its driver, NVRTC 13, and python3 with numpy, ml_dtypes, grpcio and
# protobuf.
#
#   run.sh [BUNDLE] [OUTPUT_DIR]
#
# Defaults: the folder of this script when it is a bundle, else
# build/gpu-bundle; and tests/gpu/evidence/DEVICE (h100, h200, ...), or
# BUNDLE/evidence in a bundle.
# Writes conformance.json, random.json, bench.json, grouped.json, latency.json,
# summary.json and logs.
#
#   GEMMD_STEPS    which of "conformance random delays bench forms grouped
#                  latency memory devices wire" to run; default: all but delays,
#                  forms, memory, devices and wire. forms: the speed of every
#                  arithmetic; wire: how fast bytes move, beside a bare
#                  server, over loopback and by a Unix socket; memory: products
#                  in a client's own GPU memory; devices: of a daemon with two
#                  GPUs; random: products at random, bit for bit against the
#                  host device, which stands for this GPU, and the
#                  specification; delays: some of them on kernels that are
#                  delayed at random (templates/ptx/delay.h)
#   GEMMD_DELAY_SEEDS  of those delays; default: 1 2
#   GEMMD_RANDOM   how many of them; default: 10000
#   GEMMD_SEED     of them; default: 1
#   GEMMD_CACHE    kernel cache to start from; default: an empty one
#   GEMMD_SUBSET   of the conformance suite; default: full
#   GEMMD_ONLY     of the suite, cases whose name contains this
#   GEMMD_SECONDS  after which the suite begins nothing new; default: no limit
#   GEMMD_SKIP     so many units of the suite, which another run has done: see
#                  join.py
#   GEMMD_BENCH    further flags of gemm_bench
#   GEMMD_WIRE     further flags of wire, as for a shell:
#                  "--clients=1 --product='bf16 TN 1 4096 4096'"
#   GEMMD_DEVICE   default: cuda:0; "host" tries this script without a GPU
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -e $here/programs.tar.gz ]]; then
  bundle=${1:-$here}
  output=${2:-$here/evidence}
else
  bundle=${1:-$here/../../build/gpu-bundle}
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null |
    grep -oE '[A-Z]+[0-9]+' | head -n 1 | tr 'A-Z' 'a-z')
  output=${2:-$here/evidence/${name:-host}}
fi
bundle=$(realpath "$bundle")
[[ -e $bundle/programs.tar.gz ]] ||
  { echo "no bundle at $bundle: see tests/gpu/bundle.sh" >&2; exit 2; }
mkdir -p "$output" || exit 2
output=$(realpath "$output")
device=${GEMMD_DEVICE:-cuda:0}
steps=" ${GEMMD_STEPS:-conformance random bench grouped latency} "

work=$(mktemp -d)
daemon=
reference=
stop() {
  local each
  for each in $daemon $reference; do
    kill -TERM "$each" 2> /dev/null
    wait "$each" 2> /dev/null
  done
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM
tar -C "$work" -xzf "$bundle/programs.tar.gz" || exit 2
# For our binaries only: python3 has its own libraries.
ours=(env "LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
cores=$(nproc)
cache=${GEMMD_CACHE:-$work/cache}

failures=0
note() {
  echo "== $(date -u +%H:%M:%S) $*"
}
failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# start NAME FLAG...: a daemon of that name; sets `started` and `address`.
start() {
  local name=$1
  shift
  "${ours[@]}" "$work/bin/gemmd" --admin-calls \
    --listen="127.0.0.1:0,unix:$work/$name.socket" \
    --port-file="$work/$name.port" --cache-dir="$cache" \
    --compile-threads="$((cores > 64 ? 64 : cores))" --queue=1024 "$@" \
    > "$output/$name.log" 2>&1 &
  started=$!
  for ((i = 0; i < 600; i++)); do
    [[ -s $work/$name.port ]] && break
    kill -0 "$started" 2> /dev/null || break
    sleep 0.1
  done
  if [[ ! -s $work/$name.port ]]; then
    echo "the daemon did not start:"
    tail -n 40 "$output/$name.log"
    return 1
  fi
  address=$(head -n 1 "$work/$name.port")
}
start_daemon() {
  start gemmd --device="${device%%:*}" --lanes=4 "$@" || return 1
  daemon=$started target=$address
}

export PYTHONPATH=$bundle/python:$bundle/tests PYTHONDONTWRITEBYTECODE=1
if [[ $steps =~ \ (conformance|random|latency|memory|devices|wire)\  ]]; then
  note "starting the daemon"
  start_daemon || exit 1
  "${ours[@]}" "$work/bin/gemmctl" info --target "$target"
  python3 "$bundle/product.py" --target "$target" --device "$device" ||
    failed "product"
fi
# Latency first: the daemon is then as fresh as a user's.
if [[ $steps == *" latency "* ]]; then
  note "latency"
  "${ours[@]}" "$work/bin/latency" --target="$target" --device="$device" \
    --json="$output/latency.json" || failed "latency"
fi
if [[ $steps == *" memory "* ]]; then
  note "device memory of a client"
  python3 "$bundle/device_memory.py" --target "unix:$work/gemmd.socket" \
    2>&1 | tee "$output/device_memory.log"
  ((PIPESTATUS[0] == 0)) || failed "device memory"
fi
if [[ $steps == *" devices "* ]]; then
  note "two GPUs"
  python3 "$bundle/two_devices.py" --target "$target" \
    --gemmctl "${ours[*]} $work/bin/gemmctl" --json "$output/devices.json" ||
    failed "two GPUs"
fi
if [[ $steps == *" wire "* ]]; then
  eval "wire_flags=(${GEMMD_WIRE:-})"
  for place in "wire $target" "wire-unix unix:$work/gemmd.socket"; do
    note "${place%% *}"
    "${ours[@]}" "$work/bin/wire" --target="${place#* }" --device="$device" \
      --json="$output/${place%% *}.json" "${wire_flags[@]}" ||
      failed "${place%% *}"
  done
fi
if [[ $steps == *" conformance "* ]]; then
  note "conformance"  # By the socket over which memory is shared, too.
  python3 -m conformance --target "unix:$work/gemmd.socket" --device "$device" \
    --subset "${GEMMD_SUBSET:-full}" --jobs "$cores" --hopper \
    ${GEMMD_SECONDS:+--seconds "$GEMMD_SECONDS"} \
    ${GEMMD_SKIP:+--skip "$GEMMD_SKIP"} \
    ${GEMMD_ONLY:+--only "$GEMMD_ONLY"} \
    --json "$output/conformance.json" || failed "conformance"
  "${ours[@]}" "$work/bin/gemmctl" stats --target "$target"
fi
# against_reference NAME FLAG...: random products on `target` and on a host
# device beside it; writes NAME.json.
against_reference() {
  local name=$1 model good=0
  shift
  # The GPU whose plans the host has, and with them parts of k.
  model=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null |
    grep -oiE 'h[12]00' | head -n 1 | tr 'A-Z' 'a-z')
  start reference --device=host --host-model="${model:-h100}" --lanes=8 ||
    return 1
  reference=$started
  python3 -m conformance --target "$target" --device "$device" \
    --reference "$address" --seed "${GEMMD_SEED:-1}" --jobs "$cores" \
    --json "$output/$name.json" "$@" || good=1
  kill -TERM "$reference"
  wait "$reference" || good=1
  reference=
  rm -f "$output/reference.log" "$work/reference.port"
  return $good
}
if [[ $steps == *" random "* ]]; then
  note "random products"
  against_reference random --random "${GEMMD_RANDOM:-10000}" ||
    failed "random products"
fi
if [[ $daemon ]]; then
  kill -TERM "$daemon"
  wait "$daemon" || failed "the daemon ended with code $?"
  daemon=
fi
if [[ $steps == *" delays "* ]]; then
  for seed in ${GEMMD_DELAY_SEEDS:-1 2}; do
    note "random products on kernels delayed by seed $seed"
    rm -rf "$work/templates" "$work/gemmd.port"
    cp -r "$bundle/templates" "$work/templates"
    sed -i "s/^#pragma once/&\n#define GEMMD_DELAY_SEED ${seed}u/" \
      "$work/templates/ptx/delay.h"
    start_daemon --template-dir="$work/templates" || exit 1
    # Those families' kernels without delays are in the cache.
    against_reference "delays-$seed" --random 600 --families 120 ||
      failed "delays by seed $seed"
    kill -TERM "$daemon"
    wait "$daemon" || failed "the daemon ended with code $?"
    daemon=
  done
fi
if [[ $steps == *" bench "* ]]; then
  note "benchmark"
  # shellcheck disable=SC2086
  "${ours[@]}" "$work/bin/gemm_bench" --shapes "$bundle/shapes/core.txt" \
    --shapes "$bundle/shapes/types.txt" \
    --cache_dir "$cache" --check --json "$output/bench.json" \
    ${GEMMD_BENCH:-} || failed "benchmark"
fi
if [[ $steps == *" forms "* ]]; then
  note "forms"
  "${ours[@]}" "$work/bin/gemm_bench" --shapes "$bundle/shapes/forms.txt" \
    --cache_dir "$cache" --check --peer none --json "$output/forms.json" \
    > "$output/forms.log" || failed "forms"
fi
if [[ $steps == *" grouped "* ]]; then
  note "groups"
  "${ours[@]}" "$work/bin/grouped_bench" "$bundle/shapes/grouped.txt" 4 \
    "$output/grouped.json" > "$output/grouped.log" || failed "groups"
  tail -n 1 "$output/grouped.log"
fi
note "summary"
# shellcheck disable=SC2086
python3 "$bundle/summarize.py" "$output" "$(< "$bundle/digest.txt")" $steps ||
  failed "summary"
# Kept short: the daemon logs every refused request.
[[ -e $output/gemmd.log ]] && gzip -f "$output/gemmd.log"
((failures == 0)) && note "all done: $output"
exit $((failures > 0))
