#!/bin/bash
# Makes the table of models on one GPU within a given time. Several models run at once: one measures while the others compile code.
#
#   benchmarks/models/all_models.sh OUT [NAME[:STEP[:MODE,...[:ROUNDS]]]]...
#
# NAME is a model of zoo.py; STEP is infer (the default) or train. ROUNDS measures a cell again, with this many rounds, even if it has
# a result: use it for cells whose interval is too wide.
# Run the script again with the same OUT until nothing is missing. Cells that have a result are not measured again. SEED=FILE (JSON
# lines of an earlier run) gives further results.
#   PYTHON=python3            a Python with torch, transformers and timm. The package autotune is in PYTHONPATH, or WHEEL=FILE
#                             installs it.
#   SECONDS_IN_ALL=500        after this time no model is started, and running ones are ended
#   JOBS=3 ROUNDS=15 BLOCK=0.06 BUDGET=1s TOTAL_BUDGET=15s TRAIN_BUDGET=25s DEVICE=cuda TINY= (--tiny: for a test of this script)
# Writes OUT/models.jsonl, OUT/NAME.log and OUT/table.txt. At the end it prints what is missing, the errors and the table.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
begun=$(date +%s)
out=$1; shift
mkdir -p "$out"; out=$(realpath "$out")
python=${PYTHON:-python3} all=${SECONDS_IN_ALL:-500} device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# All models share a database and caches of their own.
export XDG_DATA_HOME=$work/data XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/state TORCHINDUCTOR_CACHE_DIR=$work/inductor
export PYTHONUNBUFFERED=1 TORCHINDUCTOR_COMPILE_THREADS=${COMPILE_THREADS:-4} TOKENIZERS_PARALLELISM=false
unset AUTOTUNE_DB AUTOTUNE_CACHE_DIR
if [ -n "${WHEEL:-}" ]; then
  "$python" -m pip install -q --no-index --no-deps --disable-pip-version-check --target "$work/site" "$WHEEL" || exit 1
  export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
fi
touch "$out/models.jsonl"
[ -n "${SEED:-}" ] && cat "$SEED" >> "$out/models.jsonl"
# Models that were never measured come first, and of these the longest first.
[ $# -gt 0 ] || set -- mixtral modernbert dinov2 llama3_8b gemma2_9b mistral_7b qwen2_7b phi3_mini whisper_large clip_large flux_block \
  bert_large:train llama3_8b:train vit_large:train bert_large t5_large gpt2_medium vit_large

left() { echo $((all - ($(date +%s) - begun))); }

run_model() {  # NAME[:STEP[:MODE,...[:ROUNDS]]]
  local name step modes rounds budget seconds
  IFS=: read -r name step modes rounds <<< "$1"
  step=${step:-infer} budget=${TOTAL_BUDGET:-15s}
  [ "$step" = train ] && budget=${TRAIN_BUDGET:-25s}
  seconds=$(left)
  [ "$seconds" -gt 25 ] || return
  timeout -k 5 "$seconds" "$python" models.py "$name" --step "$step" --device "$device" ${modes:+--mode "$modes"} ${TINY:-} --rounds "${rounds:-${ROUNDS:-15}}" ${rounds:+--again} \
    --block "${BLOCK:-0.06}" --budget "${BUDGET:-1s}" --total-budget "$budget" --lock "$work/lock" --out "$out/models.jsonl" --verbose >> "$out/$name.$step.log" 2>&1
  echo "ended with $? after $(($(date +%s) - begun)) s in all" >> "$out/$name.$step.log"
}

for each in "$@"; do
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-3}" ]; do wait -n; done
  run_model "$each" &
done
wait
echo "took $(($(date +%s) - begun)) s"
for each in "$@"; do
  IFS=: read -r name step modes rounds <<< "$each"
  log=$out/$name.${step:-infer}.log
  if [ ! -e "$log" ]; then
    echo "missing: $each: no time was left"
  elif ! grep -q "^ended with 0 " "$log"; then
    echo "missing: $each: $(tail -n 1 "$log")"
  fi
done
grep -hE "FAILED|^[A-Za-z.]*Error|Warning: autotune" "$out"/*.log | cut -c1-220 | sort | uniq -c | sort -rn | head -30
"$python" models.py --table "$out/models.jsonl" > "$out/table.txt"
cat "$out/table.txt"
