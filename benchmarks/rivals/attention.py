#!/usr/bin/env python3
"""Forward attention beside torch's kernels in one process, cuDNN's and FlashAttention-2 among them, and FlashAttention-3's own program.

usage: attention.py [--set NAME]... [--fa3 LIBRARY] [--triton] [--warm SECONDS] [--turns N] [--rounds N] [--csv FILE]

Ours is autotune.torch.attention with the winners on record. N(0,1), [batch, heads, length, size], in as many sets as exceed the L2
four times. A sample is a CUDA graph of calls, each behind a small kernel of another kind, less a graph of those alone. LIBRARY is made
of fa3_library.cu and FlashAttention-3; the counters of its kernels are cleared once a graph, not once a call as its own interface does.

Sets: seven (docs/results/attention.md), decode (a query of 32 heads on 8), lengths (16,384 tokens of 16 heads), f32, tf32,
sizes (other head sizes, f16, grouped heads), order (scores that rise or fall by 4096 from the first key to the last: every tile of keys
brings a row a new peak).
"""

import argparse
import csv
import math
import statistics
import time
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import autotune.torch as at
from flash_attention3 import FlashAttention3


class Problem(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    causal: bool
    dtype: torch.dtype = torch.bfloat16
    value_size: int = 0  # 0: the same as `size`
    rise: int = 0  # how much a row's scores rise from its first key to its last

    def value_columns(self):
        return self.value_size or self.size

    def flops(self):
        pairs = self.batch * self.heads * self.queries * self.keys * (0.5 if self.causal else 1)
        return 2.0 * pairs * (self.size + self.value_columns())

    def kv_bytes(self):
        return self.batch * self.kv_heads * self.keys * (self.size + self.value_columns()) * self.dtype.itemsize

    def tensors(self):
        """q, k and v."""
        queries, keys = (self.batch, self.heads, self.queries), (self.batch, self.kv_heads, self.keys)
        q, k, v = (
            torch.randn((*rows, columns), device="cuda", dtype=self.dtype)
            for rows, columns in ((queries, self.size), (keys, self.size), (keys, self.value_columns()))
        )
        if self.rise:
            q[..., 0] = 8
            k[..., 0] = torch.linspace(0, self.rise / 8 * math.sqrt(self.size), self.keys, device="cuda")
        return q, k, v


def square(batch, heads, length, size, causal, dtype=torch.bfloat16, **others):
    return Problem(batch, heads, heads, length, length, size, causal, dtype, **others)


SETS = {
    "seven": [
        square(4, 16, 4096, 128, False),
        square(4, 16, 4096, 128, True),
        square(1, 16, 16384, 128, True),
        square(2, 32, 8192, 128, False),
        square(1, 16, 13312, 64, True),
        square(16, 16, 1024, 64, True),
        square(1, 1, 13312, 64, True),
    ],
    "decode": [
        Problem(batch, 32, 8, 1, keys, 128, False)
        for keys, batches in ((4096, (1, 16, 64)), (32768, (1, 16, 64)), (131072, (1, 16)))
        for batch in batches
    ],
    "lengths": [
        square(max(1, 16384 // length), 16, length, size, causal)
        for size in (64, 128)
        for causal in (False, True)
        for length in (512, 1024, 2048, 4096, 8192, 16384, 32768)
    ],
    "f32": [square(1, 8, 8192, size, causal, torch.float32) for size in (64, 128) for causal in (False, True)],
    "sizes": [
        problem
        for causal in (False, True)
        for problem in (
            square(4, 16, 4096, 96, causal),
            square(4, 16, 4096, 192, causal, value_size=128),
            square(4, 16, 4096, 256, causal),
            square(4, 16, 4096, 128, causal, torch.float16),
            Problem(4, 32, 8, 4096, 4096, 128, causal),
        )
    ],
    "order": [square(4, 16, 4096, 128, causal, rise=rise) for causal in (False, True) for rise in (4096, -4096)],
}
SETS["tf32"] = SETS["f32"]
FOOTPRINT = 4 * 60 << 20  # bytes of all sets together
GRAPH_US = 8000
MOST_RATE = {torch.bfloat16: 6e8, torch.float16: 6e8, torch.float32: 3e7}  # FLOPs per microsecond
MOST_BYTES = 4.6e6  # a microsecond


def by_backend(backend, problem):
    def run(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=problem.causal, enable_gqa=problem.heads != problem.kv_heads
            )

    return run


def contenders(name, problem, others):
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    if name == "lengths":  # there are many lengths, and FlashAttention-2 is the slowest
        del backends["flash"]
    if problem.dtype is torch.float32:
        backends = {"efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    ours = {"ours": lambda q, k, v: at.attention(q, k, v, is_causal=problem.causal)}
    theirs = {name: by_backend(backend, problem) for name, backend in backends.items()}
    if problem.dtype is torch.bfloat16 and problem.size in (64, 128):
        for other, function in others.items():
            if other == "fa3" or problem.queries == problem.keys:
                theirs[other] = lambda q, k, v, function=function: function(q, k, v, problem.causal)
    return {**ours, **theirs}


class Race:
    """The graphs of one problem."""

    def __init__(self, name, problem, others):
        self.problem, self.fa3 = problem, others.get("fa3")
        rows = problem.batch * problem.heads * problem.queries
        of_set = rows * (problem.size + problem.value_columns()) * problem.dtype.itemsize + problem.kv_bytes()
        sets = [problem.tensors() for _ in range(max(2, math.ceil(FOOTPRINT / of_set)))]
        small = torch.zeros(132 * 256, device="cuda")
        functions = contenders(name, problem, others)
        right = functions["ours"](*sets[0])
        self.sets = sets  # keeps the tensors alive, because graphs only have their addresses
        self.graphs, self.times = {}, {}
        call_us = max(problem.flops() / MOST_RATE[problem.dtype], problem.kv_bytes() / MOST_BYTES, 3)
        self.calls = len(sets) * max(1, math.ceil(GRAPH_US / (call_us * len(sets))))
        for name, function in functions.items():
            try:
                if self.fa3 is not None:
                    self.fa3.begin()
                error = ((function(*sets[0]) - right).float().norm() / right.float().norm()).item()
                assert error < 1e-2, f"{name} and ours differ by {error}"
                self.graphs[name] = self.graph(sets, small, function)
            except (RuntimeError, AssertionError, torch.OutOfMemoryError) as failure:
                print(problem, name, str(failure).splitlines()[0], flush=True)
        self.graphs["filler"] = self.graph(sets, small, None)
        self.times = {name: [] for name in self.graphs}

    def graph(self, sets, small, function):
        def all_calls():
            if self.fa3 is not None:  # is launched in every graph, so that all graphs have the same fillers
                self.fa3.begin()
            for i in range(self.calls):
                small.add_(1.0)
                if function is not None:
                    function(*sets[i % len(sets)])

        return at.graph_of(all_calls, 1)

    def turn(self, rounds):
        for name, times in at.race_runs({name: graph.replay for name, graph in self.graphs.items()}, rounds=rounds).items():
            self.times[name] += [each / self.calls for each in times]

    def us(self):
        fillers = self.times["filler"]
        return {
            name: statistics.median(a - b for a, b in zip(times, fillers)) for name, times in self.times.items() if name != "filler"
        }


def told(name, race, us):
    problem = race.problem
    is_decode = problem.queries == 1
    rates = {each: problem.kv_bytes() / value * 1e-6 if is_decode else problem.flops() / value * 1e-6 for each, value in us.items()}
    rivals = [value for each, value in us.items() if each != "ours"]
    row = dict(zip(("batch", "heads", "kv_heads", "queries", "keys", "size"), problem), set=name)
    row["mask"], row["dtype"] = "causal" if problem.causal else "none", str(problem.dtype).split(".")[1]
    row.update({key: value for key, value in (("value_size", problem.value_size), ("rise", problem.rise)) if value})
    row.update({f"{each}_us": f"{value:.2f}" for each, value in us.items()})
    row.update({f"{each}_{'tbps' if is_decode else 'tflops'}": f"{value:.2f}" for each, value in rates.items()})
    row["best_rival_over_ours"] = f"{min(rivals) / us['ours']:.3f}" if rivals and "ours" in us else ""
    return row


def write_csv(path, rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def warmed(races, seconds):
    """Keeps the card under load for this long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for race in races:
            race.graphs["ours"].replay()
        torch.cuda.synchronize()


def raced(name, options, others):
    """Returns the rows of one set. Its tensors are freed before those of the next set are made."""
    together = name in ("seven", "decode")  # these problems alternate; in longer sets only one problem's tensors exist at a time
    races = []
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    for problem in SETS[name]:
        races.append(Race(name, problem, others))
        if not together:
            for _ in range(options.turns):
                races[0].turn(options.rounds)
            yield told(name, races[0], races.pop().us())
            torch.cuda.empty_cache()
    if together:
        warmed(races, options.warm)
    for _ in range(options.turns if together else 0):
        for race in races:
            race.turn(options.rounds)
    for race in races:
        yield told(name, race, race.us())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", choices=sorted(SETS))
    parser.add_argument("--fa3")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--warm", type=float, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows = []
    others = {"fa3": FlashAttention3(options.fa3)} if options.fa3 else {}
    if options.triton:
        from triton_attention import TritonAttention  # imported here, because its compiler takes seconds to load

        others["triton"] = TritonAttention()
    for name in options.set or ["seven"]:
        ratios = []
        with torch.no_grad():
            for row in raced(name, options, others):
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
                ratios += [float(row["best_rival_over_ours"])] if row["best_rival_over_ours"] else []
                rows.append(row)
                if options.csv:
                    write_csv(options.csv, rows)
        if ratios:
            print(f"{name}: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
