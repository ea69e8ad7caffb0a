#!/usr/bin/env python3
"""What autotune.torch.patch() costs on the host: microseconds of a call without the patch, with it, and the difference.

usage: torch_host_cost.py [--json] [--device cuda|cpu] [--captures N]      cpu: the kernels of the patch at the host's dispatch key, where it has such
--captures N: N captures of a patched model of changing shapes; says how much device memory stays when the graphs are gone.
"""

import argparse
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
    rows, columns, length = (16, 512, 64) if device == "cuda" else (2, 4, 4)  # a host computes in the caller's time
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


def compare(device, patch, rounds, calls):
    """Of each call the median over rounds without and with, and the median of the paired differences. The patch is made once a round."""
    every = calls_of(device)
    times = {name: ([], []) for name in every}
    switches = []
    for turn in range(rounds + 1):
        for name, call in every.items():
            once(call, 20, device)
            times[name][0].append(once(call, calls, device))
        began = time.perf_counter()
        active = patch()
        made = time.perf_counter() - began
        for name, call in every.items():
            once(call, 20, device)
            times[name][1].append(once(call, calls, device))
        began = time.perf_counter()
        active.restore()
        switches.append(((made) * 1000, (time.perf_counter() - began) * 1000))
        if turn == 0:  # warms up
            times, switches = {name: ([], []) for name in every}, []
    rows = {
        name: {"torch": statistics.median(a), "patched": statistics.median(b), "more": statistics.median(y - x for x, y in zip(a, b))}
        for name, (a, b) in times.items()
    }
    return rows, {"patch() ms": statistics.median(a for a, _ in switches), "restore() ms": statistics.median(b for _, b in switches)}


def captures(count):
    """Bytes of the device that are used more after `count` captures of changing shapes than after the first 20."""
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
    if options.device == "cpu" and not hasattr(at.Patch, "at_key"):
        parser.error("this package has no kernels of the patch for the host")
    patch = at.patch if options.device == "cuda" else lambda: at.Patch.at_key("CPU")
    with torch.no_grad():
        rows, switches = compare(options.device, patch, options.rounds, options.calls)
    result = {"torch": torch.__version__, "device": options.device, "us": rows, **switches}
    if options.captures:
        result["bytes kept by captures"] = captures(options.captures)
    if options.json:
        print(json.dumps(result))
        return 0
    for name, row in rows.items():
        print(f"{name:22s} torch {row['torch']:7.2f} us   patched {row['patched']:7.2f} us   more {row['more']:+6.2f} us")
    print(", ".join(f"{name} {value:.2f}" for name, value in switches.items()))
    if options.captures:
        print(f"{options.captures} captures keep {result['bytes kept by captures']} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
