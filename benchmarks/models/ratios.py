"""Ratios of paired blocks, with intervals."""

import math
import statistics
from typing import Dict, List, Tuple

Times = Dict[str, List[float]]  # by row, one time for each round


def interval(values: List[float], confidence: float = 0.95) -> Tuple[float, float, float]:
    """Returns the median and an interval of it that uses only the order of the values, because a machine's noise is not
    normal. Its ends are values of ranks between which the median lies with at least `confidence`; with fewer than six values
    they are the smallest and the largest.
    """
    ordered, count = sorted(values), len(values)
    rank, below = 0, 0.0
    while rank < (count - 1) // 2:
        below += math.comb(count, rank) / 2**count
        if 2 * below > 1 - confidence:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return statistics.median(ordered), ordered[rank], ordered[count - 1 - rank]


def ratios_of(times: Times) -> Dict[str, Tuple[float, float, float]]:
    """Returns how many times as fast as torch each row is, and ours compared with torch*: median and interval of the paired
    blocks.
    """
    pairs = [("torch", name) for name in times if name != "torch"]
    if "torch*" in times and "ours" in times:
        pairs.append(("torch*", "ours"))
    return {f"{of}/{over}": interval([a / b for a, b in zip(times[of], times[over])]) for of, over in pairs}
