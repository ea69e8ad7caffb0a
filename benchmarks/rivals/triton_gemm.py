"""C = A B in Triton: a persistent kernel whose operands go through TMA descriptors, and the configs to choose from."""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# block_m, block_n, block_k, stages, warps
CONFIGS = [(128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 8), (128, 128, 64, 4, 4),
           (128, 128, 128, 3, 8), (64, 256, 64, 4, 8), (64, 128, 64, 4, 4), (64, 128, 128, 3, 4), (64, 64, 64, 5, 4),
           (128, 64, 64, 5, 4), (64, 32, 128, 5, 4)]


@triton.jit
def product(a, b, c, m, n, k, programs, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, group: tl.constexpr,
            is_transposed: tl.constexpr, out_type: tl.constexpr):
    tiles_m = tl.cdiv(m, block_m)
    tiles_n = tl.cdiv(n, block_n)
    steps = tl.cdiv(k, block_k)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, programs, flatten=True):
        strip = tile // (group * tiles_n)
        in_strip = tile % (group * tiles_n)
        width = min(group, tiles_m - strip * group)
        row = (strip * group + in_strip % width) * block_m
        column = in_strip // width * block_n
        sums = tl.zeros((block_m, block_n), dtype=tl.float32)
        for step in range(steps):
            x = a.load([row, step * block_k])
            if is_transposed:
                y = b.load([column, step * block_k]).T
            else:
                y = b.load([step * block_k, column])
            sums = tl.dot(x, y, sums)
        c.store([row, column], sums.to(out_type))


class TritonProduct:
    """One config for one shape. TMA needs rows whose length is a multiple of 16 bytes."""

    def __init__(self, shape, layout, config):
        self.shape, self.layout, self.config = shape, layout, config

    def run(self, a, b, c):
        m, n, k = self.shape
        block_m, block_n, block_k, stages, warps = self.config
        is_transposed = self.layout[1] == "t"
        b_block = [block_n, block_k] if is_transposed else [block_k, block_n]
        descriptors = (TensorDescriptor.from_tensor(a, [block_m, block_k]), TensorDescriptor.from_tensor(b, b_block),
                       TensorDescriptor.from_tensor(c, [block_m, block_n]))
        tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
        programs = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count)
        out_type = tl.float16 if c.dtype == torch.float16 else tl.bfloat16
        product[(programs,)](*descriptors, m, n, k, programs, block_m, block_n, block_k, 8, is_transposed, out_type,
                             num_stages=stages, num_warps=warps)
