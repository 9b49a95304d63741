#!/usr/bin/env bash
# Runs a command against a daemon of its own on a free loopback port and a Unix
# socket:
#   with_daemon.sh BUILD_DIR COMMAND...   adds "--target ADDRESS" to COMMAND
#
# GEMMD_UNIX=1 gives it the Unix socket's address. GEMMD_FLAGS holds further flags of the daemon, GEMMD_CACHE its cache folder
# (default: BUILD_DIR/test-cache, kept so that the next run compiles nothing).
# The exit code is the command's, or 1 when the daemon did not start or did not
# stop cleanly.
set -uo pipefail
build=$1
GEMMD_UNIX=${GEMMD_UNIX:-0}
shift
work=$(mktemp -d)
daemon=
# Ends the daemon whatever happens, and keeps its log out of the way.
trap '[[ $daemon ]] && kill "$daemon" 2>/dev/null; rm -rf "$work"' EXIT

# shellcheck disable=SC2086
"$build/service/gemmd" --listen="127.0.0.1:0,unix:$work/socket" --port-file="$work/port" \
  --cache-dir="${GEMMD_CACHE:-$build/test-cache}" ${GEMMD_FLAGS:-} \
  > "$work/log" 2>&1 &
daemon=$!
for ((i = 0; i < 300; i++)); do
  [[ -s $work/port ]] && break
  kill -0 "$daemon" 2>/dev/null || break
  sleep 0.1
done
if [[ ! -s $work/port ]]; then
  echo "the daemon did not start:"
  tail -n 40 "$work/log"
  exit 1
fi

line=$((GEMMD_UNIX + 1))
"$@" --target "$(sed -n "${line}p" "$work/port")"
code=$?
if ! kill -TERM "$daemon" 2>/dev/null; then
  echo "the daemon died:"
  tail -n 40 "$work/log"
  exit 1
fi
wait "$daemon"
stopped=$?
daemon=
if ((stopped != 0)); then
  echo "the daemon ended with code $stopped on SIGTERM:"
  tail -n 40 "$work/log"
  exit 1
fi
exit "$code"
