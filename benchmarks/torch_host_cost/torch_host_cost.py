#!/usr/bin/env python3
"""What autotune.torch.patch() costs on the host: microseconds of a call without the patch, with it, and the difference.

usage: torch_host_cost.py [--json] [--device cuda|cpu] [--captures N]      cpu: the kernels of the patch at the host's dispatch key
All calls stay with aten. "patch()": as a user calls it, on a database without winners of these operators. "registered": where another call of the
same operator is taken over, so that our kernel sees this call and passes it on.
--captures N: N captures of a patched model of changing shapes; says how much device memory stays when the graphs are gone.
"""

import argparse
import contextlib
import gc
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import autotune.torch as at


def calls_of(device):
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    # On the CPU the work itself takes time of the caller
    rows, columns, length = (16, 512, 64) if device == "cuda" else (2, 4, 4)
    x, w = torch.randn(rows, columns, device=device, dtype=dtype), torch.randn(columns, columns, device=device, dtype=dtype)
    bias, out = torch.randn(columns, device=device, dtype=dtype), torch.empty(rows, columns, device=device, dtype=dtype)
    q = torch.randn(2, 4, length, 64, device=device, dtype=dtype)
    mask = torch.ones(2, 1, length, length, device=device, dtype=torch.bool)
    k = q[0].mT.contiguous()
    return {
        "mm": lambda: torch.mm(x, w),
        "mm(out=)": lambda: torch.mm(x, w, out=out),
        "linear without bias": lambda: F.linear(x, w),
        "linear with bias": lambda: F.linear(x, w, bias),
        "bmm": lambda: torch.bmm(q[0], k),
        "softmax": lambda: torch.softmax(x, -1),
        "sdpa": lambda: F.scaled_dot_product_attention(q, q, q),
        "sdpa with a mask": lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=mask),
    }


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def once(call, calls, device):
    began = time.perf_counter_ns()
    for _ in range(calls):
        call()
    elapsed = (time.perf_counter_ns() - began) / calls / 1000
    synchronize(device)
    return elapsed


def compare(device, patches, rounds, calls):
    """Returns the times of each call in each round, without a patch and with each of `patches`, and the time to make and
    remove a patch. Each round makes every patch once.
    """
    every = calls_of(device)
    sides = {"torch": contextlib.nullcontext, **patches}
    times = {name: {side: [] for side in sides} for name in every}
    switches = {side: [] for side in patches}
    for turn in range(rounds + 1):  # the first turn warms up
        for side, make in sides.items():
            began = time.perf_counter()
            active = make()
            made = time.perf_counter()
            with active:
                for name, call in every.items():
                    once(call, 20, device)
                    elapsed = once(call, calls, device)
                    if turn > 0:
                        times[name][side].append(elapsed)
                ended = time.perf_counter()
            if turn > 0 and side in switches:
                switches[side].append(((made - began) * 1000, (time.perf_counter() - ended) * 1000))
    return times, switches


def rows_of(times):
    """Medians, and medians of the paired differences."""
    rows = {}
    for name, of_side in times.items():
        rows[name] = {side: statistics.median(each) for side, each in of_side.items()}
        for side in of_side:
            if side != "torch":
                rows[name][f"{side}, more"] = statistics.median(b - a for a, b in zip(of_side["torch"], of_side[side]))
    return rows


def patches_of(device):
    # The CPU has no attention operators of these names
    operators = ("mm", "bmm", "softmax", "attention") if device == "cuda" else ("mm", "bmm", "softmax")
    key = device.upper()
    return {
        "patch()": lambda: at.Patch(operators, key=key, wait=True),
        "registered": lambda: at.Patch(operators, key=key, wait=True, serves_all=True),
    }


def captures(count):
    """The additional device memory after `count` captures of changing shapes, compared with the first 20 captures."""
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(4))).cuda().bfloat16()
    with torch.no_grad(), at.patch():
        for index in range(count):
            x = torch.randn(8 + index % 64, 512, device="cuda", dtype=torch.bfloat16)
            model(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(x)
            graph.replay()
            del graph
            if index == 20:
                before = free_bytes()
    return before - free_bytes()


def free_bytes():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--captures", type=int, default=0)
    options = parser.parse_args()
    with torch.no_grad():
        times, switches = compare(options.device, patches_of(options.device), options.rounds, options.calls)
    rows = rows_of(times)
    making, removing = (statistics.median(each[i] for of_side in switches.values() for each in of_side) for i in (0, 1))
    result = {"torch": torch.__version__, "device": options.device, "us": rows, "patch() ms": making, "restore() ms": removing}
    if options.captures:
        result["bytes kept by captures"] = captures(options.captures)
    if options.json:
        print(json.dumps(result))
        return 0
    for name, row in rows.items():
        print(f"{name:22s} torch {row['torch']:7.2f} us   patch() {row['patch(), more']:+6.2f} us   registered {row['registered, more']:+6.2f} us")
    print(f"patch() {making:.2f} ms, restore() {removing:.2f} ms")
    if options.captures:
        print(f"{options.captures} captures keep {result['bytes kept by captures']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
