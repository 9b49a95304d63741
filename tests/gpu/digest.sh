#!/usr/bin/env bash
# Prints the SHA-256 of everything that shapes device code: the templates, and
# the sources that choose configs, generate instances and compile them. GPU
# evidence carries it; evidence of another digest is stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
shaping=(
  compile_options cost_correction cost_model cost_weights data_type form
  group_plan
  instance instruction kernel_name
  launch_arithmetic
  layout plan planner problem registers template_library tiling wgmma_source
)
{
  find templates -type f \( -name '*.h' -o -name '*.cu' \)
  for name in "${shaping[@]}"; do
    find jit -type f \( -name "$name.h" -o -name "$name.cc" \) |
      grep . || { echo "no $name.* in jit: update ${BASH_SOURCE[0]}" >&2; exit 1; }
  done
} | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum |
  cut -d ' ' -f 1
