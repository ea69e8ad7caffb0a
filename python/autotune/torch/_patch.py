"""`patch()`: aten's products, attention and softmax go to a tuned kernel where a raced winner is on record for this device, else to aten."""

import threading
import warnings
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

import torch

from . import _engine, _sdpa
from ._engine import Described, Gemm, Key, must_be_deterministic, tensor_of
from ._ops import _key
from ._race import gains_over
from ._register import Function
from ..command import run_json
from ..errors import Error, InvalidArgument, NoKernel, NotPlanned
from ..handle import Plan
from ..problem import Problem, Tensor

Override = Callable[["Patch", Function], Function]  # of a patch and aten's own kernel, the one that is called instead
Raced = TypeVar("Raced", Gemm, Described)
_UNKNOWN = object()
_LOST: Any = object()  # the entry of a winner that was raced and lost, or failed: aten's
_NEAR = 0.95  # a record that lost by more than this is not raced again
_NEEDS = "autotune.torch.patch() needs torch.library.get_kernel, which torch has from 2.9 on; this is torch {}"

MOST_MISSES = 2048  # problems that are noted, at 3.3 KB each
_MOST_ENTRIES = 2048  # decisions for torch's own kernel, which are quickly taken again

_misses: Counter[Problem] = Counter()
Only = Optional[Callable[[Problem], bool]]
Entries = Tuple[Dict[Key, Any], Dict[Key, Any]]  # decided by a race, and by the record alone, for deterministic algorithms
# By a patch's options: one that is made again knows what the one before decided.
_decisions: Dict[Tuple[float, Only, bool], Entries] = {}
_active: List["Patch"] = []


def misses() -> Dict[Problem, int]:
    """Problems that patched code ran by aten because no winner of them is on record, and how often each was met (once a shape and alignment).

    The first 2048 of them since clear_misses().
    """
    return dict(_misses)


def _miss(problem: Problem) -> None:
    if problem in _misses or len(_misses) < MOST_MISSES:
        _misses[problem] += 1


def clear_misses() -> None:
    _misses.clear()


class Records:
    """The keys of problems with a winner. Read once from the command: the library would compile a kernel for each problem without one."""

    def __init__(self) -> None:
        self._keys: Optional[Set[str]] = None
        self._lock = threading.Lock()

    def read(self) -> Set[str]:
        """The keys. Raises CommandError where the winners cannot be read."""
        with self._lock:
            if self._keys is None:
                rows = run_json(["show", "--limit", "0"])["winners"]
                self._keys = {f"{row['class_key']} {row['shape']}" for row in rows}
            return self._keys

    def forget(self) -> None:
        with self._lock:
            self._keys = None


_records = Records()


def _kernel_of(name: str, overload: str) -> Any:
    """aten's own kernel, which serves every call that is not taken over."""
    try:
        return torch.library.get_kernel(f"aten::{overload}", "CUDA")
    except RuntimeError as error:
        raise RuntimeError(f"torch {torch.__version__} has no CUDA kernel of aten::{overload}; patch({name}=False) goes without it") from error


class Patch:
    """An active patch. `restore()` or the end of a `with` block removes it."""

    def __init__(self, names: List[str], least_gain: float, only: Only = None, race: bool = True):
        if not hasattr(torch.library, "get_kernel"):
            raise RuntimeError(_NEEDS.format(torch.__version__))
        _records.read()  # otherwise the patch would silently leave everything to aten
        self.least_gain, self._only, self._races = least_gain, only, race
        self._entries = _decisions.setdefault((least_gain, only, race), ({}, {}))
        self._lock = threading.RLock()
        overrides = [(overload, make, _kernel_of(name, overload)) for name in names for overload, make in _OVERRIDES[name].items()]
        self._library: Optional[torch.library.Library] = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verrid.*")  # overriding is what was asked for
            for overload, make, original in overrides:
                self._library.impl(overload, make(self, original.call_boxed), "CUDA", with_keyset=True, allow_override=True)
        _active.append(self)

    def restore(self) -> None:
        """Restores aten's kernels."""
        if self._library is not None:
            if _active[-1] is not self:
                raise RuntimeError("another patch was made after this one; restore that one first")
            _active.pop()
            self._library._destroy()
            self._library = None

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.restore()

    def entry(self, key: Key, index: int, make: Callable[[], Optional[Any]]) -> Any:
        """Serves a call on device `index`: an entry of the engine, or None for aten."""
        is_strict = must_be_deterministic()
        entries = self._entries[is_strict]
        found = entries.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            if _engine.is_capturing(index):
                return None  # no compile, no file: the next call outside of a capture decides
            with self._lock:
                found = entries.get(key, _UNKNOWN)
                if found is _UNKNOWN:
                    found = self._keep(entries, key, make())
        if found is None or found is _LOST or (is_strict and not found.deterministic):
            return None
        if found.in_stream != found.in_graphs and _engine.is_capturing(index) != found.in_graphs:
            return None
        return found

    @staticmethod
    def _keep(entries: Dict[Key, Any], key: Key, entry: Any) -> Any:
        if len(entries) >= _MOST_ENTRIES:
            for old in [each for each, kept in entries.items() if kept is None]:
                entries.pop(old, None)
        entries[key] = entry
        return entry

    def fall_back(self, name: str, key: Key, error: Exception) -> None:
        """Leaves the problem of `key` to aten, after an error of ours: the call's result is aten's, and so are those of later calls."""
        if isinstance(error, NotPlanned):
            return  # a capture began meanwhile
        with self._lock:
            for entries in self._entries:
                entries[key] = _LOST
        warnings.warn(f"autotune.torch.patch() leaves a call of aten::{name} to torch after an error: {error!r}", RuntimeWarning, stacklevel=3)

    def plan(self, describe: Callable[[], Problem], index: int) -> Optional[Plan]:
        """The problem's plan where a winner is on record that may be as fast as aten's kernel; None otherwise, and for operands of which
        there is no problem: the gradient of a sum repeats one element."""
        try:
            problem = describe()
        except InvalidArgument:
            return None
        if self._only is not None and not self._only(problem):
            return None
        recorded = _records.read()
        try:
            if problem.key not in recorded:
                _miss(problem)
                return None
            plan = _engine.plan_of(problem, index)
        except (InvalidArgument, NoKernel):  # no problem of ours
            return None
        except Error as error:
            warnings.warn(f"autotune.torch.patch() leaves {problem} to aten, though a winner is on record: {error}", RuntimeWarning, stacklevel=2)
            return None
        info = plan.info
        if info.origin not in ("exact", "shipped"):
            _miss(problem)
            return None
        has_lost = info.recorded_rival_us != 0 and info.recorded_rival_us < info.recorded_us * self.least_gain * _NEAR
        return None if has_lost else plan

    def winner(self, make: Callable[[], Raced], ours: Callable[[Raced], object], theirs: Callable[[], object]) -> Any:
        """What `make` makes if it is as fast as aten's kernel, in a stream or in CUDA graphs: raced here and now or, where every process has to
        decide the same, by its final rounds. None or _LOST otherwise. `ours` and `theirs` are a call of each."""
        entry = make()
        info = entry.plan.info
        has_won = info.recorded_rival_us >= info.recorded_us * self.least_gain
        if not self._races or must_be_deterministic():
            return entry if has_won else None
        try:
            with torch.cuda.device(entry.index):
                in_stream, in_graphs = (gain >= self.least_gain for gain in gains_over(theirs, lambda: ours(entry)))
        except torch.OutOfMemoryError:  # a race needs memory of twice L2's size
            return entry if has_won else None
        if not in_stream and not in_graphs:
            return _LOST
        fresh = make()  # no graph of the race holds their memory
        fresh.in_stream, fresh.in_graphs = in_stream, in_graphs
        return fresh

    def product(
        self, a: torch.Tensor, b: torch.Tensor, theirs: Callable[[], object], c: Optional[torch.Tensor] = None
    ) -> Any:
        """Decides for a product that aten computes by `theirs`; `c` is its output where the caller has one."""
        word = _engine.WORDS.get(a.dtype)
        fits = (
            word is not None
            and a.dtype == b.dtype
            and a.device == b.device
            and a.dim() == b.dim()
            and a.shape[-1] == b.shape[-2]
            and a.shape[:-2] == b.shape[:-2]
            and 0 not in a.shape
            and 0 not in b.shape
        )
        if not fits:
            return None
        shape = (*a.shape[:-1], b.shape[-1])
        if c is not None and (tuple(c.shape) != shape or c.dtype != a.dtype or c.device != a.device):
            return None
        out = Tensor(word, shape) if c is None else tensor_of(c)
        plan = self.plan(lambda: _engine.gemm_problem(tensor_of(a), tensor_of(b), out), a.get_device())
        if plan is None:
            return None
        strides = plan.problem.tensors["c"].strides
        made = a.new_empty_strided(shape, strides) if c is None else c
        return self.winner(
            lambda: Gemm(plan, a.get_device()), lambda entry: entry.launch(a.data_ptr(), b.data_ptr(), made.data_ptr()), theirs
        )


def _product_key(name: str, a: torch.Tensor, b: torch.Tensor, pa: int, pb: int) -> Key:
    key = (name, *_key(a, b, pa, pb))
    return key if a.dtype is not torch.float32 else (*key, _engine.f32_compute())


def _override_product(name: str) -> Override:
    def make(patch: Patch, original: Function) -> Function:
        def run(keyset: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            key: Key = ()
            try:
                pa, pb = a.data_ptr(), b.data_ptr()
                key = _product_key(name, a, b, pa, pb)
                entry = patch.entry(key, a.get_device(), lambda: patch.product(a, b, lambda: original(keyset, a, b)))
                if entry is not None:
                    return _launch(entry, a, pa, pb)
            except Exception as error:
                patch.fall_back(name, key, error)
            return original(keyset, a, b)

        return run

    return make


def _launch(entry: Gemm, a: torch.Tensor, pa: int, pb: int) -> torch.Tensor:
    c = a.new_empty_strided(entry.shape, entry.strides)
    entry.launch(pa, pb, c.data_ptr())
    return c


def _override_product_out(name: str) -> Override:
    def make(patch: Patch, original: Function) -> Function:
        def run(keyset: Any, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> Any:
            key: Key = ()
            try:
                pa, pb, pc = a.data_ptr(), b.data_ptr(), out.data_ptr()
                key = _product_key(name, a, b, pa, pb), out.shape, out.stride(), out.dtype, out.get_device(), pc & 15
                entry = patch.entry(key, a.get_device(), lambda: patch.product(a, b, lambda: original(keyset, a, b, out=out), out))
                if entry is not None:
                    entry.launch(pa, pb, pc)
                    return out
            except Exception as error:
                patch.fall_back(f"{name}.out", key, error)
            return original(keyset, a, b, out=out)

        return run

    return make


def _override_softmax(patch: Patch, original: Function) -> Function:
    def run(keyset: Any, x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        if half_to_float or dim not in (-1, x.dim() - 1) or x.dtype not in _engine.WORDS or not x.is_contiguous() or x.numel() == 0:
            return original(keyset, x, dim, half_to_float)
        key: Key = ()
        try:
            key = "softmax", x.shape, x.dtype, x.get_device(), x.data_ptr() & 15
            entry = patch.entry(key, x.get_device(), lambda: _softmax_entry(patch, x, lambda: original(keyset, x, dim, half_to_float)))
            if entry is not None:
                y = torch.empty_like(x)
                entry.launch(x.data_ptr(), y.data_ptr(), 0)
                return y
        except Exception as error:
            patch.fall_back("_softmax", key, error)
        return original(keyset, x, dim, half_to_float)

    return run


def _softmax_entry(patch: Patch, x: torch.Tensor, theirs: Callable[[], object]) -> Any:
    if x.dim() == 0:
        return None
    described = tensor_of(x if x.dim() <= 5 else x.flatten(0, x.dim() - 5))
    plan = patch.plan(lambda: Problem("softmax", {"x": described, "y": Tensor(described.dtype, described.shape)}), x.get_device())
    if plan is None:
        return None
    return patch.winner(
        lambda: Described(plan, x.get_device(), 3),
        lambda entry: entry.launch(x.data_ptr(), torch.empty_like(x).data_ptr(), 0),
        theirs,
    )


_OVERRIDES: Dict[str, Dict[str, Override]] = {
    "mm": {"mm": _override_product("mm"), "mm.out": _override_product_out("mm")},
    "bmm": {"bmm": _override_product("bmm"), "bmm.out": _override_product_out("bmm")},
    "softmax": {"_softmax": _override_softmax},
    "attention": _sdpa.OVERRIDES,
}


def patch(
    *,
    mm: bool = True,
    bmm: bool = True,
    softmax: bool = True,
    attention: bool = True,
    least_gain: float = 1.0,
    only: Only = None,
    race: bool = True,
) -> Patch:
    """Gives torch.mm, matmul, linear, bmm, softmax and scaled_dot_product_attention our kernels, until `restore()` or the end of a `with`.

    A call is taken over only where a winner for exactly this problem and device is on record (tuned here, or shipped) that is at least `least_gain`
    as fast as aten's own kernel. Both are raced when a call first meets the winner, in the stream and, if they are short, in a CUDA graph, on the caller's
    tensors, for some milliseconds, with 2 times L2 of memory: calls that are captured go by the race in a graph, the others by that in the stream. Without `race`, and under torch.use_deterministic_algorithms, the winner's final rounds against the vendor's library decide:
    processes then decide alike. Every other call, also one with a bias, an attention mask or dropout, goes to aten as before. `only` says of a problem
    whether it may be taken over at all. `misses()` tells which problems had no winner; `autotune.torch.tune` or `autotune.sweep(misses())` finds
    them. Code made by torch.compile calls the same functions, so it is patched too. Nothing is compiled during a graph capture. A call costs 3 us
    more on the host. Whatever goes wrong in a call of ours, the call is aten's, with a RuntimeWarning.
    Raises RuntimeError for a torch that lacks what this needs, CommandError where the winners cannot be read.
    """
    wanted = dict(mm=mm, bmm=bmm, softmax=softmax, attention=attention)
    return Patch([name for name, is_wanted in wanted.items() if is_wanted], least_gain, only, race)


def _forget() -> None:
    _records.forget()
    for raced, recorded in _decisions.values():
        raced.clear()
        recorded.clear()


_engine.on_refresh(_forget)
