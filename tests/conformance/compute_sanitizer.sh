#!/bin/bash
# compute_sanitizer.sh TOOL CONFORMANCE_TEST: runs every family's named configs on small problems under memcheck, synccheck or
# racecheck. Exits with 77 (skipped) without compute-sanitizer or without a GPU; with AUTOTUNE_REQUIRE_GPU=1 this is a failure.
set -uo pipefail
tool=$1
test=$2
has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ]; }
if ! command -v compute-sanitizer >/dev/null || ! has_gpu; then
  echo "no compute-sanitizer or no GPU" >&2
  [ "${AUTOTUNE_REQUIRE_GPU:-0}" = 1 ] && exit 1
  exit 77
fi
exec compute-sanitizer --tool "$tool" --error-exitcode 9 "$test" --gtest_brief=1 '--gtest_filter=*OnSmallProblems*'
