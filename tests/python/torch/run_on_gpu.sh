#!/bin/bash
# Installs a wheel beside a Python that has torch and runs what needs both and a GPU.
#
#   tests/python/torch/run_on_gpu.sh WHEEL OUT [PYTHON]      PYTHON: python3, or one whose packages have torch
#
# Writes OUT/install.txt and first_call.txt (what a fresh environment and its first call take), tests.txt, host_cost.json, llama.json.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
examples=$here/../../../examples/python
wheel=$(realpath "$1")
out=$2
python=${3:-python3}
mkdir -p "$out"
out=$(realpath "$out")
environment=$(mktemp -d)
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
timeout "${TEST_SECONDS:-300}" "$python" -m unittest -v test_meta test_attention test_gpu >"$out/tests.txt" 2>&1 || failed=1
tail -n 4 "$out/tests.txt"
timeout 60 "$python" "$examples/host_cost.py" --json >"$out/host_cost.json" || failed=1
timeout "${LLAMA_SECONDS:-300}" "$python" "$examples/llama_block.py" --json "$out/llama.json" | tee "$out/llama.txt" || failed=1
exit $failed
