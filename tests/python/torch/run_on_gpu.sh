#!/bin/bash
# Installs a wheel beside a Python that has torch, and runs the tests that need both and a GPU.
#
#   tests/python/torch/run_on_gpu.sh WHEEL OUT [PYTHON]      PYTHON: python3, or one whose packages have torch
#
# Writes the times of the installation and of its first call to OUT/install.txt and OUT/first_call.txt, and the output of each test
# file to OUT/MODULE.txt. Unless TESTS_ONLY=1, also writes host_cost.json and llama.json. Tests take at most 4 minutes. The last lines
# show how each test file ended. Tests for a second GPU are skipped if there is none.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
examples=$here/../../../examples/python
wheel=$(realpath "$1")
out=$2
python=${3:-python3}
mkdir -p "$out"
out=$(realpath "$out")
environment=$(mktemp -d)
# The tests have their own database, kernels and locks, so the user's home neither affects them nor is changed by them.
export XDG_DATA_HOME=$environment/data XDG_CACHE_HOME=$environment/cache XDG_STATE_HOME=$environment/state
unset AUTOTUNE_DB AUTOTUNE_CACHE_DIR
start=$(date +%s.%N)
"$python" -m venv --without-pip "$environment" || exit 1
made=$(date +%s.%N)
"$python" -m pip --python "$environment/bin/python" install --quiet --no-index --no-deps --disable-pip-version-check "$wheel" || exit 1
installed=$(date +%s.%N)
env -u PYTHONPATH "$environment/bin/python" "$examples/first_call.py" | tee "$out/first_call.txt" || exit 1
called=$(date +%s.%N)
awk "BEGIN {printf \"environment %.2f s, pip install %.2f s, first call %.2f s\n\", $made - $start, $installed - $made, $called - $installed}" | tee "$out/install.txt"
PYTHONPATH=$(echo "$environment"/lib/python3*/site-packages)
export PYTHONPATH
cd "$here" || exit 1
failed=0

# run_tests SECONDS MODULE: writes the output to OUT/MODULE.txt and the exit code to OUT/MODULE.code.
run_tests() {
  timeout "$1" "$python" -m unittest -v "$2" >"$out/$2.txt" 2>&1
  echo $? >"$out/$2.code"
}

# Tests that need no GPU run in parallel with those that need one.
for module in test_meta test_attention test_transforms test_devices test_masks test_collect test_shims test_patch test_host_cost test_programs; do
  CUDA_VISIBLE_DEVICES='' run_tests 210 "$module" &
done
run_tests 100 test_gpu_answers
run_tests "${TEST_SECONDS:-130}" test_gpu
wait
if [ "${TESTS_ONLY:-0}" != 1 ]; then
  timeout 60 "$python" "$examples/host_cost.py" --json >"$out/host_cost.json" || failed=1
  timeout "${LLAMA_SECONDS:-300}" "$python" "$examples/llama_block.py" --json "$out/llama.json" | tee "$out/llama.txt" || failed=1
fi

echo "---- summary ----"
for module in test_gpu_answers test_gpu test_meta test_attention test_transforms test_devices test_masks test_collect test_shims test_patch test_host_cost test_programs; do
  code=$(cat "$out/$module.code")
  case $code in 0) end=ok ;; 124) end="not finished in time" ;; *) end="FAILED (exit $code)" ;; esac
  [ "$code" = 0 ] || failed=1
  ran=$(grep -E '^Ran ' "$out/$module.txt" | tail -n 1)
  echo "$module: $end; ${ran:-$(grep -cE '\.\.\. (ok|skipped)' "$out/$module.txt") tests ended well}; $(grep -cE '\.\.\. skipped' "$out/$module.txt") skipped"
  grep -E '^(FAIL|ERROR):|100 captures keep|^workspace of the product' "$out/$module.txt" | cut -c1-160
done
exit $failed
