"""Times of functions on the GPU, side by side: each in a CUDA graph of several calls, rounds interleaved, medians and ratios."""

import random
import statistics
from typing import Callable, Dict, List

import torch

FLUSH_BYTES = 256 << 20  # more than any L2
_QUEUE_CYCLES = 2_000_000  # a millisecond: what it takes to queue the calls of a turn


def graph_of(function: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    """`calls` calls in one CUDA graph, after three that warm up."""
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
    """Microseconds a call of each function, a value a round, in an order that is random in each round.

    Each runs as a CUDA graph of `calls` calls; `flush` empties L2 before each graph, outside of its time.
    """
    graphs = {name: graph_of(function, calls) for name, function in functions.items()}
    times = race_runs({name: graph.replay for name, graph in graphs.items()}, rounds=rounds, flush=flush, seed=seed)
    return {name: [each / calls for each in of_name] for name, of_name in times.items()}


def race_runs(
    runs: Dict[str, Callable[[], object]], *, rounds: int = 15, flush: bool = False, seed: int = 1, wait_cycles: int = 0
) -> Dict[str, List[float]]:
    """As `race` for what is ready to run, such as graphs that were captured before: microseconds a run. The GPU waits before each."""
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


def race_queued(functions: Dict[str, Callable[[], object]], *, rounds: int = 7, calls: int = 8, seed: int = 1) -> Dict[str, List[float]]:
    """As `race` without graphs, on the current stream: the GPU waits until all calls of a turn are queued, so the host's time is in none.

    Each call runs after a small kernel of another kind, as in a model, whose time is in the values.
    """
    small = torch.zeros(1 << 15, device="cuda")

    def run(function: Callable[[], object]) -> None:
        for _ in range(calls):
            small.add_(1)
            function()

    def queued(function: Callable[[], object]) -> Callable[[], object]:
        return lambda: run(function)

    runs = {name: queued(function) for name, function in functions.items()}
    times = race_runs(runs, rounds=rounds, seed=seed, wait_cycles=_QUEUE_CYCLES)
    return {name: [each / calls for each in of_name] for name, of_name in times.items()}


def ratio(times: Dict[str, List[float]], of: str, over: str) -> float:
    """Median of the paired rounds' ratios: above 1 `over` is faster."""
    return statistics.median(a / b for a, b in zip(times[of], times[over]))
