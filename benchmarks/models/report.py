"""Results as lines and as a table."""

import json
import math
import pathlib
from typing import Any, Dict, List, Optional

Result = Dict[str, Any]
_COLUMNS = ("torch/again", "torch/torch*", "torch/ours", "torch*/ours")


def key(result: Result) -> str:
    return " ".join(str(result.get(name)) for name in ("model", "step", "mode", "layers", "tiny"))


def read(paths: List[pathlib.Path]) -> List[Result]:
    """Returns the newest result of each model, step and mode. Skips a line that a killed run left unfinished."""
    found: Dict[str, Result] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                result = json.loads(line)
            except ValueError:
                continue
            if "failed" not in result or key(result) not in found:
                found[key(result)] = result
    return list(found.values())


def _ratio(result: Result, name: str) -> str:
    found = result["ratios"].get(name)
    return "" if found is None else f"{found[0]:.3f} [{found[1]:.3f}, {found[2]:.3f}]"


def _error(result: Result) -> Optional[float]:
    errors = result["errors"]
    return errors["ours"] / errors["torch"] if "ours" in errors and errors["torch"] else None


def line(result: Result) -> str:
    head = f"{result['model']} {result['step']} {result['mode']}: "
    if "failed" in result:
        return head + f"FAILED: {result['failed']}"
    ratios = ", ".join(f"{name} {_ratio(result, name)}" for name in _COLUMNS if name in result["ratios"])
    return head + f"torch {result['ms']['torch']:.3f} ms; {ratios}"


def _cells(result: Result) -> List[str]:
    head = [result["model"], result["step"], result["mode"]]
    if "failed" in result:
        return [*head, "failed", *[""] * len(_COLUMNS), "", "", result["failed"][:60]]
    error = _error(result)
    worst = f"{error:.3f}" if error is not None else ""
    return [*head, f"{result['ms']['torch']:.3f}", *(_ratio(result, name) for name in _COLUMNS), worst, str(result.get("taken", "")), ""]


def geometric_mean(values: List[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _means(results: List[Result]) -> List[str]:
    """For each step and mode: geometric means, the same without the best model, the smallest low end, and the number of low
    ends above 1.
    """
    lines = []
    for step, mode in sorted({(each["step"], each["mode"]) for each in results}):
        for name in _COLUMNS:
            found = [each["ratios"][name] for each in results if (each["step"], each["mode"]) == (step, mode) and name in each.get("ratios", {})]
            if not found:
                continue
            medians = sorted(each[0] for each in found)
            rest = f", without the best {geometric_mean(medians[:-1]):.3f}" if len(medians) > 1 else ""
            lows = [each[1] for each in found]
            lines.append(
                f"{step} {mode} {name}: {len(found)} models, mean {geometric_mean(medians):.3f}{rest}; "
                f"lowest low end {min(lows):.3f}; low end above 1: {sum(low > 1 for low in lows)}"
            )
    return lines


def table(results: List[Result]) -> str:
    if not results:
        return "no results"
    rows = [["model", "step", "mode", "torch ms", *_COLUMNS, "error", "taken", ""], *(_cells(each) for each in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_means(results)])
