#!/usr/bin/env python3
"""Errors of f32-accurate products on tensor cores beside cuBLAS SGEMM's, as a Markdown table: ratios of the largest and of the mean
|c - exact| / (|A| |B|) over the elements of C, exact in f64. Below 1 ours is more accurate.

    benchmarks/scripts/f32_errors.py [--pin "gemm/wgmma_tf32x3 block_n=128"] [--extent 1024] [--k 16,64,512,4096,16384] [--seed 1]

Needs a GPU, torch and the package autotune. Without --pin it is the kernel that the library would take.
"""
import argparse

import autotune
import torch


def spread(generator, *shape):
    """Powers of two from 2^-15 to 2^15."""
    return torch.exp2(torch.randint(-15, 16, shape, device="cuda", generator=generator).float())


def cancelling(generator, a, b):
    """The second half of K repeats the first with the opposite sign, except for a thousandth."""
    half = b.shape[0] // 2
    a[:, half:] = a[:, :half]
    b[half:] = -b[:half] * (1 + torch.randn(b[:half].shape, device="cuda", generator=generator) / 1000)


def inputs(name, generator, extent, k):
    if name == "uniform in [0, 1)":
        return (torch.rand(shape, device="cuda", generator=generator) for shape in ((extent, k), (k, extent)))
    a = torch.randn(extent, k, device="cuda", generator=generator)
    b = torch.randn(k, extent, device="cuda", generator=generator)
    if name == "elements scaled by 2^-15 .. 2^15":
        a *= spread(generator, extent, k)
        b *= spread(generator, k, extent)
    if name == "rows of A and columns of B scaled so":
        a *= spread(generator, extent, 1)
        b *= spread(generator, 1, extent)
    if name == "sums that cancel":
        cancelling(generator, a, b)
    if name == "one k a million times the others":
        a[:, k // 2] *= 1e6
    return a, b


INPUTS = ["N(0,1)", "elements scaled by 2^-15 .. 2^15", "rows of A and columns of B scaled so", "uniform in [0, 1)", "sums that cancel",
          "one k a million times the others"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pin")
    parser.add_argument("--extent", type=int, default=1024)
    parser.add_argument("--k", default="16,64,512,4096,16384")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    handle = autotune.Handle(pin=options.pin)
    generator = torch.Generator(device="cuda").manual_seed(options.seed)
    depths = [int(k) for k in options.k.split(",")]
    plans = {}
    print("| inputs | " + " | ".join(f"K = {k}" for k in depths) + " |")
    print("|---" * (len(depths) + 1) + "|")
    absolute = {}
    for name in INPUTS:
        cells = []
        for k in depths:
            a, b = inputs(name, generator, options.extent, k)
            c = torch.empty(options.extent, options.extent, device="cuda")
            if k not in plans:
                plans[k] = handle.plan(autotune.Problem("gemm", {"a": a, "b": b, "c": c}, {"compute": "tf32x3", "beta": "zero"}))
            workspace = torch.zeros(max(plans[k].workspace_bytes, 1), device="cuda", dtype=torch.uint8)
            stream = torch.cuda.current_stream().cuda_stream
            plans[k].run(a.data_ptr(), b.data_ptr(), c.data_ptr(), scalars=(1.0, 0.0), workspace=workspace.data_ptr(), stream=stream)
            exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
            ours, theirs = ((product.double() - exact).abs() / scale for product in (c, a @ b))
            cells.append(f"{(ours.max() / theirs.max()).item():.2f}; {(ours.mean() / theirs.mean()).item():.2f}")
            absolute[name, k] = ours.max().item(), ours.mean().item()
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    for k in depths:
        largest, mean = absolute[INPUTS[0], k]
        print(f"K = {k}: {plans[k].candidate}; N(0,1): largest {largest:.2e}, mean {mean:.2e}")


if __name__ == "__main__":
    main()
