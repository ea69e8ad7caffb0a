#!/usr/bin/env python3
"""Public models with random weights: torch beside torch with masks that its own kernels take (torch*) and beside autotune, in one process.

usage: models.py NAME... [--mode eager,graph,compile] [--step infer,train] [--out FILE] [options]     NAME: of zoo.py; none: the fifteen
       models.py --table FILE...                                                                      prints results of earlier runs

One line of JSON for each model, step and mode goes to FILE; a later run with the same FILE leaves out what is there. README.md explains the rows.
"""

import argparse
import contextlib
import copy
import fcntl
import gc
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

import report
import zoo
from paired import Row, time_rows
from ratios import ratios_of

try:
    import autotune.torch as at
except ImportError:  # without autotune, comparing torch with itself still shows the machine's noise
    at = None

MODES = ("eager", "graph", "compile")
WARM_CALLS = 3


class Side:
    """One of the compared ways to run a model: a module, what is active around its calls, and, where it is measured, its compiled code."""

    def __init__(self, module: torch.nn.Module, context: Callable[[], Any] = contextlib.nullcontext):
        self.module, self.context = module, context
        self.code: Optional[Callable[..., Any]] = None


def shared_copy(module: torch.nn.Module) -> torch.nn.Module:
    """Makes a module that shares parameters and buffers, so that changes of one side to the module do not affect the others."""
    kept = {id(each): each for each in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, kept)


def step_of(built: zoo.Built, function: Callable[..., Any], parameters: List[torch.nn.Parameter], trains: bool) -> Callable[[], List[torch.Tensor]]:
    """Makes a call of the model. The call returns the output or, for a training step (forward, a loss, backward), the
    gradients.
    """

    def infer() -> List[torch.Tensor]:
        with torch.no_grad():
            return [built.call(function, built.inputs)]

    def train() -> List[torch.Tensor]:
        for each in parameters:
            each.grad = None
        built.call(function, built.inputs).float().square().mean().backward()
        return [each.grad for each in parameters if each.grad is not None]

    return train if trains else infer


def captured(step: Callable[[], List[torch.Tensor]]) -> Callable[[], List[torch.Tensor]]:
    """The step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_CALLS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = step()

    def replay() -> List[torch.Tensor]:
        graph.replay()
        return outputs

    return replay


def row_of(name: str, side: Side, built: zoo.Built, mode: str, trains: bool) -> Row:
    function = side.code if mode == "compile" and side.code is not None else side.module
    step = step_of(built, function, list(side.module.parameters()), trains)
    with side.context():
        for _ in range(WARM_CALLS):  # these calls make plans and let torch decide what it decides at first calls
            step()
        return Row(name, captured(step) if mode == "graph" else step, side.context)


def relative_error(found: List[torch.Tensor], wanted: List[torch.Tensor]) -> float:
    """Returns the norm of the difference from the results in f32, divided by the norm of those."""
    difference = sum(float((a.detach().float() - b.to(a.device)).square().sum(dtype=torch.float64)) for a, b in zip(found, wanted))
    whole = sum(float(b.square().sum(dtype=torch.float64)) for b in wanted)
    return (difference / whole) ** 0.5


def in_f32(built: zoo.Built, trains: bool) -> List[torch.Tensor]:
    """Returns the results in f32 for the same weights and inputs, computed on the host if the GPU has no such kernel."""
    try:
        return _in_f32(built, trains, next(iter(built.inputs.values())).device)
    except RuntimeError:
        return _in_f32(built, trains, torch.device("cpu"))


def _in_f32(built: zoo.Built, trains: bool, device: torch.device) -> List[torch.Tensor]:
    module = copy.deepcopy(built.module).to(device).float()
    inputs = {name: (each.float() if each.is_floating_point() else each).to(device) for name, each in built.inputs.items()}
    wide = zoo.Built(module, inputs, built.call)
    precise = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return [each.detach().float() for each in step_of(wide, module, list(module.parameters()), trains)()]
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = precise


def batches(built: zoo.Built, count: int) -> Iterator[None]:
    """Puts `count` batches into the inputs, one after the other: the model's own, then its token ids in other orders. At the end its own are back."""
    kept = {name: each.clone() for name, each in built.inputs.items()}
    for seed in range(count):
        for name in kept.keys() & {"input_ids"} if seed > 0 else ():
            order = torch.randperm(kept[name].numel(), generator=torch.Generator().manual_seed(seed))
            built.inputs[name].copy_(kept[name].flatten()[order.to(kept[name].device)].view_as(kept[name]))
        yield
    for name, each in kept.items():
        built.inputs[name].copy_(each)


def taken() -> int:
    """Returns how many calls have run one of our kernels so far."""
    return 0 if at is None else at.status()["taken"]


def sides_of(built: zoo.Built, device: str) -> Dict[str, Side]:
    """Returns the sides of the rows. `ours` has the masks of torch*, and uses the same module and compiled code under the
    patch.
    """
    sides = {"torch": Side(built.module), "again": Side(built.module)}
    if at is None:
        return sides
    masked = shared_copy(built.module)
    module = masked if at.sane_masks(masked) else built.module
    sides["torch*"] = Side(module)
    if device == "cuda":
        sides["ours"] = Side(module, lambda: at.patch(wait=True))
    return sides


def compile_sides(built: zoo.Built, sides: Dict[str, Side], trains: bool) -> None:
    """Compiles each module once. The host does most of this work."""
    torch._dynamo.reset()
    codes: Dict[int, Callable[..., Any]] = {}
    for side in sides.values():
        if id(side.module) not in codes:
            code = codes[id(side.module)] = torch.compile(side.module)
            step_of(built, code, list(side.module.parameters()), trains)()
        side.code = codes[id(side.module)]


def tune(built: zoo.Built, side: Side, trains: bool, options: argparse.Namespace) -> Dict[str, Any]:
    """Finds winners for the problems of the model and, if compiled code is measured, of that code."""
    function = side.module if side.code is None else side.code  # a compiled module has no truth value
    for each in side.module.parameters():
        each.grad = None
    began = time.perf_counter()
    tuned = at.tune(lambda: built.call(function, built.inputs), (), backward=trains, budget=options.budget, total_budget=options.total_budget, rounds=5)
    if options.verbose:
        print(tuned, file=sys.stderr)
    return {"tune_s": round(time.perf_counter() - began, 1), "problems": len(tuned.problems)}


def measure(built: zoo.Built, sides: Dict[str, Side], wanted: List[List[torch.Tensor]], mode: str, trains: bool, options: argparse.Namespace) -> Dict[str, Any]:
    """The numbers of one model, step and mode."""
    rows: List[Row] = []
    counted: Optional[int] = None
    for name, side in sides.items():
        before = taken()
        rows.append(row_of(name, side, built, mode, trains))
        if name == "ours":
            counted = (taken() - before) // (WARM_CALLS if mode != "graph" else 2 * WARM_CALLS + 1)
    errors = {}
    for row in rows:
        with row.context():
            each = [relative_error(row.run(), wanted[index]) for index, _ in enumerate(batches(built, len(wanted)))]
            errors[row.name] = (sum(error**2 for error in each) / len(each)) ** 0.5
    times = time_rows(rows, torch.device(options.device), options.rounds, options.block)
    result: Dict[str, Any] = {"ms": {row: sorted(each)[len(each) // 2] for row, each in times.items()}, "errors": errors, "ratios": ratios_of(times)}
    if counted is not None:
        result["taken"] = counted
    return result


def versions(options: argparse.Namespace) -> Dict[str, Any]:
    found: Dict[str, Any] = {"torch": torch.__version__, "device": options.device}
    for package in ("transformers", "timm", "autotune"):
        with contextlib.suppress(Exception):
            found[package] = __import__(package).__version__
    if options.device == "cuda":
        found["device"] = torch.cuda.get_device_name()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        query = ["nvidia-smi", "-i", visible, "--query-gpu=driver_version,clocks.sm,power.limit", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            found["driver, clock, power limit"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    return found


def done_before(path: Optional[pathlib.Path]) -> Dict[str, Dict[str, Any]]:
    if path is None or not path.exists():
        return {}
    return {report.key(each): each for each in report.read([path]) if "failed" not in each}


class Gpu:
    """A lock for work on the GPU, so that several of these programs can share one card. While one of them measures, the others
    compile code.
    """

    def __init__(self, path: Optional[pathlib.Path]):
        self._file = None if path is None else open(path, "w")
        self._holders, self._lock = 0, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:  # threads of one program hold the lock together
            if self._holders == 0 and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._holders += 1

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def guard_triton(self) -> None:
        """At their first call, torch.compile's kernels race their variants. These races also need the GPU alone."""
        if self._file is None:
            return
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        theirs = CachingAutotuner.benchmark_all_configs

        def benchmark(*args: Any, **options: Any) -> Any:
            with self:
                return theirs(*args, **options)

        CachingAutotuner.benchmark_all_configs = benchmark


def run_model(
    name: str, options: argparse.Namespace, gpu: Gpu, emit: Callable[[Dict[str, Any]], None], is_done: Callable[[Dict[str, Any]], bool]
) -> None:
    device = torch.device(options.device)
    entry = zoo.MODELS[name]
    for step in options.step:
        trains = step == "train"
        head = {"model": name, "step": step, "layers": options.layers, "tiny": options.tiny}
        modes = [mode for mode in options.mode if options.again or not is_done({**head, "mode": mode})]
        if not modes or (trains and not entry.trains):
            continue
        notes: Dict[str, Any] = {}
        try:
            with gpu:
                built = zoo.build(name, device, options.tiny, options.layers)
                built.module.requires_grad_(trains)
                wanted = [in_f32(built, trains) for _ in batches(built, 1 if trains else entry.error_batches)]
            sides = sides_of(built, options.device)
            began = time.perf_counter()
            if "compile" in modes:
                compile_sides(built, sides, trains)
                notes["compile_s"] = round(time.perf_counter() - began, 1)
            if "ours" in sides:
                with gpu:
                    notes.update(tune(built, sides["ours"], trains, options))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            for mode in modes:
                emit({**head, "mode": mode, "failed": f"{type(error).__name__}: {error}"[:400], **notes})
            continue
        for mode in modes:
            with gpu:
                began = time.perf_counter()
                try:
                    found = measure(built, sides, wanted, mode, trains, options)
                except Exception as error:
                    traceback.print_exc(file=sys.stderr)
                    found = {"failed": f"{type(error).__name__}: {error}"[:400]}
                gc.collect()
                if options.device == "cuda":
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
            emit({**head, "mode": mode, **found, **notes, "seconds": round(time.perf_counter() - began, 1)})
        del built, sides, wanted
        gc.collect()


def words(known: Any) -> Callable[[str], List[str]]:
    def parse(text: str) -> List[str]:
        found = text.split(",")
        for each in found:
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each!r} is not one of {', '.join(known)}")
        return found

    return parse


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--mode", type=words(MODES), default=None, help="of eager,graph,compile; all that the device has")
    parser.add_argument("--step", type=words(("infer", "train")), default=["infer", "train"], help="train: for the three models that have one")
    parser.add_argument("--out", type=pathlib.Path, help="JSON lines; what is in it already is not measured again")
    parser.add_argument("--table", type=pathlib.Path, nargs="+", help="print these results and measure nothing")
    parser.add_argument("--again", action="store_true", help="measure what --out has too; the newer result counts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="sizes for a test of this program")
    parser.add_argument("--layers", type=int, default=0, help="instead of the model's own number here")
    parser.add_argument("--rounds", type=int, default=21, help="paired blocks of each row")
    parser.add_argument("--block", type=float, default=0.1, help="seconds of a block")
    parser.add_argument("--budget", default="5s", help="of a problem's search")
    parser.add_argument("--total-budget", default="2m", help="of a model's search")
    parser.add_argument("--lock", type=pathlib.Path, metavar="FILE", help="shared by all of these programs that run on one card: only one measures at a time")
    parser.add_argument("--verbose", action="store_true", help="print what was tuned")
    options = parser.parse_args()
    if options.table:
        print(report.table(report.read(options.table)))
        return 0
    unknown = [name for name in options.names if name not in zoo.MODELS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(zoo.MODELS)}")
    options.mode = options.mode or [mode for mode in MODES if options.device == "cuda" or mode != "graph"]
    if options.device == "cpu" and "graph" in options.mode:
        parser.error("--mode graph needs a GPU")
    warnings.filterwarnings("ignore", category=UserWarning)
    done, common, results = done_before(options.out), versions(options), []

    def emit(result: Dict[str, Any]) -> None:
        results.append({**result, "versions": common, "rounds": options.rounds, "block_s": options.block})
        print(report.line(results[-1]), flush=True)
        if options.out is not None:
            with open(options.out, "a", buffering=1 << 20) as file:  # in one write, because other programs append lines too
                file.write(json.dumps(results[-1]) + "\n")

    gpu = Gpu(options.lock)
    gpu.guard_triton()
    for name in options.names or zoo.FIFTEEN:
        run_model(name, options, gpu, emit, lambda head: report.key(head) in done)
    print(report.table([*done.values(), *results]))
    return 1 if any("failed" in each for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
