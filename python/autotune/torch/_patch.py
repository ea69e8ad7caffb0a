"""`patch()`: torch's own mm, bmm, softmax and attention go to a tuned kernel where tune() found that it beats aten's on this device.

The calls are served by C kernels (_shims.py), which are registered only for operators of which some call has won: others are not touched. They look
a call up in a table and take it, or leave it to aten. This module makes the table, from the verdicts of tune(), on a thread: nothing is raced, compiled
or read from disk in a caller's process by a call.
"""

import atexit
import ctypes
import threading
import warnings
from collections import Counter
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

import torch

from . import _devices, _engine, _shims, _verdicts
from .. import _library
from ..errors import Error
from ..handle import Plan
from ..problem import Problem

Only = Optional[Callable[[Problem], bool]]
_lock = threading.RLock()
_active: List["Patch"] = []
_reasons: Dict[str, str] = {}
_NO_WINNER = "torch's: tune() has found no call here that ours wins"
_NOT_TUNED = "torch's: tune() has raced no call of it on this GPU with this torch; run autotune.torch.tune(model, inputs)"
_NOT_RACED = "torch's: tune() races no softmax"
_served: Set[str] = set()  # kernels that are registered
_has_noted = False
_warned: Set[str] = set()
# Plans of tables are kept for ever, because a call or a captured graph may use a plan of a patch that has ended.
_plans: Dict[Tuple[Problem, int], Plan] = {}
_old_plans: List[Plan] = []
_LOOK_SECONDS = 0.5  # time between two checks of which devices the process uses


def misses() -> Dict[Problem, int]:
    """Problems that code under `patch(note_misses=True)` left to aten because no verdict of them is on record, each once. The first 2048 since
    clear_misses()."""
    if not _has_noted:
        raise RuntimeError("no patch of this process has noted what it left to aten; run the code under autotune.torch.patch(note_misses=True)")
    known = {each.problem for patch in _active for each in patch.verdicts}
    found: Counter[Problem] = Counter()
    for problem, _ in _shims.missed_problems():
        if problem not in known:
            found[problem] = 1
    return dict(found)


def clear_misses() -> None:
    _shims.clear_misses()


def status() -> Dict[str, Any]:
    """What the active patch does: of each operator "ours" or why it stays torch's, how many verdicts and entries there are, whether all plans are
    made, and how many calls ran a kernel of ours or failed to since the process began."""
    patch = _active[-1] if _active else None
    taken, failed = _shims.counts() if _shims.is_there() else (0, 0)
    return {
        "active": patch is not None,
        "operators": {name: _state_of(name, patch) for name in patch.names} if patch else {},
        "verdicts": len(patch.verdicts) if patch else 0,
        "entries": patch.entries if patch else 0,
        "ready": patch is not None and patch.is_ready,
        "taken": taken,
        "failed": failed,
    }


def _state_of(name: str, patch: "Patch") -> str:
    if name in _reasons:
        return _reasons[name]
    verdicts = [each for each in patch.verdicts if _operator_of(each.problem) == name]
    if verdicts:
        return "ours" if _served.intersection(_shims.OPERATORS[name]) and any(map(patch._takes, verdicts)) else _NO_WINNER
    return _NOT_RACED if name == "softmax" else _NOT_TUNED


def _operator_of(problem: Problem) -> str:
    """Of OPERATORS: the one whose calls the problem may be."""
    if problem.op != "gemm":
        return problem.op
    return "bmm" if len(problem.tensors["a"].shape) == 3 else "mm"


class Patch:
    """An active patch. `restore()` or the end of a `with` block takes it away. A process may have several: the newest one's choices count."""

    def __init__(
        self,
        names: Iterable[str],
        least_gain: float = 1.0,
        only: Only = None,
        wait: bool = False,
        note_misses: bool = False,
        key: str = "CUDA",
        serves_all: bool = False,
    ):
        self.names, self.least_gain, self._only, self._notes_misses, self._key = tuple(names), least_gain, only, note_misses, key
        self.verdicts: List[_verdicts.Verdict] = []
        self.entries, self.is_ready = 0, False
        self._table: Dict[_shims.Words, _shims.Entry] = {}
        self._is_over, self._is_made = threading.Event(), threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._serves_all = serves_all or note_misses
        with _lock:
            _active.append(self)
            self.register()
            _note_misses()
        self.build(wait)

    def register(self) -> None:
        """Registers the kernels that may take over calls, on any device. Runs in the caller's thread, because torch's tables
        of kernels have no lock.
        """
        if self._serves_all:
            kernels = {kernel for name in self.names for kernel in _shims.OPERATORS[name]}
        else:
            kernels = {kernel for verdict in _verdicts.load() if self._takes(verdict) for kernel in _shims.kernels_of(verdict.problem)}
        with _lock:
            _install(kernels, self._key)

    def _takes(self, verdict: _verdicts.Verdict) -> bool:
        """Whether calls of the verdict's problem are taken over."""
        problem = verdict.problem
        if _operator_of(problem) not in self.names or max(verdict.in_stream, verdict.in_graphs) < self.least_gain:
            return False
        return self._only is None or self._only(problem)

    def build(self, wait: bool = False) -> None:
        """Makes the table anew, on another thread; with `wait`, before it returns."""
        self._is_over.set()  # ends the previous thread
        self._is_over, self._is_made = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, args=(self._is_over, self._is_made), name="autotune patch", daemon=True)
        self._thread.start()
        if wait:
            self._is_made.wait()

    def _work(self, is_over: threading.Event, is_made: threading.Event) -> None:
        """Makes the table, and makes it again when the process begins to use another device."""
        try:
            served: Optional[Set[int]] = None
            while not is_over.is_set():
                used = set(_used_devices())
                if used != served:
                    self._make(used, is_over)
                    served = used
                    is_made.set()
                if served and len(served) == torch.cuda.device_count():
                    return
                is_over.wait(_LOOK_SECONDS)
        except Exception as error:
            warnings.warn(f"autotune.torch.patch() leaves its calls to torch after an error: {error!r}", RuntimeWarning)
        finally:
            is_made.set()

    def _make(self, used: Set[int], is_over: threading.Event) -> None:
        if torch.cuda.is_initialized():
            _devices.relax_captures()  # another thread may capture while this one loads kernels
        found = [(verdict, index) for index in used for verdict in _verdicts.load(_verdicts.device_of(index))]
        self.verdicts = [verdict for verdict, _ in found]
        entries: Dict[_shims.Words, _shims.Entry] = {}
        for verdict, index in found:
            if is_over.is_set():
                return
            entries.update(self._entries_of(verdict, index))
        with _lock:
            self._table, self.entries, self.is_ready = entries, len(entries), True
            if _served and _active and _active[-1] is self and not is_over.is_set():
                _shims.set_table(entries)

    def _entries_of(self, verdict: _verdicts.Verdict, index: int) -> Dict[_shims.Words, _shims.Entry]:
        problem = verdict.problem
        wins = verdict.in_stream >= self.least_gain, verdict.in_graphs >= self.least_gain
        keys = _shims.keys_of(problem, index)
        if not keys or not self._takes(verdict):
            return {}
        try:
            plan = _plan_of(problem, index)
        except Error as error:
            warnings.warn(f"autotune.torch.patch() leaves {problem} to aten, though it has won: {error}", RuntimeWarning)
            return {}
        if plan.info.origin not in ("exact", "shipped") or not plan.info.deterministic:
            return {}
        strides = problem.tensors["o"].strides if problem.op == "attention" else ()
        entry = _shims.Entry(plan._address or 0, plan.workspace_bytes, plan.workspace_zero_bytes, *wins, strides)
        return {key: entry for key in keys}

    def restore(self) -> None:
        """Gives aten its kernels back, once no other patch is active."""
        self._is_over.set()
        with _lock:
            if self not in _active:
                return
            _active.remove(self)
            if not _active:
                _remove()
            else:
                if _served:
                    _shims.set_table(_active[-1]._table)
                _note_misses()

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.restore()


def _plan_of(problem: Problem, index: int) -> Plan:
    with _lock:
        found = _plans.get((problem, index))
    if found is None:
        found = _engine.plan_of(problem, index)
        with _lock:
            _plans[problem, index] = found
    return found


def _install(kernels: Set[str], key: str) -> None:
    """Also registers these C kernels. Operators that cannot be served keep torch's kernels, with one warning for each."""
    wanted = kernels - _served
    if not wanted:
        return
    _take_torchs_warning()
    gemm, run = (ctypes.cast(getattr(_library._library, name), ctypes.c_void_p).value or 0 for name in ("autotune_gemm", "autotune_run"))
    refused = _shims.install(sorted(wanted), gemm, run, key)
    _served.update(wanted - set(refused))
    news: Dict[str, List[str]] = {}
    for name, of_name in _shims.OPERATORS.items():
        reason = next((refused[each] for each in of_name if each in refused), None)
        if reason is None:
            continue
        _reasons[name] = reason
        if name not in _warned:
            _warned.add(name)
            news.setdefault(reason, []).append(name)
    for reason, names in news.items():
        warnings.warn(f"autotune.torch.patch() leaves {', '.join(names)} to torch: {reason}", RuntimeWarning, stacklevel=6)


def _remove() -> None:
    if _shims.is_there():
        _shims.remove()
    _served.clear()
    _reasons.clear()


def _note_misses() -> None:
    global _has_noted
    notes = any(each._notes_misses for each in _active)
    _has_noted = _has_noted or notes
    if _served:
        _shims.note_misses(notes)


_is_taken = False


def _take_torchs_warning() -> None:
    """Suppresses torch's warning at the first override of a process, which goes to standard error if it comes from C. The
    override is intended.
    """
    global _is_taken
    if _is_taken or not hasattr(torch.library, "get_kernel"):
        return
    _is_taken = True
    original = torch.library.get_kernel("aten::_softmax", "CPU")
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verrid.*")
        library.impl("_softmax", lambda keys, *arguments: original.call_boxed(keys, *arguments), "CPU", with_keyset=True, allow_override=True)
    library._destroy()


def _used_devices() -> Iterator[int]:
    """The devices on which this process has a context. A patch makes no context on other devices."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    current = torch.cuda.current_device()
    for index in range(torch.cuda.device_count()):
        if index == current or _devices.has_context(index):
            yield index


def patch(
    *,
    mm: bool = True,
    bmm: bool = True,
    softmax: bool = True,
    attention: bool = True,
    least_gain: float = 1.0,
    only: Only = None,
    wait: bool = False,
    note_misses: bool = False,
) -> Patch:
    """Gives torch.mm, matmul, linear, bmm and scaled_dot_product_attention our kernels, until `restore()` or the end of a `with`.

    A call is taken over only where tune() found on this device, and with this torch, that ours is at least `least_gain` as fast as aten's own kernel:
    in a stream, or in a CUDA graph for calls that are captured. Every other call goes to aten; an operator of which no call has won is not touched.
    Plans are made on a thread; until one is ready its calls are aten's, and `wait` waits for all. `only` says of a problem whether it may be taken
    over. softmax, which tune() does not race, products with a bias, masks, dropout and gradients of attention are aten's. Code made by torch.compile
    calls the same kernels, so it is patched too. `status()` tells what is served. With `note_misses` all these operators are watched, and `misses()`
    has the problems that no tune has raced. A torch that lacks what an operator needs keeps it, with one warning.
    """
    wanted = dict(mm=mm, bmm=bmm, softmax=softmax, attention=attention)
    return Patch([name for name, is_wanted in wanted.items() if is_wanted], least_gain, only, wait, note_misses)


def _rebuild() -> None:
    with _lock:
        _old_plans.extend(_plans.values())
        _plans.clear()
        for each in _active:
            each.register()
            each.build()


def _end() -> None:
    for each in list(_active):
        each._is_over.set()
    for each in list(_active):
        if each._thread is not None:
            each._thread.join(10)


atexit.register(_end)
_engine.on_refresh(_rebuild)
