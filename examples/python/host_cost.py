#!/usr/bin/env python3
"""What a call costs on the host: microseconds from one call to the next while the GPU keeps up, beside torch.mm.

usage: host_cost.py [--json]      needs a GPU and torch
"""

import json
import statistics
import sys
import time

import torch

import autotune
import autotune.torch as at


def host_us(call, calls=200, rounds=30):
    """Median over rounds; each enqueues `calls` calls on an idle GPU and does not wait for them."""
    for _ in range(50):
        call()
    samples = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter_ns() - start) / calls / 1000)
    return statistics.median(samples)


def bound(handle, a, b, out):
    """A launch of a b into out, with everything that it needs bound."""
    tensors = {name: autotune.Tensor.of(each) for name, each in (("a", a), ("b", b), ("c", out))}
    plan = handle.plan(autotune.Problem("gemm", tensors, {"beta": "zero"}))
    workspace = torch.zeros(plan.workspace_bytes, dtype=torch.uint8, device="cuda") if plan.workspace_bytes else None
    return plan.bind(a, b, out, scalars=(1.0, 0.0), workspace=workspace)


def programmatic(*tensors):
    """A launch of a kernel that may start while the one before ends, which costs the driver less; None where there is none."""
    try:
        return bound(autotune.Handle(pin="gemm/wgmma_nonpersistent pdl=1"), *tensors)
    except autotune.NoKernel:
        return None


def main():
    m, n, k = 16, 64, 64  # a kernel of about 2 us, so that the queue never fills
    a, w = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    b, out = w.t(), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.current_stream().cuda_stream
    launch, early = bound(autotune.default_handle(), a, b, out), programmatic(a, b, out)
    calls = {
        "torch.mm": lambda: torch.mm(a, b),
        "torch.mm(out=)": lambda: torch.mm(a, b, out=out),
        "autotune.torch.mm": lambda: at.mm(a, b),
        "torch.ops.autotune.mm": lambda: torch.ops.autotune.mm.default(a, b),
        "prepared launch": lambda: launch(stream),
        "autotune.gemm": lambda: autotune.gemm(a, b, out, stream=stream),
        "driver: cuLaunchKernel by torch (fill)": lambda: out.zero_(),
    }
    if early is not None:
        calls["prepared launch, programmatic"] = lambda: early(stream)
    with torch.no_grad():
        costs = {name: host_us(call) for name, call in calls.items()}
        with at.patch():
            costs["torch.mm, patched, no winner"] = host_us(calls["torch.mm"])
        costs["empty lambda"] = host_us(lambda: None)
    if "--json" in sys.argv:
        print(json.dumps(costs))
        return
    for name, cost in costs.items():
        print(f"{name:32s} {cost:7.2f} us")


if __name__ == "__main__":
    main()
