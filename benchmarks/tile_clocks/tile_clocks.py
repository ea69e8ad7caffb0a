#!/usr/bin/env python3
"""Where the clocks of a tile of gemm/wgmma go: the template is rendered, clock stamps are put into a consumer warpgroup's loop, nvcc builds it with
tile_clocks.cu, and the mean of all blocks is printed for each part of a tile.

    benchmarks/tile_clocks/tile_clocks.py MxNxK... [--param NAME=VALUE...] [--stages 4] [--group 8] [--raster 0] [--launches 12]

bf16, both operands along K (`nt`), beta 0, whole tiles. Needs a Hopper GPU and nvcc. Parts: `wait`, for the first stage of a tile; `loop`, up to
its last multiplication's issue; `drain`, until that one is over; `store`; `next`, the search for the next tile. A ping-pong group's parts
include the other group's time. With overlap_epilogue=1 `loop` begins with the first stage's wait and holds the stores of the tile before, and with
an overlapped epilogue `store` is the rounding. C's checksum tells whether two texts agree.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATES = HERE.parents[1] / "kernel_templates"
USUAL = {"symbol": "tile_clocks_kernel", "in_type": "bf16", "out_type": "bf16", "acc_type": "f32", "trans_a": 0, "trans_b": 1, "align_a": 16, "align_b": 16,
         "align_c": 16, "reads_c": 0, "swap_ab": 0, "block_m": 128, "block_n": 256, "block_k": 64, "consumer_warpgroups": 2, "pingpong": 0, "serpentine_k": 0,
         "cluster_m": 2, "cluster_n": 1, "cluster_k": 1, "tma_store": 1, "epilogue_stages": 2, "tma_swizzle": 128, "reduce_kernel": 0, "advance_descriptors": 1, "overlap_epilogue": 0}
# A text in the template, and the lines that are put before or after it.
STAMPS = [
    ("struct Areas {\n", "__device__ long long* stamps_out;\n" + (HERE / "stamps.cuh").read_text(), "before"),
    ("    while (schedule.next(work)) {\n        if (pingpong) {", "    Stamps stamps;\n", "before"),
    ("        const bool is_divided =", "        stamps.tile();\n        stamps.end(4);\n", "before"),
    ("            barrier_wait(ring.full + at.stage * 8, at.parity);\n            if constexpr (advance_descriptors)",
     "            if (step == 1) stamps.first_wait_is_over();\n", "before"),
    ("        if (pingpong && lane == 0) barrier_arrive(ring.order", "        stamps.end(1);\n", "before"),
    ("        if constexpr (reduce_kernel) {\n            leave_part", "        stamps.end(2);\n", "before"),
    ("    if (tma_store && threadIdx.x % 128 == 0) store_wait_read<0>();\n}\n\n}  // namespace", "    stamps.write(stamps_out, group);\n", "before"),
    ("            store_staged(out, tile, row0, rank, areas.staging, group, acc);\n", "            stamps.end(3);\n", "after"),
    ("            store_by_spans<false>(out, tile, row0, rank, areas.staging, group, acc, c_spans);\n", "            stamps.end(3);\n", "after"),
]


# The same for whole_loop.cuh, whose text replaces its include.
WHOLE_INCLUDE = '#include "gemm/wgmma/whole_loop.cuh"\n'
STAMPS_OF_WHOLE = [
    ("struct Consumer {\n", "__device__ long long* stamps_out;\n" + (HERE / "stamps.cuh").read_text(), "before"),
    ("    Sums acc;\n    Work work;\n", "    Stamps stamps;\n", "after"),
    ("            const int last = math.multiply_tile<rounds>(", "            stamps.tile();\n            stamps.end(4);\n", "before"),
    ("            before = tiles.tile(work);", "            stamps.end(1);\n", "before"),
    ("            math.finish(last);\n#pragma unroll", "            stamps.end(2);\n", "inside"),
    ("            is_first = false;\n", "            stamps.end(3);\n", "after"),
    ("            const int last = math.multiply_tile<1>(", "            stamps.tile();\n            stamps.end(4);\n", "before"),
    ("            const Tile tile = tiles.tile(work);\n", "            stamps.end(1);\n", "before"),
    ("            math.finish(last);\n            store_staged(", "            stamps.end(2);\n", "inside"),
    ("            store_staged(out, tile, row0, rank, staging, group, acc);\n", "            stamps.end(3);\n", "after"),
    ("    if (threadIdx.x % 128 == 0) store_wait_read<0>();\n}\n\n}  // namespace", "    stamps.write(stamps_out, group);\n", "before"),
]


def stamped(text, stamps):
    """The text with each stamp before or after the line that occurs once in it, or inside it, after its first line."""
    for at, stamp, where in stamps:
        if text.count(at) != 1:
            raise SystemExit(f"tile_clocks.py: stands {text.count(at)} times in the template: {at!r}")
        first, rest = at.split("\n", 1) if where == "inside" else ("", at)
        text = text.replace(at, {"before": stamp + at, "after": at + stamp, "inside": f"{first}\n{stamp}{rest}"}[where])
    return text


def rendered(parameters):
    text = (TEMPLATES / "gemm/wgmma/kernel.cuh").read_text()
    if int(parameters["overlap_epilogue"]) != 0:
        text = text.replace(WHOLE_INCLUDE, stamped((TEMPLATES / "gemm/wgmma/whole_loop.cuh").read_text().replace("#pragma once\n", ""), STAMPS_OF_WHOLE))
    else:
        text = stamped(text, STAMPS)
    return re.sub(r"\$\{(\w+)\}", lambda match: str(parameters[match.group(1)]), text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--param", action="append", default=[])
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--raster", type=int, default=0)
    parser.add_argument("--launches", type=int, default=12)
    options = parser.parse_args()
    parameters = USUAL | dict(word.split("=") for word in options.param)
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "kernel.cu"), pathlib.Path(folder, "tile_clocks")
        source.write_text(rendered(parameters))
        subprocess.run(["nvcc", "-O3", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-I", TEMPLATES, f'-DKERNEL_SOURCE="{source}"', "-o", program,
                        HERE / "tile_clocks.cu"], check=True)
        for shape in options.shapes:
            numbers = [*shape.split("x"), options.stages, options.group, options.raster, options.launches]
            print(shape, " ".join(options.param), flush=True)
            subprocess.run([program, *map(str, numbers)], check=True, timeout=20)


if __name__ == "__main__":
    sys.exit(main())
