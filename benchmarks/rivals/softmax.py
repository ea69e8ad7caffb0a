#!/usr/bin/env python3
"""y = softmax(x) of each row: the Python package against torch.softmax and against a copy (torch.add of 1), in one process, each in a
stream of other kernels. README.md tells the method.

usage: benchmarks/rivals/softmax.py [--shapes FILE | --shape RxC --dtype bf16] [--lse] [--rounds N] [--json FILE]

A line of --shapes is one of `autotune sweep`: 8192x4096 op=softmax dtype=bf16. Lines with other options are passed over.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import sys

import autotune
import torch

TORCH_TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
L2_FOOTPRINTS = 2  # the same as in the tuner
FILLER_FLOATS = 33792
MOST_PAIRS, MOST_BYTES = 48, 2**30  # limits for one graph


class Rows:
    """Sets of x and y that together exceed the L2 cache, or 64 of them, x N(0,1)."""

    def __init__(self, rows, cols, dtype, has_lse):
        self.bytes = 2 * rows * cols * TORCH_TYPES[dtype].itemsize
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        count = min(64, max(1, math.ceil(L2_FOOTPRINTS * l2_bytes / self.bytes)))
        self.x = [torch.randn(rows, cols, device="cuda", dtype=TORCH_TYPES[dtype]) for _ in range(count)]
        self.y = [torch.full_like(x, math.nan) for x in self.x]
        self.lse = torch.empty(rows, device="cuda") if has_lse else None
        self.pairs = max(2, min(MOST_PAIRS, MOST_BYTES // self.bytes))

    def error(self):
        """The norm of the error of the first rows, relative to torch's result in f64."""
        right = torch.softmax(self.x[0][:64].double(), -1)
        return ((self.y[0][:64].double() - right).norm() / right.norm()).item()


def plan_of(shape, dtype, has_lse):
    tensors = {"x": autotune.Tensor(dtype, shape), "y": autotune.Tensor(dtype, shape)}
    if has_lse:
        tensors["lse"] = autotune.Tensor("f32", shape[:1])
    torch.cuda.set_device(0)  # threads have no context of their own
    torch.zeros(1, device="cuda")
    return autotune.default_handle().plan(autotune.Problem("softmax", tensors, {}))


def ours(rows, plan):
    """Returns the launch for each set."""
    launches = [plan.bind(x, y, rows.lse) for x, y in zip(rows.x, rows.y)]
    return [lambda launch=launch: launch(torch.cuda.current_stream().cuda_stream) for launch in launches]


def graph_of(calls, pairs, filler):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(pairs):
            filler.add_(1.0)
            if calls:
                calls[i % len(calls)]()
    return graph


def time_us(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def compare(shape, dtype, plan, options):
    rows = Rows(*shape, dtype, options.lse)
    mine = ours(rows, plan)
    contestants = {"autotune": mine,
                   "torch": [lambda x=x, y=y: torch.softmax(x, -1, out=y) for x, y in zip(rows.x, rows.y)],
                   "copy": [lambda x=x, y=y: torch.add(x, 1, out=y) for x, y in zip(rows.x, rows.y)],
                   "filler": []}
    for calls in contestants.values():  # loads before a graph is captured
        for call in calls[:1]:
            call()
    mine[0]()
    torch.cuda.synchronize()
    error = rows.error()
    filler = torch.zeros(FILLER_FLOATS, device="cuda")
    graphs = {name: graph_of(calls, rows.pairs, filler) for name, calls in contestants.items()}
    times = {name: [] for name in graphs}
    for _ in range(options.rounds + 2):
        for name, graph in graphs.items():
            times[name].append(time_us(graph))
    fillers_us = statistics.median(times.pop("filler")[2:])
    us = {name: (statistics.median(values[2:]) - fillers_us) / rows.pairs for name, values in times.items()}
    return {"shape": "x".join(map(str, shape)), "dtype": dtype, "lse": options.lse, "us": us, "error": error, "pairs": rows.pairs,
            "sets": len(rows.x), "origin": str(plan.origin), "candidate": plan.candidate}


def read_shapes(path):
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        options = dict(word.split("=", 1) for word in words[1:])
        dtype = options.pop("dtype", "bf16")
        if options != {"op": "softmax"} or dtype not in TORCH_TYPES:
            print(f"# passed over: {line}", file=sys.stderr)
            continue
        yield tuple(int(extent) for extent in words[0].split("x")), dtype


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=None)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--dtype", default="bf16", choices=TORCH_TYPES)
    parser.add_argument("--lse", action="store_true", help="ours writes the logarithms of the rows' sums too")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    problems = [(tuple(map(int, shape.split("x"))), options.dtype) for shape in options.shape]
    if options.shapes:
        problems += list(read_shapes(options.shapes))
    torch.zeros(1, device="cuda")
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"{'shape':>14} {'type':>4} {'ours us':>9} {'torch us':>9} {'copy us':>9}  torch and copy over ours")
    with concurrent.futures.ThreadPoolExecutor() as compilers:
        plans = list(compilers.map(lambda problem: plan_of(*problem, options.lse), problems))
    rows = []
    for (shape, dtype), plan in zip(problems, plans):
        try:
            row = compare(shape, dtype, plan, options)
        except Exception as error:  # this card has no memory for the shape
            print(f"{'x'.join(map(str, shape)):>14} {dtype:>4}  failed: {str(error).splitlines()[0][:120]}", flush=True)
            continue
        finally:
            torch.cuda.empty_cache()
        rows.append(row)
        us = row["us"]
        print(f"{row['shape']:>14} {dtype:>4} {us['autotune']:9.2f} {us['torch']:9.2f} {us['copy']:9.2f}  {us['torch'] / us['autotune']:.2f} "
              f"{us['copy'] / us['autotune']:.2f}  {row['origin']}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
