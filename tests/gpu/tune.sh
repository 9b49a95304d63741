#!/usr/bin/env bash
# Asks a daemon on the GPU of this machine to tune a sample of products, and
# then times what it found beside what the planner alone would choose, by the
# benchmark's own method. Builds nothing: needs a bundle, as run.sh does.
#
#   tune.sh [BUNDLE] [OUTPUT_DIR]
#
# Defaults: the folder of this script, and BUNDLE/tuned. Three parts, each from
# an empty store of tuning records:
#   kept     gemm-warmup tune: the parts of k stay
#   free     gemm-warmup tune --new-generation: they may change
#   hot      no request to tune: the daemon is asked for the products again and
#            again, and finds out by itself within --tune-share
# Writes for each PART.json (the benchmark's) and PART.jsonl (what the daemon
# said; of hot, how many requests it served meanwhile and afterwards), and a
# summary to tune.json.
#
#   GEMMD_TUNE_PARTS    of "kept free hot"; default: "kept free"
#   GEMMD_TUNE_LIST     a file of products in place of a sample, as in shapes/
#   GEMMD_TUNE_SHAPES   products of the sample; default: 40
#   GEMMD_TUNE_SEED     of the sample; default: 7
#   GEMMD_TUNE_TYPE     of the sample, as gemm_bench has it; default: bf16
#   GEMMD_TUNE_SECONDS  that hot lasts at most; default: 300
#   GEMMD_TUNE_CALM     and then, with nothing left to tune; default: 30
#   GEMMD_TUNE_SHARE    percent of the device; default: 5
#   GEMMD_BENCH         further flags of gemm_bench
#   GEMMD_CACHE         kernels to begin with; default: none
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bundle=$(realpath "${1:-$here}")
output=${2:-$bundle/tuned}
[[ -e $bundle/programs.tar.gz ]] ||
  { echo "no bundle at $bundle: see tests/gpu/bundle.sh" >&2; exit 2; }
mkdir -p "$output" || exit 2
output=$(realpath "$output")
shapes=${GEMMD_TUNE_SHAPES:-40}
seed=${GEMMD_TUNE_SEED:-7}
read -ra parts <<< "${GEMMD_TUNE_PARTS:-kept free}"

work=$(mktemp -d)
daemon=
stop_daemon() {
  [[ $daemon ]] || return 0
  kill -TERM "$daemon" 2> /dev/null
  wait "$daemon"
  local code=$?
  daemon=
  return "$code"
}
trap 'stop_daemon; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
tar -C "$work" -xzf "$bundle/programs.tar.gz" || exit 2
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

# start_daemon FLAG...
start_daemon() {
  rm -f "$work/port"
  "${ours[@]}" "$work/bin/gemmd" --listen=127.0.0.1:0 --admin-calls \
    --device=cuda --port-file="$work/port" --cache-dir="$cache" \
    "$@" \
    >> "$output/gemmd.log" 2>&1 &
  daemon=$!
  for ((i = 0; i < 600; i++)); do
    [[ -s $work/port ]] && break
    kill -0 "$daemon" 2> /dev/null || break
    sleep 0.1
  done
  if [[ ! -s $work/port ]]; then
    tail -n 40 "$output/gemmd.log"
    return 1
  fi
  target=$(head -n 1 "$work/port")
}

list=$work/problems
if [[ ${GEMMD_TUNE_LIST:-} ]]; then
  cp "$GEMMD_TUNE_LIST" "$list" || exit 2
else
  "${ours[@]}" "$work/bin/gemm_bench" --sample "$shapes" --seed "$seed" \
    --type "${GEMMD_TUNE_TYPE:-bf16}" --list \
    > "$list" || exit 1
fi

export PYTHONPATH=$bundle/python PYTHONDONTWRITEBYTECODE=1
for part in "${parts[@]}"; do
  rm -rf "$cache/tuning"
  note "$part: tuning $(grep -c '^[^#]' "$list") products"
  flags=()
  [[ $part == free ]] && flags=(--new-generation)
  begin=$SECONDS
  if [[ $part == hot ]]; then
    start_daemon --tune-share="${GEMMD_TUNE_SHARE:-5}" || exit 1
    python3 "$bundle/ask_for.py" --target "$target" --problems "$list" \
      --seconds "${GEMMD_TUNE_SECONDS:-300}" \
      --calm "${GEMMD_TUNE_CALM:-30}" --json "$output/hot.jsonl" ||
      failed "requests"
  else
    start_daemon --tune-share=0 \
      --compile-threads="$((cores > 64 ? 64 : cores))" || exit 1
    "${ours[@]}" "$work/bin/gemm-warmup" tune --server "$target" \
      --jobs 8 --json "${flags[@]}" "$list" > "$output/$part.jsonl" ||
      failed "tuning"
  fi
  echo "$((SECONDS - begin)) s"
  "${ours[@]}" "$work/bin/gemmctl" stats --target "$target"
  stop_daemon || failed "the daemon ended with code $?"
  note "$part: the benchmark"
  # shellcheck disable=SC2086
  "${ours[@]}" "$work/bin/gemm_bench" --shapes "$list" --tuning "$cache" \
    --cache_dir "$cache" --no_ceiling --json "$output/$part.json" \
    ${GEMMD_BENCH:-} > "$output/$part.txt" 2>&1 || failed "benchmark"
  tail -n 12 "$output/$part.txt"
done
note "summary"
python3 "$bundle/summarize_tuning.py" "$output" "${parts[@]}" || failed "summary"
((failures == 0)) && note "all done: $output"
exit $((failures > 0))
