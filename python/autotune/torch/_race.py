"""Times of functions on the GPU, side by side: each in a CUDA graph of several calls, rounds interleaved, medians and ratios."""

import functools
import random
import statistics
from typing import Callable, Dict, List, Tuple

import torch

FLUSH_BYTES = 256 << 20  # more than any L2
_QUEUE_CYCLES = 2_000_000  # a millisecond, in which the calls of a turn are queued
_LEAST_READ = 32 << 20
_COLD_CALLS = 8  # calls in one turn of a race
_LONG_US, _SETTLE_US, _BLOCK_US = 100.0, 50_000.0, 60_000.0  # longer calls are raced in blocks, once the clock has settled


def graph_of(function: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    """Captures `calls` calls in one CUDA graph, after three warm-up calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function()
    return graph


def time_us(run: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000


def race(
    functions: Dict[str, Callable[[], object]], *, rounds: int = 15, calls: int = 10, flush: bool = True, seed: int = 1
) -> Dict[str, List[float]]:
    """Microseconds per call of each function, one value per round, in random order in each round. Each function runs as a CUDA
    graph of `calls` calls; `flush` empties L2 before each graph, outside of the measured time.
    """
    graphs = {name: graph_of(function, calls) for name, function in functions.items()}
    times = race_runs({name: graph.replay for name, graph in graphs.items()}, rounds=rounds, flush=flush, seed=seed)
    return {name: [each / calls for each in of_name] for name, of_name in times.items()}


def race_runs(
    runs: Dict[str, Callable[[], object]], *, rounds: int = 15, flush: bool = False, seed: int = 1, wait_cycles: int = 0
) -> Dict[str, List[float]]:
    """Like `race`, for functions that are ready to run, such as captured graphs: microseconds per run. The GPU waits before
    each.
    """
    spare = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda") if flush else None
    order, shuffled = list(runs), random.Random(seed)
    times: Dict[str, List[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        shuffled.shuffle(order)
        for name in order:
            if spare is not None:
                spare.zero_()
            if wait_cycles:
                torch.cuda._sleep(wait_cycles)
            elapsed = time_us(runs[name])
            if turn > 0:  # the first round warms up
                times[name].append(elapsed)
    return times


def gains_over(theirs: Callable[[], object], ours: Callable[[], object], *, rounds: int = 9) -> Tuple[float, float]:
    """How many times as long theirs takes as ours, on the current stream and in a CUDA graph: above 1 ours is faster. Before
    each short call a kernel reads through L2, like a model's other weights; its time is measured too and subtracted. In the
    stream the GPU waits until all calls of a turn are queued, so no time includes the host's. Long calls are raced only in the
    stream, in blocks.
    """
    ours()
    call_us = min(_warm_us(theirs) for _ in range(3))  # the first one may load a library
    if call_us > _LONG_US:
        gain = _gain_under_load(theirs, ours, call_us)
        return gain, gain
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    spare = torch.zeros(max(2 * l2_bytes, _LEAST_READ) // 4, device="cuda")

    def cold(function: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(_COLD_CALLS):
                spare.sum()
                function()

        return run

    runs = {"nothing": cold(lambda: None), "theirs": cold(theirs), "ours": cold(ours)}
    in_stream = _gain(race_runs(runs, rounds=rounds, wait_cycles=_QUEUE_CYCLES))
    try:
        graphs = {name: _captured(run) for name, run in runs.items()}
    except RuntimeError:  # theirs cannot be captured, or there is no memory for a graph
        return in_stream, in_stream
    return in_stream, _gain(race_runs({name: graph.replay for name, graph in graphs.items()}, rounds=rounds))


def _gain(times: Dict[str, List[float]]) -> float:
    reading = statistics.median(times["nothing"])
    pairs = zip(times["theirs"], times["ours"])
    return statistics.median((a - reading) / (b - reading) if b > reading else 1.0 for a, b in pairs)


@functools.lru_cache(maxsize=None)
def _side_stream(device: int) -> torch.cuda.Stream:
    """One stream for all races, because torch keeps a workspace of cuBLAS for each stream that was ever used."""
    return torch.cuda.Stream(device)


def _captured(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Captures without torch.cuda.graph's preparations, which collect garbage and empty the allocator's cache."""
    graph, side = torch.cuda.CUDAGraph(), _side_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            run()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(side)
    return graph


def _gain_under_load(theirs: Callable[[], object], ours: Callable[[], object], call_us: float) -> float:
    """Runs blocks of each function alone, at the clock that it sustains. At the power limit, a kernel that alternates with
    another one also uses part of the other's power. A training step with products that won alternating rounds took an H200 3 %
    longer.
    """
    warm, timed = (int(share_us / call_us) + 1 for share_us in (_SETTLE_US, _BLOCK_US))

    def block_us(function: Callable[[], object]) -> float:
        for _ in range(warm):
            function()
        return time_us(lambda: [function() for _ in range(timed)])

    first, second, third, fourth = (block_us(function) for function in (theirs, ours, ours, theirs))
    return (first + fourth) / (second + third)


def _warm_us(function: Callable[[], object]) -> float:
    function()
    return time_us(function)


def ratio(times: Dict[str, List[float]], of: str, over: str) -> float:
    """The median of the paired rounds' ratios: above 1 `over` is faster."""
    return statistics.median(a / b for a, b in zip(times[of], times[over]))
