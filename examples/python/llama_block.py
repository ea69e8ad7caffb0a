#!/usr/bin/env python3
"""A decoder block of Llama-3-8B's shape (random bf16 weights), torch beside torch under autotune.torch.patch().

usage: llama_block.py [decode] [prefill] [training] [--tune BUDGET] [--compile] [--apart] [--rounds N] [--json FILE]      none of the three: all

Both sides run in one process, rounds interleaved in random order. decode: a CUDA graph a step, a token a sequence, 1024 tokens in the cache;
prefill: torch.compile on both sides, in a CUDA graph; training: forward and backward of four blocks, eager.
--apart: also a row for each product and attention, patched alone; of training, for all products and for attention.
--tune: first tunes the products of what is run that have no winner, with this budget each ("5s").
"""

import argparse
import contextlib
import json
import math
import statistics

import torch
import torch.nn.functional as F

import autotune.torch as at

HIDDEN, HEADS, KV_HEADS, HEAD, INNER = 4096, 32, 8, 128, 14336
CACHED = 1024


class Block(torch.nn.Module):
    """Attention and feed-forward with fused projections, as servers run them."""

    def __init__(self):
        super().__init__()
        sizes = {
            "qkv": ((HEADS + 2 * KV_HEADS) * HEAD, HIDDEN),
            "o": (HIDDEN, HIDDEN),
            "gate_up": (2 * INNER, HIDDEN),
            "down": (HIDDEN, INNER),
        }
        for name, (rows, cols) in sizes.items():
            weight = torch.randn(rows, cols, device="cuda") / math.sqrt(cols)
            self.register_parameter(name, torch.nn.Parameter(weight.bfloat16()))
        for name in ("norm1", "norm2"):
            self.register_parameter(name, torch.nn.Parameter(torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)))

    def forward(self, x, turn, cache=None):
        """x [sequences, tokens, HIDDEN]; turn: cosines and sines [tokens, HEAD]; cache: keys and values of earlier tokens."""
        sequences, tokens, _ = x.shape
        qkv = F.linear(F.rms_norm(x, (HIDDEN,), self.norm1), self.qkv)
        q, k, v = qkv.view(sequences, tokens, HEADS + 2 * KV_HEADS, HEAD).split([HEADS, KV_HEADS, KV_HEADS], dim=2)
        q, k, v = rotate(q, turn).transpose(1, 2), rotate(k, turn).transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            cache[0][:, :, -tokens:], cache[1][:, :, -tokens:] = k, v
            k, v = cache
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(sequences, tokens, HIDDEN), self.o)
        gate, up = F.linear(F.rms_norm(x, (HIDDEN,), self.norm2), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


def rotate(x, turn):
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def turn_of(first, count):
    angles = torch.arange(first, first + count, device="cuda")[:, None] * (500000.0 ** (-torch.arange(0, HEAD, 2, device="cuda") / HEAD))
    angles = torch.cat((angles, angles), dim=-1)[:, None, :]
    return angles.cos().bfloat16(), angles.sin().bfloat16()


def compare(name, runs, rounds, results):
    report(name, at.race_runs(runs, rounds=rounds), results)


def report(name, times, results):
    medians = {side: statistics.median(values) for side, values in times.items()}
    for side in [side for side in times if side != "torch"]:
        case = name if side == "patched" else f"{name}, {side}"
        gain = at.ratio(times, "torch", side)
        results.append({"case": case, "torch_us": medians["torch"], "patched_us": medians[side], "gain": gain})
        print(f"{case:26s} torch {medians['torch']:10.1f} us   patched {medians[side]:10.1f} us   {gain:6.3f}", flush=True)


def graphs_of(step, problems=()):
    """The same step, captured without the patch, with it, and with each of `problems` alone patched."""
    graphs = {"torch": at.graph_of(step, 1)}
    with at.patch(note_misses=True):
        graphs["patched"] = at.graph_of(step, 1)
    for key in sorted({problem.key for problem in problems}):
        with at.patch(only=lambda problem, key=key: problem.key == key):
            graphs[key] = at.graph_of(step, 1)
    return {side: graph.replay for side, graph in graphs.items()}


@torch.no_grad()
def decode(arguments, results):
    block = Block()
    for sequences in (1, 4, 16, 64):
        x = torch.randn(sequences, 1, HIDDEN, device="cuda", dtype=torch.bfloat16)
        cache = [torch.randn(sequences, KV_HEADS, CACHED, HEAD, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        turn = turn_of(CACHED - 1, 1)
        step = lambda: block(x, turn, cache)
        if arguments.tune:
            print(at.tune(step, budget=arguments.tune))
        compare(f"decode {sequences}", graphs_of(step, at.collect(step) if arguments.apart else ()), arguments.rounds, results)
        if arguments.compile:
            compiled = torch.compile(block, fullgraph=True)  # for one sequence, and then for any number
            compare(f"decode {sequences}, compiled", graphs_of(lambda: compiled(x, turn, cache)), arguments.rounds, results)


@torch.no_grad()
def prefill(arguments, results):
    block = Block()
    for tokens in (2048, 8192):
        x, turn = torch.randn(1, tokens, HIDDEN, device="cuda", dtype=torch.bfloat16), turn_of(0, tokens)
        step = lambda: block(x, turn)
        if arguments.tune:
            print(at.tune(step, budget=arguments.tune))
        compiled = torch.compile(block, fullgraph=True, dynamic=False)
        problems = at.collect(step) if arguments.apart else ()
        compare(f"prefill {tokens}, compiled", graphs_of(lambda: compiled(x, turn), problems), arguments.rounds, results)


def training(arguments, results, tokens=8192):
    blocks = torch.nn.ModuleList(Block() for _ in range(4))
    x, turn = torch.randn(1, tokens, HIDDEN, device="cuda", dtype=torch.bfloat16), turn_of(0, tokens)
    if arguments.tune:
        print(at.tune(lambda: blocks[0](x, turn), backward=True, budget=arguments.tune))
    patches = {"torch": contextlib.nullcontext, "patched": at.patch}
    if arguments.apart:
        patches["products"] = lambda: at.patch(attention=False)
        patches["attention"] = lambda: at.patch(mm=False, bmm=False)
    kinds = {"": blocks}
    if arguments.compile:
        kinds[", compiled"] = [torch.compile(block, fullgraph=True, dynamic=False) for block in blocks]
    for kind, layers in kinds.items():

        def step():
            blocks.zero_grad(set_to_none=True)
            y = x
            for layer in layers:
                y = layer(y, turn)
            y.float().square().mean().backward()

        # Switched on and off outside of what is timed.
        times = {side: [] for side in patches}
        for count in range(max(arguments.rounds // 2, 5) + 1):
            for side, patch in patches.items():
                with patch():
                    elapsed = at.time_us(step)
                if count > 0:  # the first round plans
                    times[side].append(elapsed)
        report(f"training {tokens}, 4 blocks{kind}", times, results)


@torch.no_grad()
def accuracy(results, seeds=4):
    """The block's outputs against themselves in f64, by the relative norm: the mean over `seeds` weights and inputs."""
    for tokens in (16, 2048):
        errors = {"torch": [], "patched": []}
        for seed in range(1, seeds + 1):
            torch.manual_seed(seed)
            block, wide = Block(), Block().double()
            x, turn = torch.randn(1, tokens, HIDDEN, device="cuda", dtype=torch.bfloat16), turn_of(0, tokens)
            wide.load_state_dict({name: each.double() for name, each in block.state_dict().items()})
            exact = wide(x.double(), tuple(each.double() for each in turn))
            for side, patch in (("torch", contextlib.nullcontext), ("patched", at.patch)):
                with patch():
                    errors[side].append(((block(x, turn).double() - exact).norm() / exact.norm()).item())
        means = {side: statistics.mean(of_side) for side, of_side in errors.items()}
        results.append({"case": f"error against f64, {tokens} tokens", **means, "each": errors})
        print(f"error against f64, {tokens} tokens: torch {means['torch']:.4e}, patched {means['patched']:.4e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], "decode", "prefill", "training"])
    parser.add_argument("--tune")
    parser.add_argument("--compile", action="store_true", help="decode and training also with torch.compile on both sides")
    parser.add_argument("--apart", action="store_true", help="also each product and attention alone")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = []
    accuracy(results)
    torch.manual_seed(1)
    for case in arguments.cases or ["decode", "prefill", "training"]:
        {"decode": decode, "prefill": prefill, "training": training}[case](arguments, results)
    for kind in ("", ", compiled"):
        gains = [each["gain"] for each in results if each["case"] in [f"decode {count}{kind}" for count in (1, 4, 16, 64)]]
        if gains:
            print(f"decode{kind}, geometric mean: {statistics.geometric_mean(gains):.3f}")
    misses = sorted(problem.key for problem in at.misses()) if {"decode", "prefill"} & set(arguments.cases or ["decode"]) else []
    print(f"{len(misses)} products without a winner" + "".join(f"\n  {key}" for key in misses))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(
                {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "results": results, "misses": misses}, file, indent=1
            )


if __name__ == "__main__":
    main()
