"""Finds the problems that a model runs: products and attention, forward and backward."""

import contextlib
import warnings
from collections import Counter
from typing import Any, Callable, Dict, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _engine, _sdpa
from ._attention import problem_of
from ._attention_bwd import backward_problem
from ._contenders import has_rival
from ._engine import columns, gemm_problem, tensor_of
from ..errors import Error, InvalidArgument, NoGpu
from ..problem import Problem, Tensor

_PRODUCTS = ("aten::mm", "aten::bmm", "aten::mm.out", "aten::bmm.out", "autotune::mm", "autotune::bmm")
_ATTENTION = {f"aten::{name}": override for name, override in _sdpa.OVERRIDES.items()}


class _Listener:
    """Replaces a patch: records each problem and takes over no call."""

    def __init__(self, hear: Callable[[Problem], None]):
        self._hear = hear

    def entry(self, key: Any, index: int, make: Callable[[], Any]) -> None:
        make()

    def fall_back(self, name: str, key: Any, error: Exception) -> None:
        warnings.warn(f"autotune.torch.tune() does not tune a call of aten::{name}, after an error: {error!r}", RuntimeWarning, stacklevel=3)

    def plan(self, describe: Callable[[], Problem], index: int) -> None:
        try:
            problem = describe()
        except InvalidArgument:
            return  # not a problem of ours, as for a patch
        self._hear(problem)


class Collector(TorchDispatchMode):
    """Counts the problems that run inside it, in forward and backward passes: `problems`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.problems: Counter[Problem] = Counter()
        self._listener: Any = _Listener(self._count)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, options = function.name(), kwargs or {}
        if name in _ATTENTION or name in _PRODUCTS:
            self.hear(name, args, options)
        elif name == "autotune::attention":
            q, k, v, mask, _, *with_lse = args
            self._count(problem_of(columns(q), columns(k), columns(v), mask, with_lse != [False]))
        elif name == "autotune::attention_bwd":
            grad, q, k, v, o, _, mask, _ = args
            self._count(backward_problem(columns(q), columns(k), columns(v), columns(o), columns(grad), mask))
        return function(*args, **options)

    def hear(self, name: str, args: Any, options: Any) -> None:
        """Counts a call of one of torch's operators."""
        if name in _PRODUCTS:
            self._count_product(args[0], args[1])
        else:
            _ATTENTION[name](self._listener, lambda *_, **__: None)(None, *args, **options)

    def _count_product(self, a: torch.Tensor, b: torch.Tensor) -> None:
        if a.is_cuda and b.is_cuda and a.dtype == b.dtype and a.dtype in _engine.WORDS and a.numel() and b.numel():
            c = Tensor(_engine.WORDS[a.dtype], (*a.shape[:-1], b.shape[-1]))
            self._count(gemm_problem(tensor_of(_engine.dense(a)), tensor_of(_engine.dense(b)), c))

    def _count(self, problem: Problem) -> None:
        try:
            if has_rival(problem) and _engine.handle().supports(problem):
                self.problems[problem] += 1
        except Error:
            pass  # not a problem of ours, so aten runs it as before


@contextlib.contextmanager
def listening(hear: Callable[[str, Any, Any], None], *, key: str = "CUDA") -> Iterator[None]:
    """While it is active, reports every product and attention that reaches torch's own kernels: its name, arguments and
    options. Code made by torch.compile runs as usual. A TorchDispatchMode cannot be used, because torch.compile does not run
    its code while one is active.
    """

    def tell(name: str, original: Any) -> Callable[..., Any]:
        def run(keyset: Any, *args: Any, **options: Any) -> Any:
            hear(name, args, options)
            return original.call_boxed(keyset, *args, **options)

        return run

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verrid.*")  # replacing kernels is intended here
            for name in (*(each for each in _PRODUCTS if each.startswith("aten::")), *_ATTENTION):
                try:
                    original = torch.library.get_kernel(name, key)
                except RuntimeError:
                    continue  # this version of torch has no such kernel, so it is never called
                library.impl(name.removeprefix("aten::"), tell(name, original), key, with_keyset=True, allow_override=True)
        yield
    finally:
        library._destroy()


def need_gpu() -> None:
    if not torch.cuda.is_available():
        why = "this torch was built without CUDA" if torch.version.cuda is None else "torch finds none here"
        raise NoGpu(f"autotune.torch.tune() measures on an NVIDIA GPU, and {why}; `python -m autotune doctor` tells what this machine lacks")


def collect(step: Callable[[], Any]) -> Dict[Problem, int]:
    """Returns the products and attentions that `step` runs on this device, with the number of times. It runs `step` three
    times: eagerly, once to let torch.compile make its code, and with that code, whose products differ if torch.compile pads or
    fuses them.
    """
    # Without this stance torch.compile would see the mode, and would never run its compiled code for these functions again.
    with torch.compiler.set_stance("force_eager"), Collector() as collector:
        step()
    problems = collector.problems
    if hasattr(torch.library, "get_kernel"):
        step()
        compiled = Collector()
        with listening(compiled.hear):
            step()
        problems |= compiled.problems  # each problem counts as often as in the variant that runs it most
    torch.cuda.synchronize()
    return dict(problems)
