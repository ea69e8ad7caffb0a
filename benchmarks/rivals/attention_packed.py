#!/usr/bin/env python3
"""Packed sequences beside FlashAttention-2's of torch and beside as many of one length, in one process: causal, bf16, 16 heads.

usage: attention_packed.py [--rounds N]

Lengths vary by up to half of their mean, 16,384 rows in all. A sample is a CUDA graph of ten calls; medians. A row of one length is the op
without offsets on a batch: what packing costs. TFLOP/s count half of the squares of the lengths.
"""

import argparse
import random
import statistics

import torch

import autotune
import autotune.torch as at

HEADS, TOKENS = 16, 16384


def packed(function, lengths, size):
    """Returns a call on new tensors [rows, heads, size], [rows, heads, size], ... and the offsets."""
    tensors = [torch.randn(TOKENS, HEADS, size, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    offsets = torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], device="cuda", dtype=torch.int32)
    return lambda: function(*tensors, offsets, max(lengths), size**-0.5)


def ours(q, k, v, offsets, most, scale):
    o = torch.empty_like(q)
    heads_first = [tensor.transpose(0, 1).unsqueeze(0) for tensor in (q, k, v, o)]
    autotune.ops.attention(*heads_first, None, offsets, offsets, mask="causal", max_q=most, max_kv=most, scale=scale,
                           stream=torch.cuda.current_stream())
    return o


def flash(q, k, v, offsets, most, scale):
    return torch.ops.aten._flash_attention_forward(q, k, v, offsets, offsets, most, most, 0.0, True, False, scale=scale)[0]


def of_one_length(q, k, v, offsets, _most, _scale):
    batch = offsets.numel() - 1
    return at.attention(*(tensor.view(batch, -1, *tensor.shape[1:]).transpose(1, 2) for tensor in (q, k, v)), is_causal=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    random.seed(1)
    for size in (64, 128):
        for mean in (1024, 4096):
            count = TOKENS // mean
            halves = [random.randrange(mean // 2) for _ in range(count // 2)]
            lengths = [mean + half for half in halves] + [mean - half for half in halves]
            same = [mean] * count
            torch.manual_seed(1)
            right = packed(flash, lengths, size)()
            torch.manual_seed(1)
            error = ((packed(ours, lengths, size)() - right).float().norm() / right.float().norm()).item()
            assert error < 1e-2, f"ours and FlashAttention-2 differ by {error}"
            contenders = {"ours": (ours, lengths), "flash": (flash, lengths), "ours, one length": (of_one_length, same),
                          "flash, one length": (flash, same)}
            times = at.race({name: packed(function, of, size) for name, (function, of) in contenders.items()}, rounds=rounds)
            flops = {name: 2.0 * HEADS * size * sum(length**2 for length in of) for name, (_, of) in contenders.items()}
            for name, samples in times.items():
                us = statistics.median(samples)
                print(f"{count} of {mean}, d {size}: {name} {us:.1f} us, {flops[name] / us * 1e-6:.0f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
