#!/usr/bin/env python3
"""Gradients of attention in one process: ours, cuDNN's, Triton's, and those of FlashAttention-2 and -3.

usage: attention_bwd.py [--set seven|lengths] [--fa3 LIBRARY] [--triton] [--rounds N] [--seconds S] [--sample-ms MS] [--strict] [--json FILE] [--csv FILE]

Ours are autotune.torch's plans of attention_bwd with the winners on record, adding in any order and in the same one each time. cuDNN in any
order is torch's; in one order it is cudnn-frontend's, where the package `cudnn` is installed. FlashAttention-2 is torch's; LIBRARY is made
of fa3_backward_library.cu and FlashAttention-3. bf16, N(0,1), [batch, heads, length, size], in sets that exceed the L2 four times. A sample
is a CUDA graph of calls, each behind a small kernel of another kind, less a graph of those alone, replayed for 60 ms after half of that.
Lengths are of 16,384 tokens and 16 heads, without the two slowest rivals; attention_plot.py draws their table.
--strict instead: forward and backward of f32 without tf32, length 8192, beside torch's efficient and plain kernels.
"""

import argparse
import csv
import json
import math
import random
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import autotune.torch as at
from attention import FOOTPRINT, GRAPH_US
from autotune.problem import Problem
from autotune.torch import _attention_bwd, _engine
from flash_attention3 import FlashAttention3Backward

STARTED = time.time()
SETS = {  # batch, heads, length, size, causal
    "seven": (
        (4, 16, 4096, 128, False),
        (4, 16, 4096, 128, True),
        (1, 16, 16384, 128, True),
        (2, 32, 8192, 128, False),
        (1, 16, 13312, 64, True),
        (16, 16, 1024, 64, True),
        (1, 1, 13312, 64, True),
    ),
    "lengths": tuple(
        (16384 // length, 16, length, size, causal)
        for length in (512, 2048, 8192, 16384, 1024, 4096)  # lengths that --seconds leaves out are missing in all curves
        for size in (128, 64)
        for causal in (True, False)
    ),
}


def flops(problem):
    batch, heads, length, size, causal = problem
    return 10.0 * batch * heads * length * length * size * (0.5 if causal else 1)


def apart(ours, right):
    return ((ours.float() - right.float()).norm() / right.float().norm()).item()


class Set:
    """Inputs of one call, the results of cuDNN's forward pass for them, and memory for the gradients."""

    def __init__(self, problem):
        batch, heads, length, size, self.causal = problem
        self.scale = 1 / math.sqrt(size)
        self.q, self.k, self.v, self.grad = (torch.randn(batch, heads, length, size, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        made = torch.ops.aten._scaled_dot_product_cudnn_attention(self.q, self.k, self.v, None, True, 0.0, self.causal, False, scale=self.scale)
        self.o, self.lse, self.seed, self.offset = made[0], made[1], made[6], made[7]
        self.gradients = tuple(torch.empty_like(each) for each in (self.q, self.k, self.v))

    def tensors(self):
        return (self.q, self.k, self.v, self.o, self.lse, self.grad, *self.gradients)


def ours(first, deterministic):
    usual = _attention_bwd.backward_problem(first.q, first.k, first.v, first.o, first.grad, "causal" if first.causal else "none")
    problem = Problem("attention_bwd", usual.tensors, {**usual.attributes, "deterministic": deterministic})
    plan = _engine.Described(_engine.plan_of(problem, 0), 0, 9, (first.scale,))

    def run(one):
        plan.launch(*(each.data_ptr() for each in one.tensors()))
        return one.gradients

    return run, {"candidate": plan.plan.candidate, "origin": str(plan.plan.info.origin), "workspace": plan.plan.workspace_bytes}


def torchs_cudnn(first):
    length = first.q.shape[2]

    def run(one):
        return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            one.grad, one.q, one.k, one.v, one.o, one.lse, one.seed, one.offset, None, None, None, length, length, 0.0, one.causal, scale=one.scale
        )

    return run, {}


def torchs_flash(first):
    length = first.q.shape[2]
    made = torch.ops.aten._scaled_dot_product_flash_attention(first.q, first.k, first.v, 0.0, first.causal, False, scale=first.scale)
    seed, unused = made[6], made[7]

    def run(one):
        return torch.ops.aten._scaled_dot_product_flash_attention_backward(
            one.grad, one.q, one.k, one.v, one.o, one.lse.flatten(2), None, None, length, length, 0.0, one.causal, seed, unused, scale=one.scale
        )

    return run, {}


def frontends_cudnn(first, deterministic):
    import cudnn

    handle = cudnn.create_handle()
    f32, dims, strides = cudnn.data_type.FLOAT, list(first.q.shape), list(first.q.stride())
    batch, heads, length, _ = dims
    graph = cudnn.pygraph(io_data_type=cudnn.data_type.BFLOAT16, intermediate_data_type=f32, compute_data_type=f32, handle=handle)
    names = ("q", "k", "v", "o", "dO")
    inputs = [graph.tensor(name=name, dim=dims, stride=strides, data_type=cudnn.data_type.BFLOAT16) for name in names]
    stats = graph.tensor(name="stats", dim=[batch, heads, length, 1], stride=[heads * length, length, 1, 1], data_type=f32)
    q, k, v, o, grad = inputs
    outputs = graph.sdpa_backward(
        name="bwd", q=q, k=k, v=v, o=o, dO=grad, stats=stats, attn_scale=first.scale, use_causal_mask=first.causal,
        use_deterministic_algorithm=deterministic,
    )  # fmt: skip
    for output in outputs:
        output.set_output(True).set_dim(dims).set_stride(strides)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)

    def run(one):
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        tensors = (one.q, one.k, one.v, one.o, one.grad, one.lse, *one.gradients)
        graph.execute(dict(zip((*inputs, stats, *outputs), tensors)), workspace, handle=handle)
        return one.gradients

    return run, {"workspace": workspace.numel()}


def flash_attention3(library, first, deterministic):
    scratch = library.scratch(first.q, first.causal, deterministic)

    def run(one):
        library(one.tensors(), scratch)
        return one.gradients

    return run, {"workspace": sum(each.nbytes for each in scratch[1])}


def in_triton(first):
    from triton_attention_bwd import TritonAttentionBackward  # imported here, because its compiler takes seconds to load

    made = TritonAttentionBackward(first, first.causal)
    return made, {"configs": (made.config_of_keys, made.config_of_queries)}


def contenders(options, fa3):
    """Returns the contestants' functions; the others are compared with the first."""
    every = {
        "cudnn any": torchs_cudnn,
        "any": lambda first: ours(first, "any"),
        "same bits": lambda first: ours(first, "yes"),
    }
    if options.set != "lengths":
        every["cudnn same bits"] = lambda first: frontends_cudnn(first, True)
        every["flash any"] = torchs_flash
    if fa3 is not None:
        every["fa3 any"] = lambda first: flash_attention3(fa3, first, False)
        every["fa3 same bits"] = lambda first: flash_attention3(fa3, first, True)
    if options.triton:
        every["triton"] = in_triton
    return every


def save(rows, path):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)


class Race:
    """The graphs of one problem."""

    def __init__(self, problem, makers, sample_us):
        self.problem, self.sample_us, self.facts, self.graphs = problem, sample_us, {}, {}
        batch, heads, length, size, _ = problem
        self.sets = sets = [Set(problem) for _ in range(max(2, math.ceil(FOOTPRINT / (8 * batch * heads * length * size * 2))))]
        self.small = torch.zeros(132 * 256, device="cuda")
        self.calls = len(sets) * max(1, math.ceil(GRAPH_US / (flops(problem) / 5e8 * len(sets))))
        self.runs, right = {}, None  # graphs only have addresses, so `sets` and `runs` keep the tensors alive
        for name, make in makers.items():
            try:
                run, self.facts[name] = make(sets[0])
                self.runs[name] = run
                first = [each.clone() for each in run(sets[0])]
                right = right or first
                self.facts[name]["error"] = max(map(apart, first, right))
                self.facts[name]["repeats"] = all(map(torch.equal, run(sets[0]), first))
                assert self.facts[name]["error"] < 2e-2, f"{problem}: {name} is off by {self.facts[name]['error']}"
                self.graphs[name] = self.graph(sets, run)
            except Exception as error:  # the rival is not installed or refuses the problem
                print(problem, name, "FAILED", repr(error)[:200], flush=True)
        self.graphs["filler"] = self.graph(sets, None)
        self.times = {name: [] for name in self.graphs}

    def graph(self, sets, run):
        def all_calls():
            for i in range(self.calls):
                self.small.add_(1.0)
                if run is not None:
                    run(sets[i % len(sets)])

        return at.graph_of(all_calls, 1)

    def sustained(self, graph):
        replays = min(200, max(1, round(self.sample_us / max(at.time_us(graph.replay), 1))))

        def run():
            for _ in range(replays):
                graph.replay()

        for _ in range(replays // 2):
            graph.replay()
        return at.time_us(run) / replays / self.calls

    def turn(self, rounds):
        for _ in range(rounds):
            for name, graph in random.sample(list(self.graphs.items()), len(self.graphs)):
                self.times[name].append(self.sustained(graph))

    def us(self, name):
        return statistics.median(a - b for a, b in zip(self.times[name], self.times["filler"]))


def save_table(name, rows, path):
    """Writes the table in the form of attention.py, for attention_plot.py."""
    if not path:
        return
    table = []
    for row in rows:
        batch, heads, length, size, causal = row["problem"]
        line = {"set": name, "batch": batch, "heads": heads, "queries": length, "size": size, "mask": "causal" if causal else "none"}
        for each, value in row["us"].items():
            each = each.replace(" ", "_")
            line.update({f"{each}_us": f"{value:.2f}", f"{each}_tflops": f"{flops(row['problem']) / value * 1e-6:.2f}"})
        table.append(line)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(column for line in table for column in line)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def raced(options):
    fa3 = FlashAttention3Backward(options.fa3) if options.fa3 else None
    rows = []
    for problem in SETS[options.set]:
        if time.time() - STARTED > options.seconds:
            print(problem, "left out: the time is used up", flush=True)
            continue
        race = Race(problem, contenders(options, fa3), options.sample_ms * 1e3)
        race.turn(options.rounds)
        us = {name: race.us(name) for name in race.times if name != "filler"}
        rows.append({"problem": problem, "us": us, "facts": race.facts})
        print(problem, *(f"{name} {value:.1f} us {flops(problem) / value * 1e-6:.0f};" for name, value in us.items()), race.facts, flush=True)
        print(f"{time.time() - STARTED:.1f} s", flush=True)
        del race
        torch.cuda.empty_cache()
        save(rows, options.json)
        save_table(options.set, rows, options.csv)
    pairs = [("any", f"{theirs} any") for theirs in ("fa3", "cudnn", "flash")]
    pairs += [("same bits", theirs) for theirs in ("fa3 same bits", "cudnn same bits", "triton")]
    for mine, theirs in pairs:
        ratios = [row["us"][theirs] / row["us"][mine] for row in rows if mine in row["us"] and theirs in row["us"]]
        if ratios:
            print(f"{mine} against {theirs}: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")


def strict(options):
    """Forward and backward pass in f32, as in a model."""
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = []
    for size in (64, 128):
        for causal in (False, True):
            q, k, v = (torch.randn(1, 8, 8192, size, device="cuda", requires_grad=True) for _ in range(3))
            grad = torch.randn(1, 8, 8192, size, device="cuda")

            def aten(backend):
                with sdpa_kernel(backend):
                    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
                return torch.autograd.grad(o, (q, k, v), grad)

            runs = {
                "ours": lambda: torch.autograd.grad(at.attention(q, k, v, is_causal=causal), (q, k, v), grad),
                "efficient": lambda: aten(SDPBackend.EFFICIENT_ATTENTION),
                "math": lambda: aten(SDPBackend.MATH),
            }
            right = runs["efficient"]()
            error = max(map(apart, runs["ours"](), right))
            times = at.race_runs(runs, rounds=options.rounds)
            us = {name: statistics.median(values) for name, values in times.items()}
            rows.append({"size": size, "causal": causal, "us": us, "error": error})
            print(rows[-1], flush=True)
            save(rows, options.json)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=sorted(SETS), default="seven")
    parser.add_argument("--fa3")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--sample-ms", type=float, default=60)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--csv")
    options = parser.parse_args()
    (strict if options.strict else raced)(options)


if __name__ == "__main__":
    main()
