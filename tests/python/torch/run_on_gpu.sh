#!/bin/bash
# Installs a wheel beside a Python that has torch and runs what needs both and a GPU.
#
#   tests/python/torch/run_on_gpu.sh WHEEL OUT [PYTHON]      PYTHON: python3, or one whose packages have torch
#
# Writes OUT/install.txt (what a fresh environment and its first call take), tests.txt, host_cost.json, llama.json.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
examples=$here/../../../examples/python
wheel=$(realpath "$1")
out=$2
python=${3:-python3}
mkdir -p "$out"
out=$(realpath "$out")
target=$(mktemp -d)
start=$(date +%s.%N)
"$python" -m pip install --quiet --no-index --no-deps --disable-pip-version-check --target "$target" "$wheel" || exit 1
installed=$(date +%s.%N)
export PYTHONPATH=$target
"$python" -c "
import torch, autotune
a = torch.ones(64, 64, device='cuda', dtype=torch.float16)
c = torch.empty_like(a)
autotune.gemm(a, a, c)
assert (c == 64).all()
print('first call:', autotune.default_handle().plan(autotune.Problem('gemm', dict(a=a, b=a, c=c))).candidate)
" || exit 1
called=$(date +%s.%N)
awk "BEGIN {printf \"pip install %.2f s, first product with imports %.2f s\n\", $installed - $start, $called - $installed}" | tee "$out/install.txt"
cd "$here" || exit 1
failed=0
timeout "${TEST_SECONDS:-300}" "$python" -m unittest -v test_meta test_attention test_gpu >"$out/tests.txt" 2>&1 || failed=1
tail -n 4 "$out/tests.txt"
timeout 60 "$python" "$examples/host_cost.py" --json >"$out/host_cost.json" || failed=1
timeout "${LLAMA_SECONDS:-300}" "$python" "$examples/llama_block.py" --json "$out/llama.json" | tee "$out/llama.txt" || failed=1
exit $failed
