#!/usr/bin/env bash
# Round trips and transfers over TLS beside plaintext: one daemon on the host
# device each way, over loopback, three times in turn.
#
#   tests/bench/latency/tls.sh BUILD_FOLDER
set -euo pipefail
build=$1
work=$(mktemp -d)
daemons=()
trap 'kill "${daemons[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 \
  -subj /CN=localhost -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" \
  -keyout "$work/key" -out "$work/cert" 2>/dev/null
flags=(--device=host --listen=127.0.0.1:0 "--cache-dir=$work/cache")
for way in plaintext tls; do
  [[ $way == tls ]] &&
    flags+=("--tls-certificate-file=$work/cert" "--tls-key-file=$work/key")
  "$build/service/gemmd" "${flags[@]}" --port-file="$work/$way" \
    2> "$work/$way.log" &
  daemons+=($!)
  until [[ -s $work/$way ]]; do sleep 0.1; done
done
for round in 1 2 3; do
  for way in plaintext tls; do
    echo "== $way, round $round"
    ca=
    [[ $way == tls ]] && ca=$work/cert
    GEMMD_CA_FILE=$ca "$build/tests/bench/latency/latency" \
      --target="$(head -n 1 "$work/$way")" --compiles=false --side=64 \
      --requests=5000 --transfers=15
  done
done
