#!/usr/bin/env python3
"""Tunes a few products and prints them as a table. Without torch.

usage: tune_shapes.py [BUDGET]      a problem's: "20s" or "50t"; default 5s
"""

import sys

import autotune


def product(m, n, k, dtype="bf16"):
    """C [m, n] = A [m, k] times the transpose of W [n, k]."""
    tensors = {
        "a": autotune.Tensor(dtype, (m, k)),
        "b": autotune.Tensor(dtype, (k, n), strides=(1, k)),
        "c": autotune.Tensor(dtype, (m, n)),
    }
    return autotune.Problem("gemm", tensors, {"beta": "zero"})


def main():
    problems = [product(tokens, 4096, 4096) for tokens in (1, 16, 64)]
    budget = sys.argv[1] if len(sys.argv) > 1 else "5s"
    swept = autotune.sweep(problems, budget=budget, progress=lambda each: print(f"{each.done}/{each.total}  {each.text}", file=sys.stderr))
    for item in swept.items:
        time = f"{item.winner.median_us:8.2f} us  {item.winner.candidate}" if item.winner else item.detail
        print(f"{item.shape:18s} {item.state:8s} {time}")


if __name__ == "__main__":
    main()
