"""Verdicts of tune(): how ours does against aten's own kernel on a device, in a stream and in a CUDA graph. A patch takes over what has won.

They stand in a file of lines beside the database, so that every process decides alike and none races. A line is appended by one write, and the last
one of a problem counts. A verdict holds for one device, torch and cuBLAS: with another torch the calls stay with aten until they are tuned again.
"""

import functools
import importlib.metadata
import json
import os
import pathlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch

from ..problem import Problem, Tensor


class Verdict(NamedTuple):
    problem: Problem
    in_stream: float  # aten's time over ours
    in_graphs: float


def path() -> pathlib.Path:
    database = os.environ.get("AUTOTUNE_DB")
    if database:
        return pathlib.Path(f"{database}.torch.jsonl")
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = pathlib.Path(data) if os.path.isabs(data) else pathlib.Path.home() / ".local" / "share"
    return folder / "autotune" / "autotune.db.torch.jsonl"


@functools.lru_cache(maxsize=None)
def against() -> str:
    """What a verdict was won against."""
    for name in ("nvidia-cublas", "nvidia-cublas-cu12"):
        try:
            return f"torch {torch.__version__} cublas {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"torch {torch.__version__} cuda {torch.version.cuda}"


def device_of(index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    return f"{found.name} sm_{found.major}{found.minor} {found.multi_processor_count}"


def store(verdicts: Iterable[Verdict], device: str) -> None:
    """Raises OSError where the file cannot be written."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(
        json.dumps({**_written(each.problem), "device": device, "against": against(), "in_stream": each.in_stream, "in_graphs": each.in_graphs}) + "\n"
        for each in verdicts
    )
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, lines.encode())
    finally:
        os.close(descriptor)


def load(device: Optional[str] = None) -> List[Verdict]:
    """Those of a device, or of all, against this torch. Lines that cannot be read are left out."""
    try:
        state = os.stat(path())
    except OSError:
        return []
    return list(_loaded(path(), state.st_mtime_ns, state.st_size, device, against()))


@functools.lru_cache(maxsize=16)
def _loaded(file: pathlib.Path, changed_ns: int, size: int, device: Optional[str], rival: str) -> Tuple[Verdict, ...]:
    found: Dict[Tuple[str, Problem], Verdict] = {}
    for line in file.read_text().splitlines():
        try:
            record = json.loads(line)
            if record["against"] == rival and device in (None, record["device"]):
                problem = _read(record)
                found[record["device"], problem] = Verdict(problem, float(record["in_stream"]), float(record["in_graphs"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return tuple(found.values())


def _written(problem: Problem) -> Dict[str, Any]:
    tensors = {name: [each.dtype, list(each.shape), list(each.strides), each.align] for name, each in problem.tensors.items()}
    return {"op": problem.op, "tensors": tensors, "attributes": dict(problem.attributes)}


def _read(record: Dict[str, Any]) -> Problem:
    def tensor(written: Tuple[Any, ...]) -> Tensor:
        dtype, shape, strides, align = written
        return Tensor(dtype, tuple(shape), tuple(strides), align)

    return Problem(record["op"], {name: tensor(each) for name, each in record["tensors"].items()}, record["attributes"])
