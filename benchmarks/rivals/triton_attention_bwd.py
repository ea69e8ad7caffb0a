"""Gradients of attention in Triton: FlashAttention-2's two passes over tiles that TMA descriptors load, and the configs to choose from."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# For each pass: rows that a block owns, rows of a tile that it walks, stages, warps.
CONFIGS = [(128, 64, 2, 8), (128, 64, 3, 8), (64, 64, 3, 4)]
LOG2_E = 1.4426950408889634


@triton.jit
def prepare(o, grad, lse, logs, deltas, size: tl.constexpr, block: tl.constexpr):
    rows = tl.program_id(0) * block + tl.arange(0, block)
    at = rows[:, None].to(tl.int64) * size + tl.arange(0, size)[None, :]
    tl.store(deltas + rows, tl.sum(tl.load(o + at).to(tl.float32) * tl.load(grad + at).to(tl.float32), 1))
    tl.store(logs + rows, tl.load(lse + rows) * 1.4426950408889634)


@triton.jit
def walk_queries(sums_k, sums_v, keys, values, q, grad, logs, deltas, first, begin, end, column, slope,
                 block_q: tl.constexpr, block_k: tl.constexpr, is_masked: tl.constexpr):
    for row in tl.range(begin, end, block_q):
        queries, grads = q.load([first + row, 0]), grad.load([first + row, 0])
        rows = row + tl.arange(0, block_q)
        weights = tl.math.exp2(tl.dot(keys, queries.T) * slope - tl.load(logs + first + rows)[None, :])
        if is_masked:
            weights = tl.where(rows[None, :] >= column + tl.arange(0, block_k)[:, None], weights, 0.0)
        sums_v = tl.dot(weights.to(tl.bfloat16), grads, sums_v)
        slopes = weights * (tl.dot(values, grads.T) - tl.load(deltas + first + rows)[None, :])
        sums_k = tl.dot(slopes.to(tl.bfloat16), queries, sums_k)
    return sums_k, sums_v


@triton.jit
def of_keys(q, k, v, grad, dk, dv, logs, deltas, length, slope, scale, size: tl.constexpr,
            block_k: tl.constexpr, block_q: tl.constexpr, is_causal: tl.constexpr):
    first, column = tl.program_id(1) * length, tl.program_id(0) * block_k
    keys, values = k.load([first + column, 0]), v.load([first + column, 0])
    sums_k, sums_v = tl.zeros([block_k, size], tl.float32), tl.zeros([block_k, size], tl.float32)
    whole = 0
    if is_causal:
        whole = column + block_k
        sums_k, sums_v = walk_queries(sums_k, sums_v, keys, values, q, grad, logs, deltas, first, column, whole, column, slope,
                                      block_q, block_k, True)
    sums_k, sums_v = walk_queries(sums_k, sums_v, keys, values, q, grad, logs, deltas, first, whole, length, column, slope,
                                  block_q, block_k, False)
    dk.store([first + column, 0], (sums_k * scale).to(tl.bfloat16))
    dv.store([first + column, 0], sums_v.to(tl.bfloat16))


@triton.jit
def walk_keys(sums, queries, grads, log, delta, k, v, first, begin, end, row, slope,
              block_q: tl.constexpr, block_k: tl.constexpr, is_masked: tl.constexpr):
    for column in tl.range(begin, end, block_k):
        keys, values = k.load([first + column, 0]), v.load([first + column, 0])
        weights = tl.math.exp2(tl.dot(queries, keys.T) * slope - log[:, None])
        if is_masked:
            rows, columns = row + tl.arange(0, block_q), column + tl.arange(0, block_k)
            weights = tl.where(rows[:, None] >= columns[None, :], weights, 0.0)
        slopes = weights * (tl.dot(grads, values.T) - delta[:, None])
        sums = tl.dot(slopes.to(tl.bfloat16), keys, sums)
    return sums


@triton.jit
def of_queries(q, k, v, grad, dq, logs, deltas, length, slope, scale, size: tl.constexpr,
               block_q: tl.constexpr, block_k: tl.constexpr, is_causal: tl.constexpr):
    tile = tl.program_id(0)
    if is_causal:  # the longest rows come first
        tile = tl.num_programs(0) - 1 - tile
    first, row = tl.program_id(1) * length, tile * block_q
    queries, grads = q.load([first + row, 0]), grad.load([first + row, 0])
    rows = first + row + tl.arange(0, block_q)
    log, delta = tl.load(logs + rows), tl.load(deltas + rows)
    sums = tl.zeros([block_q, size], tl.float32)
    whole = row if is_causal else length
    sums = walk_keys(sums, queries, grads, log, delta, k, v, first, 0, whole, row, slope, block_q, block_k, False)
    if is_causal:
        sums = walk_keys(sums, queries, grads, log, delta, k, v, first, whole, whole + block_q, row, slope, block_q, block_k, True)
    dq.store([first + row, 0], (sums * scale).to(tl.bfloat16))


class TritonAttentionBackward:
    """For one problem, with the config of each pass that was fastest for the first tensors. Lengths are multiples of 128."""

    def __init__(self, one, is_causal):
        self.is_causal = is_causal
        self.batch, self.heads, self.length, self.size = one.q.shape
        self.scale = self.size**-0.5
        rows = self.batch * self.heads * self.length
        self.logs, self.deltas = (torch.empty(rows, device="cuda") for _ in range(2))
        self.prepare(one)
        self.config_of_keys = min(CONFIGS, key=lambda config: self.time_ms(self.keys, one, config))
        self.config_of_queries = min(CONFIGS, key=lambda config: self.time_ms(self.queries, one, config))

    def __call__(self, one):
        self.prepare(one)
        self.keys(one, self.config_of_keys)
        self.queries(one, self.config_of_queries)
        return one.gradients

    def prepare(self, one):
        prepare[(self.logs.numel() // 32,)](one.o.contiguous(), one.grad, one.lse, self.logs, self.deltas, self.size, 32)

    def tiles(self, *tensors_and_rows):
        return [TensorDescriptor.from_tensor(tensor.view(-1, self.size), [rows, self.size]) for tensor, rows in tensors_and_rows]

    def keys(self, one, config):
        own, walked, stages, warps = config
        _, dk, dv = one.gradients
        tiles = self.tiles((one.q, walked), (one.k, own), (one.v, own), (one.grad, walked), (dk, own), (dv, own))
        of_keys[(self.length // own, self.batch * self.heads)](
            *tiles, self.logs, self.deltas, self.length, self.scale * LOG2_E, self.scale, self.size, own, walked, self.is_causal,
            num_stages=stages, num_warps=warps)

    def queries(self, one, config):
        own, walked, stages, warps = config
        tiles = self.tiles((one.q, own), (one.k, walked), (one.v, walked), (one.grad, own), (one.gradients[0], own))
        of_queries[(self.length // own, self.batch * self.heads)](
            *tiles, self.logs, self.deltas, self.length, self.scale * LOG2_E, self.scale, self.size, own, walked, self.is_causal,
            num_stages=stages, num_warps=warps)

    @staticmethod
    def time_ms(run, one, config):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        try:
            run(one, config)
            start.record()
            run(one, config)
            end.record()
            end.synchronize()
        except triton.runtime.errors.OutOfResources:
            return float("inf")
        return start.elapsed_time(end)
