#!/usr/bin/env bash
# Sets up, builds and runs every test that needs no GPU. Ends with one line
# "N passed, N failed"; exit code 0 when nothing failed.
#
#   tests/run.sh [release|address|thread]
#
# address (with undefined) and thread are sanitizer builds; each flavour has
# its own folder in build/. GEMMD_JOBS limits parallel compiles.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
flavour=${1:-release}
case $flavour in
  release) sanitize= ;;
  address | thread) sanitize=$flavour ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
build=$root/build/$flavour
logs=$build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
# Objects are shared between checkouts.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

passed=0 failed=0
finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
  exit
}

# step NAME COMMAND...: what the rest needs; stops the run when it fails.
step() {
  local name=$1 start=$SECONDS
  shift
  if ! "$@" > "$logs/$name.log" 2>&1 < /dev/null; then
    tail -n 60 "$logs/$name.log"
    echo "FAILED: $name (see $logs/$name.log)"
    failed=$((failed + 1))
    finish
  fi
  echo "$name: done in $((SECONDS - start)) s"
}

# count NAME PASSED FAILED SECONDS
count() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  echo "$1: $2 passed, $3 failed in $4 s"
}

# suite NAME COMMAND...: a program that ends with "N passed, N failed".
suite() {
  local name=$1 start=$SECONDS line code
  shift
  "$@" > "$logs/$name.log" 2>&1 < /dev/null
  code=$?
  # Some releases of grpcio say something behind it
  # (https://github.com/grpc/grpc/issues/38490).
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$logs/$name.log" |
    tail -n 1)
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    local good=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]}
    # An exit code that disagrees with the line is a failure of its own.
    ((code != 0 && bad == 0)) && bad=1
    # What a test leaves out, and why, is not kept in a file.
    grep -E "skipped '|skipped \"" "$logs/$name.log"
    ((bad)) && grep -v '^repeat' "$logs/$name.log" | tail -n 80
    count "$name" "$good" "$bad" $((SECONDS - start))
  else
    tail -n 60 "$logs/$name.log"
    echo "$name ended with code $code and no count"
    count "$name" 0 1 $((SECONDS - start))
  fi
}

# check NAME COMMAND...: one test, passed when the command succeeds.
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@" > "$logs/$name.log" 2>&1 < /dev/null; then
    count "$name" 1 0 $((SECONDS - start))
  else
    tail -n 40 "$logs/$name.log"
    count "$name" 0 1 $((SECONDS - start))
  fi
}

step setup deploy/setup.sh
step tools tests/tools.sh
step configure cmake -G Ninja -S . -B "$build" -DGEMMD_SANITIZE=$sanitize
step build nice ninja -C "$build" ${GEMMD_JOBS:+-j "$GEMMD_JOBS"}

export PATH=$root/build/venv/bin:$PATH
export PYTHONPATH=$root/clients/python:$build/python:$root/tests
export PYTHONDONTWRITEBYTECODE=1
export GEMMD_BUILD=$build

suite ctest python3 tests/tally.py ctest "$build"
suite python-client python3 tests/tally.py unittest tests/clients/python
suite gemmctl python3 tests/tally.py unittest tests/clients/gemmctl \
  tests/clients/python
suite wire python3 tests/tally.py unittest tests/bench/wire \
  tests/clients/python
# With Triton's client, which has an environment of its own.
suite kserve build/tools/triton/bin/python tests/tally.py unittest \
  tests/clients/kserve tests/clients/python
suite conformance-suite python3 tests/tally.py unittest tests/conformance \
  tests/clients/python
suite conformance env GEMMD_UNIX=1 tests/with_daemon.sh "$build" \
  python3 -m conformance --subset ci --device host --jobs 2 --hopper \
  --json "$logs/conformance.json"
suite random-products tests/with_daemon.sh "$build" \
  python3 -m conformance --random 336 --families 56 --device host --jobs 2 \
  --json "$logs/random.json"
for limits in tight default; do
  suite "soak-$limits" "$build/tests/integration/soak" 75 "$limits"
done
[[ $flavour == release ]] && endurance_s=30 || endurance_s=120
suite endurance-suite python3 tests/tally.py unittest tests/endurance
suite endurance env "PYTHONPATH=$PYTHONPATH:$root/tests/clients/python" \
  python3 -m endurance --seconds "$endurance_s" --load "bf16 TN 64 64 64" \
  --json "$logs/endurance.json"
suite tidy python3 tests/tally.py unittest tests/tidy
suite deploy python3 tests/tally.py unittest tests/deploy
check pip-install tests/clients/python/pip_install.sh "$logs/site"
if [[ $flavour == release ]]; then
  check quickstart deploy/quickstart.sh
fi
if [[ -e tests/gpu/evidence ]]; then
  check gpu-evidence-is-fresh tests/gpu/check_fresh.sh
fi
for script in .ci/run deploy/*.sh tests/*.sh tests/gpu/*.sh; do
  check "syntax of ${script//\//_}" bash -n "$script"
done
finish
