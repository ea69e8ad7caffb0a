#!/bin/bash
# Runs every GPU test and benchmark from prebuilt binaries. It builds nothing, and needs only the binaries, a driver and NVRTC.
#
#   benchmarks/scripts/gpu_suite.sh OUT [PIECE...]
#
# Pieces that run by default: doctor tests tune bench host sweep. Other pieces: proofs sanitizer speed record regret meter counters
# families catalogue add sets stream longer rivals. The last five use the winners in OUT/suite.db.
#
# Each part writes a log to OUT, and JSON if it has any. A short table is printed at the end. If a part fails, this is reported, the
# other parts run, and the exit code is 1. With an empty cache the default pieces take a quarter of an hour, of which conformance
# takes six minutes.
#   AUTOTUNE_SUITE_BUILD    build folder; default build/portable, else build/release
#   AUTOTUNE_SUITE_SECONDS  time for everything; default 1200
#   AUTOTUNE_SUITE_BUDGET   budget of a tune in `sets`; default 3s
#   AUTOTUNE_SUITE_LONGER   budget of a tune in `longer`; default 12s
#   AUTOTUNE_SUITE_AHEAD    ratio to the best rival below which `longer` tunes again; default 1.02
#   AUTOTUNE_SUITE_SETS     sets of benchmarks/sets for `sets`, `stream`, `longer` and `rivals`; default all
#   AUTOTUNE_SUITE_ROUNDS   rounds of a table of a set; default 12
#   AUTOTUNE_SUITE_WARM     seconds of load before these rounds; default 0.7
#   AUTOTUNE_SUITE_BLOCKS   blocks of a second for each row of such a table, with joules per launch; default 0
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:?usage: benchmarks/scripts/gpu_suite.sh OUT [PIECE...]}
shift
pieces=${*:-doctor tests tune bench host sweep}
build=${AUTOTUNE_SUITE_BUILD:-}
if [ -z "$build" ]; then
  for build in "$root/build/portable" "$root/build/release"; do [ -x "$build/tools/autotune" ] && break; done
fi
autotune=$build/tools/autotune
[ -x "$autotune" ] || { echo "gpu-suite: $autotune is not there; run tools/dev portable first" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)

# A missing GPU is a failure here. Files of this machine's user are neither changed nor reused.
export AUTOTUNE_REQUIRE_GPU=1 AUTOTUNE_TEST_DATA=$root/tests/data
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME=$home XDG_DATA_HOME=$home/data XDG_CACHE_HOME=$home/cache XDG_STATE_HOME=$home/state
unset AUTOTUNE_DB AUTOTUNE_CACHE_DIR
# NVRTC from a wheel that tools/dev has fetched, if there is one.
nvrtc=$(find "$root/build/cuda" -name 'libnvrtc.so.*' -print -quit 2>/dev/null)
if [ -n "$nvrtc" ]; then export AUTOTUNE_NVRTC=${AUTOTUNE_NVRTC:-$nvrtc}; fi

started=$SECONDS
limit=${AUTOTUNE_SUITE_SECONDS:-1200}
failures=0
table=

now_ms() { date +%s%3N; }

note() { # NAME RESULT MILLISECONDS DETAIL
  table+=$(printf '%-34s %-8s %9s ms  %s' "$1" "$2" "$3" "$4")$'\n'
  echo "gpu-suite: $1: $2 ($3 ms) $4" >&2
}

# part NAME SECONDS EXPECTED-EXIT COMMAND...: runs one part, which gives one row of the table. Standard output goes to
# OUT/NAME.out, errors to OUT/NAME.err.
part() {
  local name=$1 seconds=$2 expected=$3
  shift 3
  local left=$((limit - (SECONDS - started)))
  if [ "$left" -le 5 ]; then
    note "$name" "no time" 0 "AUTOTUNE_SUITE_SECONDS is used up"
    failures=$((failures + 1))
    return 1
  fi
  [ "$seconds" -gt "$left" ] && seconds=$left
  local from code
  from=$(now_ms)
  timeout --preserve-status "--signal=${stop_signal:-INT}" --kill-after=10 "$seconds" "$@" >"$out/$name.out" 2>"$out/$name.err"
  code=$?
  local took=$(($(now_ms) - from))
  if [ "$code" -eq "$expected" ]; then
    note "$name" ok "$took" "$(summary "$name")"
    return 0
  fi
  failures=$((failures + 1))
  note "$name" FAILED "$took" "exit $code; $(tail -n 1 "$out/$name.err" | cut -c1-120)"
  return 1
}

# The most informative line of a part's output.
summary() {
  grep -hE '^\[  (PASSED|FAILED|SKIPPED) ' "$out/$1.out" 2>/dev/null | head -n 2 | tr '\n' ' ' | cut -c1-80
}

piece_doctor() { part doctor 60 0 "$autotune" doctor --require-gpu; }

piece_tests() {
  local binary
  while IFS= read -r binary; do
    part "test-$(basename "$binary")" 600 0 "$binary" --gtest_brief=1 "--gtest_output=json:$out/$(basename "$binary").json"
  done < <(find "$build/tests" -maxdepth 3 -type f -executable \( -name '*gpu_test*' -o -name '*device_test*' \) | sort)
}

# The same tests and more, with many processes at a time, and a check of every shipped winner's result. Nothing is timed.
piece_proofs() { part proofs 600 0 "$root/benchmarks/scripts/gpu_proofs.py" "$out/proofs" --build "$build"; }

# Runs every family's named configs on small problems.
piece_sanitizer() {
  local tool
  for tool in memcheck synccheck; do
    part "sanitizer-$tool" 120 0 "$root/tests/conformance/compute_sanitizer.sh" "$tool" "$build/tests/conformance/conformance_gpu_test"
  done
}

# Runs the first command of the README with an empty database and cache, and then again.
piece_tune() {
  local problem=(--op hgemm --shape 4096x4096x2048)
  part tune-first 100 0 "$autotune" "${problem[@]}"
  part tune-second 20 0 "$autotune" "${problem[@]}"
  part tune-second-json 20 0 "$autotune" "${problem[@]}" --json
  part explain 20 0 "$autotune" explain "${problem[@]}"
}

piece_bench() {
  part tune-8192 100 0 "$autotune" --op hgemm --shape 8192x8192x8192
  part bench-text 60 0 "$autotune" bench --op hgemm --shape 4096x4096x2048 --against cublas,cublaslt
  part bench-json 90 0 "$autotune" bench --op hgemm --shape 4096x4096x2048 --shape 8192x8192x8192 --against cublas,cublaslt --json
  part bench-mma-tune 100 0 "$autotune" --op hgemm --shape 4096x4096x2048 --family gemm/mma --db "$home/mma.db" --budget 25s
  part bench-mma-json 60 0 "$autotune" bench --op hgemm --shape 4096x4096x2048 --family gemm/mma --db "$home/mma.db" \
    --against cublas,cublaslt --json
}

piece_host() {
  local binary
  while IFS= read -r binary; do
    part "host-$(basename "$binary")" 60 0 "$binary"
  done < <(find "$build" -maxdepth 4 -type f -executable -name '*host_cost*' | sort)
}

# Sweeps twelve shapes. The sweep is killed once and then run to the end; it must not tune a shape twice.
piece_sweep() {
  local sweep=(sweep --op hgemm --shapes "1024:4096:1024x4096x1024,2048,4096" --budget 6s --json)
  stop_signal=KILL part sweep-killed 45 137 "$autotune" "${sweep[@]}"
  part sweep-resumed 200 0 "$autotune" "${sweep[@]}"
  part sweep-again 30 0 "$autotune" "${sweep[@]}"
  part sweep-export 20 0 "$autotune" export --out "$out/winners.jsonl"
  part show 20 0 "$autotune" show --json
}

# Shows how a tune spends its time: with nothing compiled, with everything compiled, for another shape after that, for a sweep,
# and for a large problem.
piece_speed() {
  local problem=(--op hgemm --shape 4096x4096x2048 --json)
  AUTOTUNE_CACHE_DIR=$home/cold part speed-cold 100 0 "$autotune" "${problem[@]}" --db "$home/cold.db"
  AUTOTUNE_CACHE_DIR=$home/cold part speed-warm 100 0 "$autotune" "${problem[@]}" --db "$home/warm.db"
  part speed-large 100 0 "$autotune" --op hgemm --shape 16384x16384x8192 --json --db "$home/large.db" --budget 12s
  part speed-sweep 150 0 "$autotune" sweep --op hgemm --shapes 2048,4096x4096x1024,4096 --json --db "$home/sweep.db"
  python3 "$root/benchmarks/scripts/tune_phases.py" "$out"/speed-*.out | tee "$out/phases.txt"
}

# Runs COMMAND FAMILY for a subspace of each family with some 400 to 700 configs.
for_each_subspace() {
  "$1" wgmma raster=0 group=8 split_k=1 block_k=64 cluster_n=1 cluster_k=1 pdl=1 prefetch_steps=0 epilogue_stages=2
  "$1" mma raster=0 swizzle_stride=0 split_k=1 smem_swizzle=1 reg_buffers=2 min_blocks=1 split_barrier=0 block_k=32
  "$1" wmma wmma_m=16 raster=0 swizzle_stride=0 min_blocks=1 dsmem=1 smem_pad=8 block_k=32 cp_async=1
}
subspace() { # FAMILY PIN...: into the array `space`
  space=(--op hgemm --shape 2048x2048x2048 --family "$1")
  local pin
  for pin in "${@:2}"; do space+=(--param "$pin"); done
}

# Records a whole subspace, on which strategies can be replayed (tests/data/search_spaces), and tunes in the same subspace.
record_and_tune() {
  subspace "$@"
  part "record-$1" 200 0 "$autotune" record "${space[@]}" --out "$out/$1_h200.json"
  part "recorded-tune-$1" 60 0 "$autotune" "${space[@]}" --json --db "$home/$1.db"
}
piece_record() {
  for_each_subspace record_and_tune
  python3 "$root/benchmarks/scripts/meter_report.py" regret "$out"/recorded-tune-*.out -- "$out"/*_h200.json | tee "$out/regret.txt"
}

# Shows how much a search misses: tunes in each subspace, then tries all of it. The tune's winner also runs in the final rounds of
# that. Recorded times are not used, because they are short and from a card at rest; final rounds run under load.
tune_and_exhaust() {
  subspace "$@"
  part "regret-tune-$1" 60 0 "$autotune" "${space[@]}" --json --db "$home/regret-$1.db"
  part "regret-all-$1" 200 0 "$autotune" "${space[@]}" --json --db "$home/regret-$1.db" --retune --strategy exhaustive \
    --patience 1000000 --budget 180s
  python3 "$root/benchmarks/scripts/meter_report.py" exhausted "$out/regret-tune-$1.out" "$out/regret-all-$1.out" | tee -a "$out/exhausted.txt"
}
piece_regret() { for_each_subspace tune_and_exhaust; }

# Shows whether the meter can be trusted: equal and slower twins, two tunes of eight shapes, and a winner next to the vendor's
# library in another process.
piece_meter() {
  local shapes=1024,2048x2048,4096x1024,4096
  part meter-twins 150 0 "$build/benchmarks/meter_proof"
  for seed in 1 2; do
    part "meter-sweep-$seed" 100 0 "$autotune" sweep --op hgemm --shapes "$shapes" --seed "$seed" --json --db "$home/meter$seed.db"
    part "meter-export-$seed" 20 0 "$autotune" export --db "$home/meter$seed.db"
  done
  # If two tunes have different winners, the winners race; the first tune's parameters are pinned.
  local duel number=0
  while read -r -a duel; do
    number=$((number + 1))
    part "meter-duel-$number" 40 0 "$autotune" bench --op hgemm "${duel[@]}" --json --db "$home/meter2.db"
  done < <(python3 "$root/benchmarks/scripts/meter_report.py" duels "$out"/meter-export-[12].out)
  part meter-bench 40 0 "$autotune" bench --op hgemm --shape 2048x4096x4096 --against cublas --json --db "$home/meter1.db"
  python3 "$root/benchmarks/scripts/tune_phases.py" "$out"/meter-sweep-[12].out | tee "$out/meter-phases.txt"
  python3 "$root/benchmarks/scripts/meter_report.py" agreement "$out"/meter-export-[12].out $(find "$out" -name 'meter-duel-*.out') | tee "$out/agreement.txt"
  python3 "$root/benchmarks/scripts/meter_report.py" fresh "$out/meter-export-1.out" "$out/meter-bench.out" | tee -a "$out/agreement.txt"
}

# Times each family's best named config for the 27 classic shapes, with both accumulators, next to the vendor's library.
piece_catalogue() {
  local op
  for op in hgemm hgemm_f16acc; do
    part "catalogue-$op" 400 0 "$autotune" bench --op "$op" --shapes "4096,8192,16384x4096,8192,16384x2048,4096,8192" --best-of-family \
      --against cublas,cublaslt --rounds 10 --warm 0.3 --budget 12s --csv
  done
}

# The library, under whichever of its names it was copied here.
library=$(find "$build/src/runtime" -name 'libautotune.so*' -type f -print -quit)

# Hardware counters for the series of named configs.
piece_counters() { part counters 200 0 python3 "$root/benchmarks/scripts/ladder_counters.py" "$autotune" --json "$out/counters.json"; }

# These pieces continue where an earlier run ended: copy OUT/suite.db back, and pass the same OUT.
suite_db=$out/suite.db

# Checks whether a search in each family finds a config that is at least as fast as the family's best named config, in the same
# rounds.
piece_families() {
  local family problem=(--op hgemm --shape 4096x4096x4096)
  for family in simt wmma mma wgmma; do
    part "families-tune-$family" 60 0 "$autotune" "${problem[@]}" --family "$family" --json --db "$home/families.db"
    part "families-bench-$family" 120 0 "$autotune" bench "${problem[@]}" --family "$family" --named --racers 3 --json \
      --db "$home/families.db"
    python3 "$root/benchmarks/scripts/meter_report.py" named "$out/families-bench-$family.out" | tee -a "$out/families.txt"
  done
}

# Op add: tunes a winner for each length at which torch is compared, then compares.
piece_add() {
  local op
  for op in sadd hadd; do
    part "add-sweep-$op" 120 0 "$autotune" sweep --op "$op" --budget 4s --json --db "$suite_db" \
      --shapes 65536,131072,262144,524288,1048576,2097152,4194304,8388608,16777216,268435456
  done
  AUTOTUNE_DB=$suite_db part add-torch 200 0 python3 "$root/benchmarks/rivals/torch_add.py" --library "$library" --json "$out/add.json" \
    --shapes 268435456,256x256,256x512,512x512,512x1024,1024x1024,1024x2048,2048x2048,2048x4096,4096x4096
}

sets=${AUTOTUNE_SUITE_SETS:-classic prefill decode decode_large small adverse}

# Times all problems of a set next to the vendor's libraries, in sustained blocks, and plots them.
bench_set() {
  part "sets-bench-$1" 400 0 "$autotune" bench --shapes "$root/benchmarks/sets/$1.txt" --winner-only --against cublas,cublaslt \
    --rounds "${AUTOTUNE_SUITE_ROUNDS:-12}" --warm "${AUTOTUNE_SUITE_WARM:-0.7}" --blocks "${AUTOTUNE_SUITE_BLOCKS:-0}" --json \
    --plot "$out/$1.svg" --db "$suite_db"
}

# For winners that will be shipped: a lead of 0.2 % counts.
sweep_shapes() { # PART SECONDS SHAPES BUDGET [FLAG...]
  part "$1" "$2" 0 "$autotune" sweep --shapes "$3" --json --db "$suite_db" --budget "$4" --finalists 16 --tie-gap 0.2 "${@:5}"
}
export_winners() { part sets-export 20 0 "$autotune" export --out "$out/winners.jsonl" --db "$suite_db"; }

# Tunes winners for the sets, then times them.
piece_sets() {
  local set
  for set in $sets; do
    sweep_shapes "sets-sweep-$set" 300 "$root/benchmarks/sets/$set.txt" "${AUTOTUNE_SUITE_BUDGET:-3s}"
    bench_set "$set"
  done
  export_winners
}

# Tunes nothing: times existing winners (shipped ones if OUT has no suite.db) next to the vendor's libraries.
piece_stream() {
  local set tables=()
  for set in $sets; do
    bench_set "$set"
    tables+=("$out/sets-bench-$set.out")
  done
  python3 "$root/benchmarks/scripts/set_ratios.py" --rows "${tables[@]}" >"$out/ratios.md"
  grep -m "$((${#tables[@]} + 2))" '^|' "$out/ratios.md"
}

# Tunes again, and longer, the problems of a set's table in which some rival is faster; then makes the table again.
piece_longer() {
  local set
  for set in $sets; do
    [ -s "$out/sets-bench-$set.out" ] || bench_set "$set"
    python3 "$root/benchmarks/scripts/behind.py" "$root/benchmarks/sets/$set.txt" "$out/sets-bench-$set.out" \
      --ahead "${AUTOTUNE_SUITE_AHEAD:-1.02}" >"$out/behind-$set.txt"
    [ -s "$out/behind-$set.txt" ] || continue
    sweep_shapes "longer-sweep-$set" 500 "$out/behind-$set.txt" "${AUTOTUNE_SUITE_LONGER:-12s}" --retune --patience 1000
    bench_set "$set"
  done
  export_winners
}

# The same next to torch and Triton, which take minutes to tune: name few sets.
piece_rivals() {
  local set
  for set in $sets; do
    AUTOTUNE_DB=$suite_db part "rivals-$set" 500 0 python3 "$root/benchmarks/rivals/gemm.py" --library "$library" \
      --shapes "$root/benchmarks/sets/$set.txt" --json "$out/rivals-$set.json"
  done
}

for piece in $pieces; do
  if declare -F "piece_$piece" >/dev/null; then
    "piece_$piece"
  else
    echo "gpu-suite: there is no piece '$piece'" >&2
    failures=$((failures + 1))
  fi
done
echo
printf '%s' "$table" | tee "$out/table.txt"
echo "$failures failed, $((SECONDS - started)) s"
[ "$failures" -eq 0 ]
