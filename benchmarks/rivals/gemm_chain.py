#!/usr/bin/env python3
"""Products of few rows one after another, as a model decodes: libautotune against torch.mm (cuBLAS) and the fastest of cuBLASLt's heuristics,
in one process, in interleaved rounds. README.md tells the method.

usage: benchmarks/rivals/gemm_chain.py [--library FILE] [--rows 1,16,64] [--rounds N] [--json FILE] CHAIN...

CHAIN: NAME=NxK,NxK,...: bf16 activations times weights [N, K] in this order, layer after layer with weights of their own until they exceed
the L2 cache four times. A product reads activations that no other writes; in a stream it waits for the one before all the same.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from autotune_library import Library, find_library
from cublaslt import WORKSPACE_BYTES, CublasLt
from gemm import current_stream, fastest
from torch_add import graph_of, interval, race

L2_FOOTPRINTS = 4
HEURISTICS = 16  # number of cuBLASLt's algorithms that are tried for each product


class Chain:
    """Layers of weights [N, K], activations and outputs."""

    def __init__(self, rows, widths):
        weight_bytes = sum(2 * n * k for n, k in widths)
        layers = max(2, math.ceil(L2_FOOTPRINTS * torch.cuda.get_device_properties(0).L2_cache_size / weight_bytes))

        def normal(m, n):
            return torch.randn(m, n, device="cuda", dtype=torch.bfloat16)

        self.rows, self.widths = rows, widths
        self.products = [[(normal(rows, k), normal(n, k), torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)) for _ in range(layers)]
                         for n, k in widths]  # for each width in every layer

    def in_order(self, calls):
        """Returns `calls` for each width, in the order of the layers."""
        return [call for layer in zip(*calls) for call in layer]

    def torch_calls(self):
        return self.in_order([[lambda a=a, b=b, c=c: torch.mm(a, b.T, out=c) for a, b, c in sets] for sets in self.products])

    def our_calls(self, plans, kept):
        calls = []
        for (n, k), sets in zip(self.widths, self.products):
            plan = plans[self.rows, n, k]
            size = plan.workspace_bytes()
            kept.append(torch.zeros(max(size, 256), dtype=torch.uint8, device="cuda"))
            area = (kept[-1].data_ptr(), size)
            calls.append([lambda a=a, b=b, c=c, plan=plan, area=area: plan.run(a.data_ptr(), b.data_ptr(), c.data_ptr(), area,
                                                                               current_stream()) for a, b, c in sets])
        torch.cuda.synchronize()
        return calls

    def cublaslt_calls(self, lt, kept):
        kept.append(torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda"))
        area = kept[-1].data_ptr()
        calls = []
        for (n, k), sets in zip(self.widths, self.products):
            product = lt.product((self.rows, n, k), "bf16", "nt", HEURISTICS)
            kept.append(product)
            choices = [(str(i), [lambda i=i, a=a, b=b, c=c, product=product: product.run(i, a.data_ptr(), b.data_ptr(), c.data_ptr(), area,
                                                                                        current_stream()) for a, b, c in sets])
                       for i in range(product.count)]
            calls.append(fastest("cublaslt", choices)[0])
        return calls

    def error(self):
        """The largest of the norms of the first layer's errors, relative to torch's results in f32."""
        errors = []
        for sets in self.products:
            a, b, c = sets[0]
            right = torch.mm(a.float(), b.float().T)
            errors.append(((c.float() - right).norm() / right.norm()).item())
        return max(errors)


def made_plans(library, shapes):
    """Returns {shape: plan}, compiled in parallel."""
    def make(shape):
        torch.zeros(1, device="cuda")  # makes the context current in this thread
        return shape, library.gemm_plan(shape, "bf16", "nt")

    with ThreadPoolExecutor(16) as threads:
        return dict(threads.map(make, shapes))


def compare(plans, lt, name, rows, widths, options):
    chain, kept = Chain(rows, widths), []
    mine = chain.our_calls(plans, kept)
    for call in chain.in_order(mine):
        call()
    torch.cuda.synchronize()
    error = chain.error()
    graphs = {"autotune": graph_of(chain.in_order(mine)), "torch": graph_of(chain.torch_calls()),
              "cublaslt": graph_of(chain.in_order(chain.cublaslt_calls(lt, kept)))}
    for (n, k), calls in zip(widths, mine):
        graphs[f"{n}x{k}"] = graph_of(calls)
    times = race(graphs, options.rounds)
    layer = {key: [us * (len(widths) if key in ("autotune", "torch", "cublaslt") else 1) for us in values] for key, values in times.items()}
    row = {"chain": name, "rows": rows, "widths": widths, "error": error, "us_per_layer": {key: statistics.median(v) for key, v in layer.items()},
           "ratio": {}}
    for rival in ("torch", "cublaslt"):
        ratios = [theirs / ours for ours, theirs in zip(times["autotune"], times[rival])]
        row["ratio"][rival] = [statistics.median(ratios), *interval(ratios)]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=None, help="libautotune.so; default: of build/portable or build/release")
    parser.add_argument("--rows", default="1,16,64")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", default=None)
    parser.add_argument("chain", nargs="+")
    options = parser.parse_args()
    path = options.library or find_library(pathlib.Path(__file__).resolve().parents[2])
    if path is None:
        sys.exit("no libautotune.so: build it (tools/dev portable) or name one with --library")
    torch.zeros(1, device="cuda")
    library, lt = Library(path), CublasLt()
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, CUDA {torch.version.cuda}, autotune {library.version()}")
    print("us a layer; rivals' time over ours (95 %); each product of ours after itself")
    found = []
    all_rows = [int(word) for word in options.rows.split(",")]
    chains = {}
    for words in options.chain:
        name, widths = words.split("=")
        chains[name] = [tuple(int(extent) for extent in width.split("x")) for width in widths.split(",")]
    plans = made_plans(library, {(rows, *width) for widths in chains.values() for width in widths for rows in all_rows})
    for name, widths in chains.items():
        for rows in all_rows:
            row = compare(plans, lt, name, rows, widths, options)
            found.append(row)
            ratios = "  ".join(f"{rival} {median:.3f} ({low:.3f} .. {high:.3f})" for rival, (median, low, high) in row["ratio"].items())
            alone = "  ".join(f"{n}x{k} {row['us_per_layer'][f'{n}x{k}']:.2f}" for n, k in widths)
            print(f"{name:10} {rows:3} rows  ours {row['us_per_layer']['autotune']:.2f}  {ratios}  | {alone}  error {row['error']:.4f}", flush=True)
            torch.cuda.empty_cache()
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps({"device": torch.cuda.get_device_name(0), "rows": found}, indent=1))


if __name__ == "__main__":
    main()
