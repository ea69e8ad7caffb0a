#!/bin/bash
# Every GPU test and benchmark, from prebuilt binaries; builds nothing and needs nothing but them, a driver and NVRTC.
#
#   benchmarks/scripts/gpu_suite.sh OUT [PIECE...]     pieces: doctor tests tune bench host sweep, by default these; and proofs sanitizer speed record regret
#                                         meter counters families catalogue; and add sets stream longer rivals, which go on from
#                                         the winners in OUT/suite.db
#
# Writes a log, and JSON where a piece has it, for each part into OUT, and prints a short table last. A part that fails is reported
# and the rest go on. Exit 1 if one failed. The default pieces take a quarter of an hour with nothing compiled, conformance alone six
# minutes.
#   AUTOTUNE_SUITE_BUILD    build folder; default build/portable, else build/release
#   AUTOTUNE_SUITE_SECONDS  time for everything; default 1200
#   AUTOTUNE_SUITE_BUDGET   of a tune in `sets`; default 3s
#   AUTOTUNE_SUITE_LONGER   of a tune in `longer`; default 12s
#   AUTOTUNE_SUITE_AHEAD    ratio to the best rival below which `longer` tunes again; default 1.02
#   AUTOTUNE_SUITE_SETS     sets of benchmarks/sets for `sets`, `stream`, `longer` and `rivals`; default all
#   AUTOTUNE_SUITE_ROUNDS   of a table of a set; default 12; AUTOTUNE_SUITE_WARM: seconds of load before them; default 0.7
#   AUTOTUNE_SUITE_BLOCKS   blocks of a second for each row of such a table, with joules a launch; default 0
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

# A missing GPU is a failure here, and nothing of this machine's user is touched or reused.
export AUTOTUNE_REQUIRE_GPU=1 AUTOTUNE_TEST_DATA=$root/tests/data
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME=$home XDG_DATA_HOME=$home/data XDG_CACHE_HOME=$home/cache XDG_STATE_HOME=$home/state
unset AUTOTUNE_DB AUTOTUNE_CACHE_DIR
# A wheel's NVRTC, where tools/dev fetched one.
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

# part NAME SECONDS EXPECTED-EXIT COMMAND...: one row of the table; standard output in OUT/NAME.out, errors in OUT/NAME.err.
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

# One line worth reading out of a part's output.
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

# The same and more, many processes at a time, with every shipped winner's answer: nothing of it is timed.
piece_proofs() { part proofs 600 0 "$root/benchmarks/scripts/gpu_proofs.py" "$out/proofs" --build "$build"; }

# Every family's named configs on small problems.
piece_sanitizer() {
  local tool
  for tool in memcheck synccheck; do
    part "sanitizer-$tool" 120 0 "$root/tests/conformance/compute_sanitizer.sh" "$tool" "$build/tests/conformance/conformance_gpu_test"
  done
}

# The first README command with nothing stored and nothing compiled, and the same again.
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

# Twelve shapes, killed once after a while, and again to the end: nothing may be tuned twice.
piece_sweep() {
  local sweep=(sweep --op hgemm --shapes "1024:4096:1024x4096x1024,2048,4096" --budget 6s --json)
  stop_signal=KILL part sweep-killed 45 137 "$autotune" "${sweep[@]}"
  part sweep-resumed 200 0 "$autotune" "${sweep[@]}"
  part sweep-again 30 0 "$autotune" "${sweep[@]}"
  part sweep-export 20 0 "$autotune" export --out "$out/winners.jsonl"
  part show 20 0 "$autotune" show --json
}

# Where the time of a tune goes: nothing compiled, everything compiled, another shape after it, a sweep, and a large problem.
piece_speed() {
  local problem=(--op hgemm --shape 4096x4096x2048 --json)
  AUTOTUNE_CACHE_DIR=$home/cold part speed-cold 100 0 "$autotune" "${problem[@]}" --db "$home/cold.db"
  AUTOTUNE_CACHE_DIR=$home/cold part speed-warm 100 0 "$autotune" "${problem[@]}" --db "$home/warm.db"
  part speed-large 100 0 "$autotune" --op hgemm --shape 16384x16384x8192 --json --db "$home/large.db" --budget 12s
  part speed-sweep 150 0 "$autotune" sweep --op hgemm --shapes 2048,4096x4096x1024,4096 --json --db "$home/sweep.db"
  python3 "$root/benchmarks/scripts/tune_phases.py" "$out"/speed-*.out | tee "$out/phases.txt"
}

# A subspace of a family of some 400 to 700 configs: COMMAND FAMILY.
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

# A subspace in full, for replaying strategies on it (tests/data/search_spaces), and a tune of the same subspace.
record_and_tune() {
  subspace "$@"
  part "record-$1" 200 0 "$autotune" record "${space[@]}" --out "$out/$1_h200.json"
  part "recorded-tune-$1" 60 0 "$autotune" "${space[@]}" --json --db "$home/$1.db"
}
piece_record() {
  for_each_subspace record_and_tune
  python3 "$root/benchmarks/scripts/meter_report.py" regret "$out"/recorded-tune-*.out -- "$out"/*_h200.json | tee "$out/regret.txt"
}

# What a search misses: a tune of each subspace, then all of it, whose final rounds the tune's winner is in too. A recorded time is
# short and of a card at rest; these are raced under load.
tune_and_exhaust() {
  subspace "$@"
  part "regret-tune-$1" 60 0 "$autotune" "${space[@]}" --json --db "$home/regret-$1.db"
  part "regret-all-$1" 200 0 "$autotune" "${space[@]}" --json --db "$home/regret-$1.db" --retune --strategy exhaustive \
    --patience 1000000 --budget 180s
  python3 "$root/benchmarks/scripts/meter_report.py" exhausted "$out/regret-tune-$1.out" "$out/regret-all-$1.out" | tee -a "$out/exhausted.txt"
}
piece_regret() { for_each_subspace tune_and_exhaust; }

# Whether the meter can be believed: equal and slower twins, two tunes of eight shapes, a winner beside the vendor's library in a
# process of its own.
piece_meter() {
  local shapes=1024,2048x2048,4096x1024,4096
  part meter-twins 150 0 "$build/benchmarks/meter_proof"
  for seed in 1 2; do
    part "meter-sweep-$seed" 100 0 "$autotune" sweep --op hgemm --shapes "$shapes" --seed "$seed" --json --db "$home/meter$seed.db"
    part "meter-export-$seed" 20 0 "$autotune" export --db "$home/meter$seed.db"
  done
  # Winners that differ race: the first tune's, its parameters held, beside the second's.
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

# Each family's best named config for the classic 27 shapes, both sums, beside the vendor's.
piece_catalogue() {
  local op
  for op in hgemm hgemm_f16acc; do
    part "catalogue-$op" 400 0 "$autotune" bench --op "$op" --shapes "4096,8192,16384x4096,8192,16384x2048,4096,8192" --best-of-family \
      --against cublas,cublaslt --rounds 10 --warm 0.3 --budget 12s --csv
  done
}

# The library, whatever of its names was carried here.
library=$(find "$build/src/runtime" -name 'libautotune.so*' -type f -print -quit)

# Hardware counters of the ladder of named configs.
piece_counters() { part counters 200 0 python3 "$root/benchmarks/scripts/ladder_counters.py" "$autotune" --json "$out/counters.json"; }

# What these leave goes on where a run before them ended: bring OUT/suite.db back, and name the same OUT.
suite_db=$out/suite.db

# Whether the search finds, in each family, what is at least as fast as its best named config: both in the same rounds.
piece_families() {
  local family problem=(--op hgemm --shape 4096x4096x4096)
  for family in simt wmma mma wgmma; do
    part "families-tune-$family" 60 0 "$autotune" "${problem[@]}" --family "$family" --json --db "$home/families.db"
    part "families-bench-$family" 120 0 "$autotune" bench "${problem[@]}" --family "$family" --named --racers 3 --json \
      --db "$home/families.db"
    python3 "$root/benchmarks/scripts/meter_report.py" named "$out/families-bench-$family.out" | tee -a "$out/families.txt"
  done
}

# Op add: a winner for each length that torch is compared at, then the comparison.
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

# All of a set beside the vendor's libraries, sustained, and its plot.
bench_set() {
  part "sets-bench-$1" 400 0 "$autotune" bench --shapes "$root/benchmarks/sets/$1.txt" --winner-only --against cublas,cublaslt \
    --rounds "${AUTOTUNE_SUITE_ROUNDS:-12}" --warm "${AUTOTUNE_SUITE_WARM:-0.7}" --blocks "${AUTOTUNE_SUITE_BLOCKS:-0}" --json \
    --plot "$out/$1.svg" --db "$suite_db"
}

# Winners that are shipped: a lead of 0.2 % counts.
sweep_shapes() { # PART SECONDS SHAPES BUDGET [FLAG...]
  part "$1" "$2" 0 "$autotune" sweep --shapes "$3" --json --db "$suite_db" --budget "$4" --finalists 16 --tie-gap 0.2 "${@:5}"
}
export_winners() { part sets-export 20 0 "$autotune" export --out "$out/winners.jsonl" --db "$suite_db"; }

# Winners for the sets, then the tables.
piece_sets() {
  local set
  for set in $sets; do
    sweep_shapes "sets-sweep-$set" 300 "$root/benchmarks/sets/$set.txt" "${AUTOTUNE_SUITE_BUDGET:-3s}"
    bench_set "$set"
  done
  export_winners
}

# The winners there are, shipped ones where OUT has no suite.db, beside the vendor's libraries: nothing is tuned.
piece_stream() {
  local set tables=()
  for set in $sets; do
    bench_set "$set"
    tables+=("$out/sets-bench-$set.out")
  done
  python3 "$root/benchmarks/scripts/set_ratios.py" --rows "${tables[@]}" >"$out/ratios.md"
  grep -m "$((${#tables[@]} + 2))" '^|' "$out/ratios.md"
}

# What is not ahead of every rival in a set's table, tuned once more and longer, then the table again.
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

# The same beside torch and Triton, which take minutes to tune: name few sets.
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
