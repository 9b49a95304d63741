#!/usr/bin/env bash
# Fuzzes the parsers of the cache with clang's libFuzzer under AddressSanitizer
# and UndefinedBehaviorSanitizer (Debian: clang-16, libclang-rt-16-dev), several at
# a time. Prints a line for each; exit code 0 when none found anything.
#
#   tests/fuzz/run.sh [SECONDS] [JOBS]    defaults: 600 for each, 2
#
# Inputs that crash a parser are left in build/fuzzer/found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-600} jobs=${2:-2} build=$PWD/build/fuzzer
CXX=clang++-16 cmake -G Ninja -S . -B "$build" -DGEMMD_SANITIZE=fuzzer > /dev/null
ninja -C "$build" fuzz_cache_parsers > /dev/null
mkdir -p "$build/found" "$build/corpus"

fuzz() {
  local parser=$1 name=${1// /-} code=0 log
  log=$build/found/$name.log
  mkdir -p "$build/corpus/$name"
  GEMMD_FUZZ_PARSER=$parser "$build/tests/fuzz/fuzz_cache_parsers" \
    -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -timeout=10 \
    -artifact_prefix="$build/found/$name-" -print_final_stats=1 \
    "$build/corpus/$name" > "$log" 2>&1 || code=$?
  echo "$parser: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "inputs, exit code $code"
  return $((code != 0))
}
export -f fuzz
export seconds build
"$build/tests/fuzz/fuzz_cache_parsers" |
  xargs -d '\n' -P "$jobs" -I {} bash -c 'fuzz "$1"' _ {}
