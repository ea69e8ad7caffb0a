"""`tune(model, inputs)`: finds the problems that a model runs, tunes them, and reports the gains."""

import contextlib
import dataclasses
import statistics
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from . import _masks, _verdicts
from ._collect import collect, need_gpu
from ._contenders import contenders
from ._engine import refresh
from ._race import gains_over, race, ratio
from ..errors import InvalidArgument
from ..problem import Problem
from ..tuning import ProgressFunction, SweepResult, sweep


Inputs = Union[torch.Tensor, Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class TunedProblem:
    """A product or an attention of the model. Times are microseconds of one call in a CUDA graph, ours and torch's in the same rounds."""

    problem: Problem
    calls: int
    torch_us: float
    before_us: float
    after_us: float

    @property
    def gain_us(self) -> float:
        """The time that a step of the model saves if `patch()` takes this problem over; 0 if torch is faster."""
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
    """The result of tuning a model."""

    problems: List[TunedProblem]
    sweep: SweepResult
    masks: _masks.SaneMasks = field(default_factory=_masks.SaneMasks)  # `masks.undo()` restores the model's own masks

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
        if not self.problems:
            lines = ["no product without a bias and no attention in f16, bf16 or f32 ran on the GPU: are the model and its inputs there (model.cuda())?"]
        if self.masks.changed or self.masks.already:
            lines.append(str(self.masks))
        return "\n".join([*lines, f"expected gain of a step: {self.gain_us:.1f} us"])


def _times(problem: Problem, rounds: int) -> Dict[str, float]:
    times = race(contenders(problem, torch.device("cuda", torch.cuda.current_device())), rounds=rounds)
    torch_us = statistics.median(times["torch"])
    return {"torch": torch_us, "ours": torch_us / ratio(times, "torch", "ours")}


def _verdict(problem: Problem, index: int) -> _verdicts.Verdict:
    runs = contenders(problem, torch.device("cuda", index))
    return _verdicts.Verdict(problem, *gains_over(runs["torch"], runs["ours"]))


def _call(model: Callable[..., Any], inputs: Inputs) -> Any:
    if isinstance(inputs, torch.Tensor):
        return model(inputs)
    return model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)


def _differentiable(result: Any) -> Optional[torch.Tensor]:
    """The first tensor of a result that has a gradient: of tuples, dicts, and classes of fields such as transformers' outputs."""
    if isinstance(result, torch.Tensor):
        return result if result.requires_grad and result.numel() else None
    if isinstance(result, Mapping):
        parts: Any = result.values()
    elif isinstance(result, (tuple, list)):
        parts = result
    elif dataclasses.is_dataclass(result):
        parts = [getattr(result, each.name) for each in dataclasses.fields(result)]
    else:
        return None
    return next((found for found in map(_differentiable, parts) if found is not None), None)


@contextlib.contextmanager
def _kept_gradients(model: Any) -> Iterator[None]:
    """Gives the parameters the gradients back that they have now."""
    kept = [(each, each.grad) for each in model.parameters()] if isinstance(model, torch.nn.Module) else []
    try:
        for parameter, _ in kept:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in kept:
            parameter.grad = gradient


def tune(
    model: Callable[..., Any],
    example_inputs: Inputs = (),
    *,
    backward: bool = False,
    budget: Optional[str] = None,
    total_budget: Optional[str] = None,
    progress: Optional[ProgressFunction] = None,
    rounds: int = 9,
    sane_masks: bool = True,
    **options: Any,
) -> ModelReport:
    """Runs `model(*example_inputs)` three times, tunes the products and attentions that it runs, and reports each one's time before and after
    beside torch's. example_inputs: a tuple, one tensor, or a mapping of names as tokenizers give it, for `model(**example_inputs)`.

    What torch.compile made of a model may be given too: then both the products of the model and those of its code are tuned, which differ where
    torch.compile pads or merges them. backward: runs `.sum().backward()` of the first result that has a gradient too, and tunes what that runs; the parameters'
    own gradients stay. budget,
    total_budget, progress and options are `autotune.sweep`'s; the search runs in processes of its own and needs part of the GPU's memory for
    itself. Afterwards every plan is looked up anew, so that `patch()` and the operators use the winners. sane_masks: gives a module's attention
    masks that torch's own fused kernels take (see `autotune.torch.sane_masks`), and leaves it so; the report's `masks.undo()` takes them back.
    If the model fails, it keeps its own masks.
    """

    def step() -> None:
        result = _call(model, example_inputs)
        if backward:
            first = _differentiable(result)
            if first is None:
                raise InvalidArgument("tune(backward=True): no result of the model has a gradient; give parameters requires_grad_(), or tune without")
            first.float().sum().backward()

    need_gpu()
    masks = _masks.sane_masks(model) if sane_masks and isinstance(model, torch.nn.Module) else _masks.SaneMasks()
    try:
        with torch.enable_grad() if backward else torch.no_grad(), _kept_gradients(model) if backward else contextlib.nullcontext():
            problems = collect(step)
    except BaseException:
        if masks.changed:
            masks.undo()
        raise
    before = {problem: _times(problem, rounds) for problem in problems}
    swept = sweep(problems, budget=budget, total_budget=total_budget, progress=progress, device=torch.cuda.current_device(), **options)
    refresh()
    after = {problem: _times(problem, rounds) for problem in problems}
    index = torch.cuda.current_device()
    _verdicts.store((_verdict(problem, index) for problem in problems), _verdicts.device_of(index))
    refresh()  # so that active patches read the verdicts
    return ModelReport(
        [
            TunedProblem(problem, calls, after[problem]["torch"], before[problem]["ours"], after[problem]["ours"])
            for problem, calls in problems.items()
        ],
        swept,
        masks,
    )
