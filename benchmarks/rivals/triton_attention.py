"""Attention in Triton: FlashAttention-2's loop over tiles of keys that TMA descriptors load, and the configs to choose from."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# queries of a tile, keys of a tile, stages, warps
CONFIGS = [(128, 128, 2, 8), (128, 128, 3, 8), (128, 64, 3, 8), (128, 64, 3, 4), (128, 64, 4, 4), (64, 64, 3, 4), (64, 128, 3, 4)]


@triton.jit
def attend(sums, total, peak, queries, keys, values, first, begin, end, row, slope,
           block_q: tl.constexpr, block_k: tl.constexpr, is_masked: tl.constexpr):
    rows = row + tl.arange(0, block_q)
    for key in tl.range(begin, end, block_k):
        scores = tl.dot(queries, keys.load([first + key, 0]).T)
        if is_masked:
            scores = tl.where(rows[:, None] >= key + tl.arange(0, block_k)[None, :], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1) * slope)
        weights = tl.math.exp2(scores * slope - new_peak[:, None])
        factor = tl.math.exp2(peak - new_peak)
        total = total * factor + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.bfloat16), values.load([first + key, 0]), sums * factor[:, None])
        peak = new_peak
    return sums, total, peak


@triton.jit
def attention(q, k, v, o, length, slope, size: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr, is_causal: tl.constexpr):
    tile = tl.program_id(0)
    if is_causal:  # the longest rows come first
        tile = tl.num_programs(0) - 1 - tile
    first, row = tl.program_id(1) * length, tile * block_q
    queries = q.load([first + row, 0])
    peak = tl.full([block_q], float("-inf"), tl.float32)
    total = tl.zeros([block_q], tl.float32)
    sums = tl.zeros([block_q, size], tl.float32)
    whole = row // block_k * block_k if is_causal else length
    sums, total, peak = attend(sums, total, peak, queries, k, v, first, 0, whole, row, slope, block_q, block_k, False)
    if is_causal:
        sums, total, peak = attend(sums, total, peak, queries, k, v, first, whole, row + block_q, row, slope, block_q, block_k, True)
    o.store([first + row, 0], (sums / total[:, None]).to(tl.bfloat16))


def launch(q, k, v, o, is_causal, config):
    block_q, block_k, stages, warps = config
    batch, heads, length, size = q.shape
    rows = [TensorDescriptor.from_tensor(tensor.view(-1, size), [block, size])
            for tensor, block in ((q, block_q), (k, block_k), (v, block_k), (o, block_q))]
    slope = 1.4426950408889634 / size**0.5
    attention[(length // block_q, batch * heads)](*rows, length, slope, size, block_q, block_k, is_causal, num_stages=stages, num_warps=warps)


class TritonAttention:
    """The config that was fastest for the first tensors of a problem. Lengths are multiples of 128."""

    def __init__(self):
        self.chosen = {}

    def __call__(self, q, k, v, is_causal):
        o = torch.empty_like(q)
        problem = (*q.shape, is_causal)
        if problem not in self.chosen:
            self.chosen[problem] = min(CONFIGS, key=lambda config: self.time_ms(q, k, v, o, is_causal, config))
        launch(q, k, v, o, is_causal, self.chosen[problem])
        return o

    @staticmethod
    def time_ms(q, k, v, o, is_causal, config):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        try:
            launch(q, k, v, o, is_causal, config)
            start.record()
            for _ in range(3):
                launch(q, k, v, o, is_causal, config)
            end.record()
            end.synchronize()
        except triton.runtime.errors.OutOfResources:
            return float("inf")
        return start.elapsed_time(end)
