#!/bin/bash
# Runs the unit tests of the sanitizer build, given its folder. 77, which ctest shows as skipped, if that build was never made.
set -euo pipefail
[ -f "$1/CTestTestfile.cmake" ] || { echo "no build in $1; tools/dev test makes it"; exit 77; }
exec ctest --test-dir "$1" --parallel 2 --label-regex '^unit$' --label-exclude 'install|large' --output-on-failure --no-tests=error
