"""Times of several ways to run one thing: a block of each in every round, in random order."""

import dataclasses
import math
import random
import time
from typing import Any, Callable, Dict, List

import torch

from ratios import Times


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    run: Callable[[], Any]
    context: Callable[[], Any]  # entered around each block, outside of its time


def _block_ms(row: Row, calls: int, device: torch.device) -> float:
    with row.context():
        row.run()  # a block does not include the extra cost of the first call in a context
        if device.type != "cuda":
            began = time.perf_counter()
            for _ in range(calls):
                row.run()
            return (time.perf_counter() - began) * 1000 / calls
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            row.run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / calls


def time_rows(rows: List[Row], device: torch.device, rounds: int, block_s: float, seed: int = 1) -> Times:
    """Returns, for each row, milliseconds per call, with one value for each round."""
    calls = {row.name: max(1, math.ceil(block_s * 1000 / max(_block_ms(row, 3, device), 1e-3))) for row in rows}
    shuffled, order = random.Random(seed), list(rows)
    times: Times = {row.name: [] for row in rows}
    for turn in range(rounds + 1):
        shuffled.shuffle(order)
        for row in order:
            elapsed = _block_ms(row, calls[row.name], device)
            if turn > 0:  # the first round warms up
                times[row.name].append(elapsed)
    return times
