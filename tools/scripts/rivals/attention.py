#!/usr/bin/env python3
"""Forward attention of seven problems: ours, cuDNN's and torch's flash kernel in one process, FlashAttention-3's own program in turns with it.

usage: attention.py [--fa3 PROGRAM] [--turns N] [--json FILE]

Ours is autotune.torch.attention with the winners on record. bf16, N(0,1), [batch, heads, length, size], in as many sets as exceed the L2
four times. A sample is a CUDA graph of calls, each behind a small kernel of another kind, less a graph of those alone. PROGRAM prints lines
"fa3 fwd ... B4 H16 ... Sq4096 ... D128 c0 splits 1  815.00 us"; it times launch after launch, [batch, length, heads, size].
"""

import argparse
import json
import math
import re
import statistics
import subprocess

import torch

import autotune.torch as at

PROBLEMS = (  # batch, heads, length, size, causal
    (4, 16, 4096, 128, False),
    (4, 16, 4096, 128, True),
    (1, 16, 16384, 128, True),
    (2, 32, 8192, 128, False),
    (1, 16, 13312, 64, True),
    (16, 16, 1024, 64, True),
    (1, 1, 13312, 64, True),
)
FOOTPRINT = 4 * 60 << 20  # bytes of all sets
GRAPH_US = 8000
LINE = re.compile(r"fa3 fwd.*? B(\d+)\s+H(\d+)\s.*?Sq(\d+)\s.*?D(\d+)\s+c(\d) splits (\d+)\s+([\d.]+) us")


def contenders(causal):
    aten = torch.ops.aten
    return {
        "ours": lambda q, k, v: at.attention(q, k, v, is_causal=causal),
        "cudnn": lambda q, k, v: aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, causal)[0],
        "flash": lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0],
    }


def flops(problem):
    batch, heads, length, size, causal = problem
    return 4.0 * batch * heads * length * length * size * (0.5 if causal else 1)


class Race:
    """The graphs of one problem."""

    def __init__(self, problem):
        batch, heads, length, size, causal = problem
        of_set = 4 * batch * heads * length * size * 2
        sets = [
            [torch.randn(batch, heads, length, size, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
            for _ in range(max(2, math.ceil(FOOTPRINT / of_set)))
        ]
        small = torch.zeros(132 * 256, device="cuda")
        functions = contenders(causal)
        right = functions["flash"](*sets[0])
        for name, function in functions.items():
            error = ((function(*sets[0]) - right).float().norm() / right.float().norm()).item()
            assert error < 1e-2, f"{problem}: {name} is off by {error}"
        self.calls = len(sets) * max(1, math.ceil(GRAPH_US / (flops(problem) / 6e8 * len(sets))))
        self.graphs = {name: self.graph(sets, small, function) for name, function in functions.items()}
        self.graphs["filler"] = self.graph(sets, small, None)
        self.times = {name: [] for name in self.graphs}

    def graph(self, sets, small, function):
        def all_calls():
            for i in range(self.calls):
                small.add_(1.0)
                if function is not None:
                    function(*sets[i % len(sets)])

        return at.graph_of(all_calls, 1)

    def turn(self, rounds):
        for name, times in at.race_runs({name: graph.replay for name, graph in self.graphs.items()}, rounds=rounds).items():
            self.times[name] += [each / self.calls for each in times]

    def us(self, name):
        return statistics.median(a - b for a, b in zip(self.times[name], self.times["filler"]))


def fa3_times(program):
    said = subprocess.run([program, "fwd", "split"], capture_output=True, text=True, check=True).stdout
    best = {}
    for found in LINE.finditer(said):
        batch, heads, length, size, causal = (int(found[i]) for i in range(1, 6))
        key = (batch, heads, length, size, causal == 1)
        best[key] = min(best.get(key, math.inf), float(found[7]))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fa3")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    races = {problem: Race(problem) for problem in PROBLEMS}
    fa3 = {problem: [] for problem in PROBLEMS}
    for _ in range(options.turns):
        for race in races.values():
            race.turn(rounds=7)
        for problem, us in (fa3_times(options.fa3) if options.fa3 else {}).items():
            fa3[problem].append(us)
    rows = []
    for problem, race in races.items():
        us = {name: race.us(name) for name in race.times if name != "filler"}
        if fa3[problem]:
            us["fa3"] = statistics.median(fa3[problem])
        best = min(value for name, value in us.items() if name != "ours")
        rows.append({"problem": problem, "us": us, "best_rival_over_ours": best / us["ours"]})
        print(problem, *(f"{name} {value:.1f} us {flops(problem) / value * 1e-6:.0f} TFLOP/s" for name, value in us.items()), f"{best / us['ours']:.3f}")
    print(f"geometric mean {statistics.geometric_mean(row['best_rival_over_ours'] for row in rows):.3f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
