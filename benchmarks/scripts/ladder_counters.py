#!/usr/bin/env python3
"""Hardware counters of named configs, from naive to the best, as a Markdown table: why each step of the ladder is faster.

    benchmarks/scripts/ladder_counters.py AUTOTUNE [--op hgemm] [--shape 4096x4096x2048] [--json FILE] [CONFIG...]

Needs Nsight Compute's `ncu` and the right to read counters. Each config is profiled alone, in the fourth launch of its kernel (after
the first run and the runs that verify it), at the clock that ncu holds the card to.
"""
import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile

LADDER = """naive sliced_k t_4x4_sliced_k_f16x4_pack_bcf t_8x8_sliced_k_f16x4 t_8x8_sliced_k_f16x4_pack
t_16x8_sliced_k32_f16x8_pack_dbuf_async wmma_m16n16k16_mma4x2 wmma_m16n16k16_mma4x2_warp2x4 wmma_m16n16k16_mma4x2_warp2x4_async
wmma_m16n16k16_mma4x2_warp2x4_async_offset wmma_m16n16k16_mma4x2_warp2x4_dbuf_async_offset wmma_m16n16k16_mma4x2_warp2x4_stage3
wmma_m16n16k16_mma4x2_warp2x4_stage3_swizzle1024 mma_m16n8k16_mma2x4_warp4x4_smem_swizzle_stage4_dsmem
mma_m16n8k16_mma2x4_warp4x4x2_smem_swizzle_rbuf_stage5_dsmem_swizzle1024 wgmma_coop_128x256x64 wgmma_pingpong_128x128x64""".split()

# For each counter: its base name, its reduction, the column's head, and the factor to the column's unit.
COUNTERS = [
    ("gpu__time_duration", ".sum", "us", None),
    ("sm__cycles_elapsed", ".max", "kcycles", 1e-3),
    ("sm__inst_executed", ".sum", "M instructions", 1e-6),
    ("smsp__issue_active", ".avg.pct_of_peak_sustained_active", "issue slots %", 1),
    ("sm__inst_executed_pipe_tensor", ".avg.pct_of_peak_sustained_active", "tensor pipe (instructions) %", 1),
    ("sm__pipe_tensor_cycles_active", ".avg.pct_of_peak_sustained_active", "tensor pipe (cycles) %", 1),
    ("sm__inst_executed_pipe_fma", ".avg.pct_of_peak_sustained_active", "f32 pipe %", 1),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared", ".avg.pct_of_peak_sustained_elapsed", "shared memory %", 1),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared", ".sum", "M bank conflicts", 1e-6),
    ("l1tex__t_sectors", ".sum", "M sectors of L1", 1e-6),
    ("lts__t_sectors", ".sum", "M sectors of L2", 1e-6),
    ("lts__t_sector_hit_rate", ".pct", "L2 hits %", 1),
    ("dram__bytes", ".sum", "MB of memory", 1e-6),
    ("sm__warps_active", ".avg.pct_of_peak_sustained_active", "warps %", 1),
] + [(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active", ".ratio", f"waits: {reason}", 1)
     for reason in ("long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "lg_throttle", "math_pipe_throttle", "wait",
                    "gmma")]


def known_counters():
    """The counters of this card that ncu knows, because one unknown name would end the whole run."""
    said = subprocess.run(["ncu", "--query-metrics", "--query-metrics-mode", "base"], capture_output=True, text=True, check=False)
    names = set(re.findall(r"^(\S+__\S+)", said.stdout, re.MULTILINE))
    if not names:
        sys.exit("ladder_counters.py: ncu lists no counters: " + (said.stderr or said.stdout).strip()[-300:])
    return [counter for counter in COUNTERS if counter[0] in names]


def profile(options, config, counters):
    """Returns {counter: value} for the config's kernel. Raises RuntimeError with ncu's last output."""
    command = ["ncu", "--target-processes", "all", "--csv", "--kernel-name", "regex:^gemm_(simt|wmma|mma|wgmma|gemv|dot)_[0-9a-f]{16}$",
               "--launch-skip", "3", "--launch-count", "1", "--metrics", ",".join(name + reduction for name, reduction, _, _ in counters),
               options.autotune, "tune", "--op", options.op, "--shape", options.shape, "--config", config, "--budget", "1s"]
    with tempfile.TemporaryDirectory() as folder:
        command += ["--db", f"{folder}/winners.db"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120,
                              env=os.environ | {"AUTOTUNE_PROFILED": "1"})
    table = [line for line in said.stdout.splitlines() if line.startswith('"')]
    values = {}
    for row in csv.DictReader(io.StringIO("\n".join(table))):
        text = row.get("Metric Value", "").replace(",", "")
        try:
            values[row["Metric Name"]] = (float(text), row.get("Metric Unit", ""))
        except ValueError:
            continue
    if not values:
        raise RuntimeError((said.stdout + said.stderr).strip()[-400:])
    return values


def profiled_kernels(lines):
    """Returns {"kernel": name, counter: (value, unit)} for each kernel in the output of `ncu --csv`, by ncu's number of the
    launch.
    """
    kernels = {}
    for row in csv.DictReader(io.StringIO("\n".join(line for line in lines if line.startswith('"')))):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (KeyError, ValueError):
            continue
        kernels.setdefault(row["ID"], {"kernel": row["Kernel Name"]})[row["Metric Name"]] = (value, row.get("Metric Unit", ""))
    return kernels


def in_unit(value, unit, factor):
    if factor is None:  # a time
        return value * {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}.get(unit, 1e-3)
    prefix = {"K": 1e3, "M": 1e6, "G": 1e9}.get(unit[:1], 1) if unit.endswith("byte") else 1
    return value * prefix * factor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("autotune")
    parser.add_argument("configs", nargs="*", default=LADDER)
    parser.add_argument("--op", default="hgemm")
    parser.add_argument("--shape", default="4096x4096x2048")
    parser.add_argument("--json")
    options = parser.parse_args()
    counters = known_counters()
    print("| config | " + " | ".join(head for _, _, head, _ in counters) + " |")
    print("|---" * (len(counters) + 1) + "|", flush=True)
    everything = {}
    for config in options.configs:
        try:
            values = profile(options, config, counters)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"ladder_counters.py: {config}: {error}", file=sys.stderr)
            continue
        row = {head: in_unit(*values[name + reduction], factor) for name, reduction, head, factor in counters if name + reduction in values}
        everything[config] = row
        print(f"| `{config}` | " + " | ".join(f"{row[head]:.4g}" if head in row else "-" for _, _, head, _ in counters) + " |", flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(everything, file, indent=1)
    return 0 if everything else 1


if __name__ == "__main__":
    sys.exit(main())
