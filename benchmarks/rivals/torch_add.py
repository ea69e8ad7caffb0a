#!/usr/bin/env python3
"""c = a + b: libautotune against torch.add, in one process, on the same buffers, in interleaved rounds. README.md tells the method.

usage: benchmarks/rivals/torch_add.py [--library FILE] [--shapes 65536,1024x1024,...] [--dtypes f32,f16] [--rounds N] [--offset N]
                                [--stream] [--json FILE]

--stream: stream time, what a launch adds where a small kernel of torch stands before each; else each launch stands after another like it.
"""
import argparse
import ctypes
import json
import math
import pathlib
import random
import statistics
import sys
import time

import torch

from autotune_library import Library, find_library

TORCH_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
L2_FOOTPRINTS = 8  # for a bandwidth-bound problem, the same as in the tuner
MOST_SETS = 1024  # the same as in the tuner
SAMPLE_US = 3000  # one sample covers at least this time
FILLER_FLOATS = 33_792  # 132 x 256
HOST_CALLS = 300  # fewer than fit into a stream's queue, so that no call waits for the GPU


def elements_of(shape):
    count = 1
    for extent in shape.split("x"):
        count *= int(extent)
    return count


def make_sets(count, dtype, offset):
    """Sets of operands that together exceed the L2 cache `L2_FOOTPRINTS` times, N(0,1), each `offset` elements past an aligned address."""
    element_bytes = torch.empty(0, dtype=dtype).element_size()
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    sets = min(MOST_SETS, max(1, -(-L2_FOOTPRINTS * l2_bytes // (3 * count * element_bytes))))
    row = (count + offset + 15) // 16 * 16
    a, b = (torch.randn(sets, row, device="cuda").to(dtype)[:, offset:offset + count] for _ in range(2))
    c = torch.full((sets, row), float("nan"), dtype=dtype, device="cuda")[:, offset:offset + count]
    return a, b, c


def graph_of(calls, least=20, filler=None):
    """Makes a graph of all calls in turn, at least `least` of them, each after the filler if there is one. Returns it and the
    number of calls.
    """
    repeats = -(-least // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for call in calls * repeats:
            if filler is not None:
                filler.add_(1.0)
            call()
    return graph, len(calls) * repeats


def time_us(graph, launches, replays):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / (launches * replays)


def interval(values, seed=1, draws=2000):
    """Bootstrap 95 % interval of the median."""
    pick = random.Random(seed)
    medians = sorted(statistics.median(pick.choices(values, k=len(values))) for _ in range(draws))
    return medians[draws * 25 // 1000], medians[draws * 975 // 1000]


def race(graphs, rounds):
    """Paired times of each graph: one sample of each in every round, in random order."""
    replays = {}
    for name, (graph, launches) in graphs.items():
        graph.replay()
        once_us = time_us(graph, launches, 3) * launches
        replays[name] = max(1, round(SAMPLE_US / once_us))
    times = {name: [] for name in graphs}
    order = list(graphs)
    shuffle = random.Random(7)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for name in order:
            times[name].append(time_us(*graphs[name], replays[name]))
    return times


def compare_kernels(library, shape, word, options):
    count, dtype = elements_of(shape), TORCH_TYPES[word]
    a, b, c = make_sets(count, dtype, options.offset)
    plan = library.add_plan(count, word, align=math.gcd(16, options.offset * c.element_size()))
    torch.cuda.synchronize()  # the sets are filled on another stream
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ours = [plan.call(a[i].data_ptr(), b[i].data_ptr(), c[i].data_ptr(), stream.cuda_stream) for i in range(len(a))]
        for call in ours:
            call()
        stream.synchronize()
        is_equal = torch.equal(c, a + b)
    theirs = [lambda i=i: torch.add(a[i], b[i], out=c[i]) for i in range(len(a))]
    # A capture has its own stream, so we pass the stream to our library when the capture begins.
    def on_capture_stream():
        current = torch.cuda.current_stream().cuda_stream
        for i in range(len(a)):
            plan.call(a[i].data_ptr(), b[i].data_ptr(), c[i].data_ptr(), current)()
            if filler is not None and i + 1 < len(a):
                filler.add_(1.0)
    filler = torch.zeros(FILLER_FLOATS, device="cuda") if options.stream else None
    graphs = {"torch": graph_of(theirs, filler=filler), "autotune": None}
    graph, sets = graph_of([on_capture_stream], least=-(-20 // len(a)), filler=filler)
    graphs["autotune"] = (graph, sets * len(a))
    if options.stream:
        graphs["filler"] = graph_of([lambda: None], least=200, filler=filler)
    times = race(graphs, options.rounds)
    if options.stream:
        fillers = times.pop("filler")
        times = {name: [us - alone for us, alone in zip(values, fillers)] for name, values in times.items()}
    ratios = [mine / other for mine, other in zip(times["autotune"], times["torch"])]
    low, high = interval(ratios)
    moved_bytes = 3 * count * c.element_size()
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {"shape": shape, "dtype": word, "elements": count, "offset": options.offset, "sets": len(a), "rounds": options.rounds, "equal_to_torch": is_equal,
            "torch_us": medians["torch"], "autotune_us": medians["autotune"],
            "torch_gb_per_s": moved_bytes / medians["torch"] * 1e-3, "autotune_gb_per_s": moved_bytes / medians["autotune"] * 1e-3,
            "ratio": statistics.median(ratios), "ratio_low": low, "ratio_high": high,
            "origin": plan.origin(), "candidate": plan.candidate()}


def host_ns(call, batches=30):
    """Nanoseconds of a call that only enqueues: the median over batches, each of which starts when the GPU is idle."""
    found = []
    for _ in range(batches):
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(HOST_CALLS):
            call()
        found.append((time.perf_counter_ns() - begin) / HOST_CALLS)
    return statistics.median(found)


def compare_hosts(library):
    count = 1024
    a, b = torch.randn(2, count, device="cuda")
    c = torch.empty_like(a)
    plan = library.add_plan(count, "f32")
    stream = torch.cuda.current_stream().cuda_stream
    empty = library.c.autotune_version  # a function that reads no argument
    calls = {"torch.add(a, b, out=c)": lambda: torch.add(a, b, out=c), "torch.add(a, b)": lambda: torch.add(a, b),
             "autotune_add through ctypes": plan.call(a.data_ptr(), b.data_ptr(), c.data_ptr(), stream),
             "ctypes alone, 5 arguments": bound(empty, [None] * 5),
             "raw launch through ctypes": empty_launch(stream), "ctypes alone, 11 arguments": bound(empty, [None] * 11)}
    for call in calls.values():
        call()
    return {name: host_ns(call) for name, call in calls.items()}


def bound(function, arguments):
    """Returns a function without arguments. Arguments of the other function are converted for C once, here."""
    arguments = tuple(x if isinstance(x, ctypes.c_uint) else ctypes.c_void_p(x) for x in arguments)
    return lambda: function(*arguments)


def empty_launch(stream):
    """Launches a kernel without parameters that does nothing, with the driver only. No library can take less time."""
    driver = ctypes.CDLL("libcuda.so.1")
    text = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n\0"
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    status = driver.cuModuleLoadData(ctypes.byref(module), text)
    status = status or driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing")
    if status != 0:
        raise RuntimeError(f"the driver does not load an empty kernel: {status}")
    one, threads, none = ctypes.c_uint(1), ctypes.c_uint(32), ctypes.c_uint(0)
    return bound(driver.cuLaunchKernel, [function.value, one, one, one, threads, one, one, none, stream, None, None])


def print_row(row):
    print(f"{row['dtype']:5} {row['shape']:>12} {row['torch_us']:9.2f} {row['autotune_us']:9.2f} {row['torch_gb_per_s']:7.0f} "
          f"{row['autotune_gb_per_s']:7.0f}  {row['ratio']:.3f} ({row['ratio_low']:.3f} .. {row['ratio_high']:.3f})  "
          f"{'equal' if row['equal_to_torch'] else 'DIFFERS'}  {row['origin']}  {row['candidate']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--library", default=find_library(root))
    parser.add_argument("--shapes", default="268435456,256x256,512x512,1024x1024,2048x2048,4096x4096")
    parser.add_argument("--dtypes", default="f32,f16")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--offset", type=int, default=0, help="elements between an aligned address and each operand")
    parser.add_argument("--stream", action="store_true", help="each launch behind a small kernel, whose time is taken off")
    parser.add_argument("--json", help="write everything there too")
    options = parser.parse_args()
    if options.library is None:
        sys.exit("torch_add.py: no libautotune.so in build/; build it (tools/dev build autotune_shared) or name it by --library")
    if not torch.cuda.is_available():
        sys.exit("torch_add.py: torch sees no GPU")
    torch.zeros(1, device="cuda")  # makes the context current
    library = Library(options.library)
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
             "autotune": library.version(), "host_ns": compare_hosts(library), "rows": []}
    print(f"{found['device']}, torch {found['torch']}, CUDA {found['cuda']}, autotune {found['autotune']}")
    for name, cost_ns in found["host_ns"].items():
        print(f"host cost of a call: {name:30} {cost_ns:7.0f} ns")
    print("dtype        shape  torch us   ours us   GB/s: torch, ours  time ratio")
    for word in options.dtypes.split(","):
        for shape in options.shapes.split(","):
            found["rows"].append(compare_kernels(library, shape, word, options))
            print_row(found["rows"][-1])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(row["equal_to_torch"] for row in found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
