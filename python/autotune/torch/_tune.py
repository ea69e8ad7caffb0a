"""`tune(model, inputs)`: finds the problems that a model runs, tunes them, and tells what changed."""

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _engine
from ._engine import Gemm, gemm_problem, plan_of, refresh, tensor_of
from ._race import race, ratio
from ..errors import Error
from ..problem import Problem, Tensor
from ..tuning import ProgressFunction, SweepResult, sweep

_PRODUCTS = {torch.ops.aten.mm.default: 0, torch.ops.aten.bmm.default: 0, torch.ops.aten.mm.out: 0, torch.ops.aten.bmm.out: 0}
_OURS = ("autotune::mm", "autotune::bmm")


class Collector(TorchDispatchMode):
    """Counts the products that run inside it, of forward and backward passes: `problems`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.problems: Counter[Problem] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _PRODUCTS or function.name() in _OURS:
            self._count(args[0], args[1])
        return function(*args, **(kwargs or {}))

    def _count(self, a: torch.Tensor, b: torch.Tensor) -> None:
        usable = a.is_cuda and b.is_cuda and a.dtype == b.dtype and a.dtype in _engine.WORDS and a.numel() and b.numel()
        if not usable:
            return
        c = Tensor(_engine.WORDS[a.dtype], (*a.shape[:-1], b.shape[-1]))
        try:
            problem = gemm_problem(tensor_of(_engine.dense(a)), tensor_of(_engine.dense(b)), c)
            if _engine.handle().supports(problem):
                self.problems[problem] += 1
        except Error:
            pass  # no problem of ours: aten runs it as before


@dataclass(frozen=True)
class TunedProblem:
    """A product of the model. Times are microseconds of one call in a CUDA graph, ours and torch's in the same rounds."""

    problem: Problem
    calls: int
    torch_us: float
    before_us: float
    after_us: float

    @property
    def gain_us(self) -> float:
        """What a step of the model saves if `patch()` takes this product over; 0 where torch is faster."""
        return max(self.torch_us - self.after_us, 0.0) * self.calls

    def record(self) -> Dict[str, Any]:
        return {
            "problem": self.problem.key,
            "calls": self.calls,
            "torch_us": self.torch_us,
            "before_us": self.before_us,
            "after_us": self.after_us,
            "gain_us": self.gain_us,
        }


@dataclass(frozen=True)
class ModelReport:
    """What a tune of a model changed."""

    problems: List[TunedProblem]
    sweep: SweepResult

    @property
    def gain_us(self) -> float:
        """Expected gain of a step."""
        return sum(each.gain_us for each in self.problems)

    def records(self) -> List[Dict[str, Any]]:
        return [each.record() for each in self.problems]

    def to_pandas(self) -> Any:
        import pandas

        return pandas.DataFrame(self.records())

    def __str__(self) -> str:
        rows: List[Tuple[str, ...]] = [("calls", "torch us", "before us", "after us", "gain us", "problem")]
        for each in sorted(self.problems, key=lambda each: -each.gain_us):
            times = (each.torch_us, each.before_us, each.after_us, each.gain_us)
            rows.append((str(each.calls), *(f"{time:.1f}" for time in times), each.problem.key))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join([*(row[i].rjust(widths[i]) for i in range(5)), row[5]]) for row in rows]
        return "\n".join([*lines, f"expected gain of a step: {self.gain_us:.1f} us"])


def collect(step: Callable[[], Any]) -> Dict[Problem, int]:
    """The products that `step` runs on this device, and how often each."""
    with Collector() as collector:
        step()
    torch.cuda.synchronize()
    return dict(collector.problems)


def _memory(tensor: Tensor) -> torch.Tensor:
    dtype = {word: dtype for dtype, word in _engine.WORDS.items()}[tensor.dtype]
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides))
    # A view at the alignment that the model's tensor has.
    shift = 0 if tensor.align >= 16 else tensor.align // torch.empty(0, dtype=dtype).element_size()
    return torch.randn(extent + shift, device="cuda").to(dtype)[shift:].as_strided(tensor.shape, tensor.strides)


def _times(problem: Problem, rounds: int) -> Dict[str, float]:
    a, b = (_memory(problem.tensors[name]) for name in "ab")
    product = Gemm(plan_of(problem, torch.cuda.current_device()), torch.cuda.current_device())
    c = torch.empty(product.shape, dtype=a.dtype, device="cuda")
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    times = race(
        {"torch": lambda: multiply(a, b, out=c), "ours": lambda: product.launch(a.data_ptr(), b.data_ptr(), c.data_ptr())}, rounds=rounds
    )
    torch_us = statistics.median(times["torch"])
    return {"torch": torch_us, "ours": torch_us / ratio(times, "torch", "ours")}


def tune(
    model: Callable[..., Any],
    example_inputs: Sequence[Any] = (),
    *,
    backward: bool = False,
    budget: Optional[str] = None,
    total_budget: Optional[str] = None,
    progress: Optional[ProgressFunction] = None,
    rounds: int = 9,
    **options: Any,
) -> ModelReport:
    """Runs `model(*example_inputs)` once, tunes the products that it runs, and reports each one's time before and after beside torch's.

    backward: runs `.sum().backward()` of the (first) result too, and tunes its products. budget, total_budget, progress and options are
    `autotune.sweep`'s; the search runs in processes of its own and needs part of the GPU's memory for itself. Afterwards every plan is looked up
    anew, so that `patch()` and the operators use the winners. Models are called as they are: without torch.compile.
    """

    def step() -> None:
        result = model(*example_inputs)
        if backward:
            first = result[0] if isinstance(result, (tuple, list)) else result
            first.float().sum().backward()

    with torch.enable_grad() if backward else torch.no_grad():
        problems = collect(step)
    before = {problem: _times(problem, rounds) for problem in problems}
    swept = sweep(problems, budget=budget, total_budget=total_budget, progress=progress, device=torch.cuda.current_device(), **options)
    refresh()
    after = {problem: _times(problem, rounds) for problem in problems}
    return ModelReport(
        [
            TunedProblem(problem, calls, after[problem]["torch"], before[problem]["ours"], after[problem]["ours"])
            for problem, calls in problems.items()
        ],
        swept,
    )
