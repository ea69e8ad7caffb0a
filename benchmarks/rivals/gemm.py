#!/usr/bin/env python3
"""C = A B: libautotune against torch.mm (cuBLAS), the best of cuBLASLt's heuristics and Triton's best config, in one process, on the
same buffers, in interleaved rounds. README.md tells the method.

usage: benchmarks/rivals/gemm.py [--library FILE] [--shapes FILE | --shape MxNxK --dtype f16 --layout nn] [--rivals torch,cublaslt,triton]
                            [--rounds N] [--warm SECONDS] [--json FILE]

A line of --shapes is one of `autotune sweep`: 4096x4096x2048 op=hgemm layout=nn. Lines with other options are passed over.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import torch

from autotune_library import Library, find_library
from cublaslt import WORKSPACE_BYTES, CublasLt
from torch_add import graph_of, interval, race, time_us

TORCH_TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
OPS = {"hgemm": "f16", "bgemm": "bf16"}
L2_FOOTPRINTS = 2  # the same as in the tuner


class Operands:
    """Sets of A, B and C that together exceed the L2 cache, N(0,1), each in the element type."""

    def __init__(self, shape, dtype, layout):
        m, n, k = shape
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        sets = min(256, max(2, math.ceil(L2_FOOTPRINTS * l2_bytes / (2 * (m * k + k * n + m * n)))))

        def normal(rows, columns):
            return torch.randn(rows, columns, device="cuda", dtype=torch.float32).to(TORCH_TYPES[dtype])

        stored_b = (n, k) if layout[1] == "t" else (k, n)
        self.sets = [(normal(m, k), normal(*stored_b), torch.full((m, n), float("nan"), device="cuda", dtype=TORCH_TYPES[dtype]))
                     for _ in range(sets)]
        self.is_transposed = layout[1] == "t"

    def torch_calls(self):
        return [lambda a=a, b=b, c=c: torch.mm(a, b.T if self.is_transposed else b, out=c) for a, b, c in self.sets]

    def error(self):
        """The norm of the difference from torch's result in f32, relative to the norm of that."""
        a, b, c = self.sets[0]
        right = torch.mm(a.float(), (b.T if self.is_transposed else b).float())
        return ((c.float() - right).norm() / right.norm()).item()


def current_stream():
    return torch.cuda.current_stream().cuda_stream


def quick_us(calls):
    """A rough time of one launch, by which a rival's own configs are chosen."""
    graph, launches = graph_of(calls)
    graph.replay()
    return statistics.median(time_us(graph, launches, 2) for _ in range(3))


def fastest(name, choices):
    """Returns the calls of the fastest choice; None if none works."""
    best_us, best, best_label = math.inf, None, None
    for label, calls in choices:
        try:
            us = quick_us(calls)
        except Exception as error:  # this shape or this card refuses the config
            print(f"# {name} {label}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            torch.cuda.synchronize()
            continue
        if us < best_us:
            best_us, best, best_label = us, calls, label
    return best, best_label


def ours(library, operands, shape, dtype, layout):
    plan = library.gemm_plan(shape, dtype, layout)
    size = plan.workspace_bytes()
    workspace = torch.zeros(max(size, 256), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    area = (workspace.data_ptr(), size)
    calls = [lambda a=a, b=b, c=c: plan.run(a.data_ptr(), b.data_ptr(), c.data_ptr(), area, current_stream())
             for a, b, c in operands.sets]
    return calls, plan, workspace


def cublaslt_calls(operands, shape, dtype, layout, lt):
    product = lt.product(shape, dtype, layout)
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
    choices = [(str(i), [lambda i=i, a=a, b=b, c=c: product.run(i, a.data_ptr(), b.data_ptr(), c.data_ptr(), workspace.data_ptr(),
                                                               current_stream()) for a, b, c in operands.sets])
               for i in range(product.count)]
    calls, label = fastest("cublaslt", choices)
    return calls, f"{label} of {product.count}", workspace


def triton_calls(operands, shape, layout):
    from triton_gemm import CONFIGS, TritonProduct
    choices = []
    for config in CONFIGS:
        one = TritonProduct(shape, layout, config)
        choices.append(("x".join(map(str, config)), [lambda one=one, a=a, b=b, c=c: one.run(a, b, c) for a, b, c in operands.sets]))
    for _, calls in choices:  # compiles before a graph is captured
        try:
            calls[0]()
        except Exception:  # fastest() reports the error
            torch.cuda.synchronize()
    return fastest("triton", choices)


def compare(library, lt, shape, dtype, layout, options):
    operands = Operands(shape, dtype, layout)
    calls, plan, workspace = ours(library, operands, shape, dtype, layout)
    for call in calls:
        call()
    torch.cuda.synchronize()
    error = operands.error()
    graphs, labels, kept = {"autotune": graph_of(calls)}, {}, [workspace]
    if "torch" in options.rivals:
        graphs["torch"] = graph_of(operands.torch_calls())
    if "cublaslt" in options.rivals:
        found, labels["cublaslt"], area = cublaslt_calls(operands, shape, dtype, layout, lt)
        kept.append(area)
        if found:
            graphs["cublaslt"] = graph_of(found)
    if "triton" in options.rivals and all(extent % 8 == 0 for extent in shape):
        found, labels["triton"] = triton_calls(operands, shape, layout)
        if found:
            graphs["triton"] = graph_of(found)
    end = time.monotonic() + options.warm
    while time.monotonic() < end:
        for graph, _ in graphs.values():
            graph.replay()
        torch.cuda.synchronize()
    times = race(graphs, options.rounds)
    row = {"shape": "x".join(map(str, shape)), "dtype": dtype, "layout": layout, "rounds": options.rounds, "error": error,
           "sets": len(operands.sets), "origin": plan.origin(), "candidate": plan.candidate(), "labels": labels,
           "us": {name: statistics.median(values) for name, values in times.items()}, "ratio": {}}
    for name in times:
        if name != "autotune":
            ratios = [theirs / mine for mine, theirs in zip(times["autotune"], times[name])]
            row["ratio"][name] = [statistics.median(ratios), *interval(ratios)]
    return row


def read_shapes(path):
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        options = dict(word.split("=", 1) for word in words[1:])
        layout = options.pop("layout", "nn")
        op = options.pop("op", "hgemm")
        if options or op not in OPS or layout[0] == "t":
            print(f"# passed over: {line}", file=sys.stderr)
            continue
        yield tuple(int(extent) for extent in words[0].split("x")), OPS[op], layout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=None, help="libautotune.so; default: of build/portable or build/release")
    parser.add_argument("--shapes", default=None)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--dtype", default="f16", choices=TORCH_TYPES)
    parser.add_argument("--layout", default="nn", choices=("nn", "nt"))
    parser.add_argument("--rivals", default="torch,cublaslt,triton")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm", type=float, default=0.5, help="seconds of load before the rounds")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    options.rivals = options.rivals.split(",")
    path = options.library or find_library(pathlib.Path(__file__).resolve().parents[2])
    if path is None:
        sys.exit("no libautotune.so: build it (tools/dev portable) or name one with --library")
    torch.zeros(1, device="cuda")
    library, lt = Library(path), CublasLt()
    problems = [(tuple(map(int, shape.split("x"))), options.dtype, options.layout) for shape in options.shape]
    if options.shapes:
        problems += list(read_shapes(options.shapes))
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}, autotune {library.version()}")
    print(f"{'shape':>18} {'type':>4} {'':>2} {'ours us':>9}  time of each rival, and its time over ours")
    rows = []
    for shape, dtype, layout in problems:
        try:
            row = compare(library, lt, shape, dtype, layout, options)
        except Exception as error:
            print(f"{'x'.join(map(str, shape)):>18} {dtype:>4} {layout}  failed: {str(error).splitlines()[0][:140]}", flush=True)
            continue
        rows.append(row)
        rivals = "  ".join(f"{name} {row['us'][name]:.2f} {row['ratio'][name][0]:.3f}" for name in row["ratio"])
        best = min((ratio[0] for ratio in row["ratio"].values()), default=math.nan)
        print(f"{row['shape']:>18} {dtype:>4} {layout} {row['us']['autotune']:9.2f}  {rivals}  best {best:.3f}  {row['origin']}", flush=True)
        torch.cuda.empty_cache()
    if rows:
        least = [min(ratio[0] for ratio in row["ratio"].values()) for row in rows]
        print(f"{len(rows)} problems: geometric mean against the best rival {statistics.geometric_mean(least):.3f}, worst {min(least):.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"device": torch.cuda.get_device_name(0), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
