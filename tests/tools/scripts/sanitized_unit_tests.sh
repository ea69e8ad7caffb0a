#!/bin/bash
# Runs tests of the sanitizer build, given its folder: those that are SANITIZED, or, with a second word "all", every unit test.
# 77, which ctest shows as skipped, if that build was never made.
set -euo pipefail
[ -f "$1/CTestTestfile.cmake" ] || { echo "no build in $1; tools/dev test makes it"; exit 77; }
label='^sanitized$'
[ "${2:-}" != all ] || label='^unit$'
exec ctest --test-dir "$1" --parallel 2 --label-regex "$label" --label-exclude 'install|large' --output-on-failure --no-tests=error
