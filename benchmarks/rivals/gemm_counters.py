#!/usr/bin/env python3
"""Hardware counters of a product's winner beside those of the fastest of cuBLASLt's heuristics, as a Markdown table.

usage: benchmarks/rivals/gemm_counters.py [--library FILE] [--json FILE] PROBLEM...      PROBLEM: 4096x4096x2048,f16,nn

Needs Nsight Compute's `ncu` and the right to read counters. One process chooses cuBLASLt's algorithm by time and then launches both once under
the profiler, at the clock that the card has.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "scripts"))
from ladder_counters import COUNTERS, in_unit, known_counters, profiled_kernels

LAUNCH = ["launch__grid_size", "launch__block_size", "launch__registers_per_thread", "launch__shared_mem_per_block_dynamic"]


def described(text):
    extents, dtype, layout = text.split(",")
    return tuple(int(extent) for extent in extents.split("x")), dtype, layout


def run(options):
    import torch

    from autotune_library import Library, find_library
    from cublaslt import CublasLt
    from gemm import Operands, cublaslt_calls, ours

    torch.zeros(1, device="cuda")
    library, lt = Library(options.library or find_library(ROOT)), CublasLt()
    for text in options.problem:
        shape, dtype, layout = described(text)
        operands = Operands(shape, dtype, layout)
        theirs, label, area = cublaslt_calls(operands, shape, dtype, layout, lt)
        mine, plan, workspace = ours(library, operands, shape, dtype, layout)
        for call in mine + theirs:
            call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        mine[0]()
        theirs[1]()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        print(json.dumps({"problem": text, "candidate": plan.candidate(), "heuristic": label}), flush=True)
        del operands, theirs, mine, area, workspace
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=None)
    parser.add_argument("--json", default=None)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("problem", nargs="+")
    options = parser.parse_args()
    if options.run:
        run(options)
        return
    counters = known_counters()
    metrics = ",".join([name + reduction for name, reduction, _, _ in counters] + LAUNCH)
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv", "--metrics", metrics, sys.executable, __file__, "--run"]
    if options.library:
        command += ["--library", options.library]
    said = subprocess.run(command + options.problem, capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    problems = [json.loads(line) for line in lines if line.startswith("{")]
    kernels = profiled_kernels(lines)
    if not kernels:
        sys.exit("gemm_counters.py: no counters: " + (said.stderr or said.stdout).strip()[-400:])
    heads = [head for _, _, head, _ in counters]
    print("\n".join(json.dumps(problem) for problem in problems))
    print("| kernel | " + " | ".join(heads) + " | grid | threads | registers | shared memory |")
    print("|---" * (len(heads) + 5) + "|")
    for values in kernels.values():
        cells = [f"{in_unit(*values[name + reduction], factor):.4g}" if name + reduction in values else "" for name, reduction, _, factor in counters]
        cells += [f"{values[name][0]:g} {values[name][1]}".strip() if name in values else "" for name in LAUNCH]
        print(f"| {values['kernel'][:60]} | " + " | ".join(cells) + " |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"problems": problems, "kernels": kernels}, indent=1))


if __name__ == "__main__":
    main()
