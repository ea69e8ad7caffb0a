"""Verdicts of tune(): how ours does against aten's own kernel on a device, in a stream and in a CUDA graph. A patch takes over what has won.

They stand in the database (include/autotune/verdicts.h), so that every process decides alike and none races. A verdict holds for one device, torch and
cuBLAS: with another torch the calls stay with aten until they are tuned again.
"""

import ctypes
import functools
import importlib.metadata
import json
import os
import pathlib
import warnings
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple

import torch

from .. import _library
from ..errors import Error
from ..problem import Problem, Tensor


class Verdict(NamedTuple):
    problem: Problem
    in_stream: float  # aten's time / ours
    in_graphs: float


@functools.lru_cache(maxsize=None)
def against() -> str:
    """The versions against which a verdict was won."""
    for name in ("nvidia-cublas", "nvidia-cublas-cu12"):
        try:
            return f"torch {torch.__version__} cublas {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"torch {torch.__version__} cuda {torch.version.cuda}"


def _data_folder() -> pathlib.Path:
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = pathlib.Path(data) if os.path.isabs(data) else pathlib.Path.home() / ".local" / "share"
    return folder / "autotune"


def device_of(index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    return f"{found.name} sm_{found.major}{found.minor} {found.multi_processor_count}"


def store(verdicts: Iterable[Verdict], device: str) -> None:
    """Stores verdicts. Raises Error if the database cannot be written."""
    _take_old_file()
    _put([(text_of(each.problem), device, against(), each.in_stream, each.in_graphs) for each in verdicts])


def load(device: Optional[str] = None) -> List[Verdict]:
    """Those of a device, or of all, against this torch. A file that cannot be read is a warning. With AUTOTUNE_LABEL the label's alone count."""
    try:
        if not os.environ.get("AUTOTUNE_LABEL"):
            _take_old_file()
        return [Verdict(problem, in_stream, in_graphs) for problem, of, in_stream, in_graphs in _read(against()) if device in (None, of)]
    except Error as error:
        warnings.warn(f"autotune.torch.patch() leaves all calls to torch: {error}", RuntimeWarning, stacklevel=2)
        return []


_Row = Tuple[str, str, str, float, float]  # problem, device, rival, in_stream, in_graphs


def _put(rows: List[_Row]) -> None:
    structs = (_library.VerdictStruct * max(len(rows), 1))()
    for struct, (problem, device, rival, in_stream, in_graphs) in zip(structs, rows):
        struct.struct_size = ctypes.sizeof(_library.VerdictStruct)
        struct.problem, struct.device, struct.rival = problem.encode(), device.encode(), rival.encode()
        struct.in_stream, struct.in_graphs = in_stream, in_graphs
    _library.check(_library.put_verdicts(None, structs, len(rows)))


def _read(rival: str) -> List[Tuple[Problem, str, float, float]]:
    rows: List[Tuple[str, str, float, float]] = []

    def use(_: Any, verdict: Any) -> None:
        row = verdict.contents
        rows.append((row.problem.decode(), row.device.decode(), row.in_stream, row.in_graphs))

    _library.check(_library.read_verdicts(None, rival.encode(), _library.VerdictFunction(use), None))
    read = ((problem_of(text), device, in_stream, in_graphs) for text, device, in_stream, in_graphs in rows)
    return [(problem, *rest) for problem, *rest in read if problem is not None]


def text_of(problem: Problem) -> str:
    """`gemm beta="zero" a:bf16:16x4096:4096x1:16 b:... c:...`: attributes as JSON, tensors with type, shape, strides and alignment."""
    attributes = [f"{name}={json.dumps(value).replace(' ', chr(92) + 'u0020')}" for name, value in sorted(problem.attributes.items())]
    tensors = [f"{name}:{each.dtype}:{_joined(each.shape)}:{_joined(each.strides)}:{each.align}" for name, each in problem.tensors.items()]
    return " ".join([problem.op, *attributes, *tensors])


def _joined(numbers: Iterable[int]) -> str:
    return "x".join(map(str, numbers))


@functools.lru_cache(maxsize=8192)
def problem_of(text: str) -> Optional[Problem]:
    """Returns None for text that is not a problem, from another version or another program."""
    op, *words = text.split(" ")
    attributes, tensors = {}, {}
    try:
        for word in words:
            name, equals, value = word.partition("=")
            if equals and ":" not in name:
                attributes[name] = json.loads(value)
                continue
            name, dtype, shape, strides, align = word.split(":")
            tensors[name] = Tensor(dtype, *(tuple(int(each) for each in numbers.split("x")) for numbers in (shape, strides)), int(align))
        return Problem(op, tensors, attributes) if tensors else None
    except (ValueError, TypeError, Error):
        return None


def _old_file() -> pathlib.Path:
    """The file in which verdicts were stored before the database had them: lines, next to the database."""
    database = os.environ.get("AUTOTUNE_DB")
    if database:
        return pathlib.Path(f"{database}.torch.jsonl")
    return _data_folder() / "autotune.db.torch.jsonl"


def _take_old_file() -> None:
    """Adds the lines of such a file to the database, once: the file is then renamed. Lines that cannot be read are left out."""
    try:
        file = _old_file()
        lines = file.read_text().splitlines()
    except (OSError, RuntimeError, UnicodeDecodeError):
        return
    rows: List[_Row] = []
    for line in lines:
        try:
            record = json.loads(line)
            tensors = {
                name: Tensor(dtype, tuple(shape), tuple(strides), align) for name, (dtype, shape, strides, align) in record["tensors"].items()
            }
            problem = Problem(record["op"], tensors, record["attributes"])
            rows.append((text_of(problem), str(record["device"]), str(record["against"]), float(record["in_stream"]), float(record["in_graphs"])))
        except (ValueError, KeyError, TypeError, AttributeError, Error):
            continue
    try:
        _put(rows)
        os.replace(file, f"{file}.imported")
    except (OSError, Error) as error:
        warnings.warn(f"the verdicts in {file} are not used: they cannot be moved into the database: {error}", RuntimeWarning, stacklevel=3)
