"""Handles, plans and launches: what runs a problem."""

import ctypes
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Optional, Protocol, Sequence, Type, Union

from . import _library
from ._nvrtc import nvrtc_of_this_python
from .arrays import Address, Stream, address, stream_handle
from .problem import Problem

ON_MISS = {"compile": 0, "loaded_only": 1, "not_planned": 2, "background": 3}
LOG_LEVELS = ("debug", "info", "warning")


class U64(int):
    """A scalar that an op takes as u64, such as a seed. A float is passed as f32, any other int as i32."""


Scalar = Union[float, int, U64]


@dataclass(frozen=True)
class PlanInfo:
    """What a plan is. Times are microseconds, 0 where nothing is known; `recorded_us` is the stored winner's, of this very
    problem, and `recorded_rival_us` the fastest vendor library's in the same rounds.

    candidate_when_zero, origin_when_zero: of the kernel that a product's plan for any beta keeps for calls with beta 0; "" and the plan's
    own origin where it keeps none. expected_regret: how much slower than the best kernel known such a choice usually is (0.04: 4 %), 0 for a
    winner of this very problem, negative where it is not known.
    """

    origin: str
    candidate: str
    deterministic: bool
    predicted_us: float
    recorded_us: float
    workspace_bytes: int
    workspace_zero_bytes: int
    recorded_rival_us: float
    candidate_when_zero: str = ""
    origin_when_zero: str = ""
    expected_regret: float = -1.0


class Call:
    """An `autotune_call` with its arrays; addresses are set before each use."""

    __slots__ = ("struct", "addresses", "scalars", "pointer")

    def __init__(self, tensor_count: int, scalars: Sequence[Scalar]):
        self.addresses = (ctypes.c_void_p * max(tensor_count, 1))()
        self.scalars = (_library.ScalarStruct * max(len(scalars), 1))()
        for place, scalar in zip(self.scalars, scalars):
            if isinstance(scalar, U64):
                place.type, place.value.u64 = 2, scalar
            elif isinstance(scalar, int):
                place.type, place.value.i32 = 1, scalar
            else:
                place.type, place.value.f32 = 0, scalar
        self.struct = _library.CallStruct(
            ctypes.sizeof(_library.CallStruct), self.addresses, tensor_count, self.scalars, len(scalars), None, 0
        )
        self.pointer = ctypes.addressof(self.struct)

    def set(self, arrays: Sequence[Address], stream: int, workspace: Address = None, workspace_bytes: int = 0) -> None:
        for i, array in enumerate(arrays):
            self.addresses[i] = address(array, stream)
        self.struct.workspace = address(workspace, stream)
        self.struct.workspace_bytes = workspace_bytes


class Launch(Protocol):
    """A plan with its arrays: one call of the library a launch. Holds the arrays, so that their memory stays.

    Safe to use from several threads. May be called while its stream is captured in a CUDA graph.
    """

    def __call__(self, stream: int = 0) -> None:
        """Enqueues the kernels on a stream, given as an int (see `stream_handle`)."""


class Plan:
    """A problem's kernel, ready to be enqueued. Made by `Handle.plan`; belongs to the context that was current then.

    `run` and the launches of `bind` enqueue kernels and do nothing else: no allocation, no synchronisation, no file access.
    """

    def __init__(self, handle: "Handle", problem: Problem, raw: int):
        self._handle, self.problem = handle, problem
        self._address: Optional[int] = raw
        facts = _library.FactsStruct(ctypes.sizeof(_library.FactsStruct))
        _library.check(_library.plan_info(raw, ctypes.byref(facts)))
        self.info = PlanInfo(
            _library.origin_string(facts.origin).decode(),
            facts.candidate.decode(),
            bool(facts.deterministic),
            facts.predicted_us,
            facts.recorded_us,
            facts.workspace_bytes,
            facts.workspace_zero_bytes,
            facts.recorded_rival_us,
            facts.candidate_when_zero.decode(),
            _library.origin_string(facts.origin_when_zero).decode(),
            facts.expected_regret,
        )

    def __repr__(self) -> str:
        return f"Plan({self.problem!r}, {self.info.origin}: {self.info.candidate})"

    def __del__(self) -> None:
        raw, self._address = getattr(self, "_address", None), None
        if raw:
            _library.plan_destroy(raw)

    @property
    def origin(self) -> str:
        """How the kernel was found: "exact", "shipped", "near", "default", "pinned" or "loaded" (docs/library.md)."""
        return self.info.origin

    @property
    def candidate(self) -> str:
        """What will run: "gemm/wgmma block_m=128 ..."."""
        return self.info.candidate

    @property
    def workspace_bytes(self) -> int:
        """Bytes of device memory that a call needs, aligned to 256; 0 for most plans."""
        return self.info.workspace_bytes

    @property
    def workspace_zero_bytes(self) -> int:
        """Leading bytes of the workspace that must be zero before its first use with this plan; calls leave them zero."""
        return self.info.workspace_zero_bytes

    def bind(self, *arrays: Address, scalars: Sequence[Scalar] = (), workspace: Address = None, stream: Stream = None) -> Launch:
        """The plan with its arrays, in the op's documented order, None for an optional one that was left out.

        Arrays are device arrays or addresses; `workspace` likewise, needed where `workspace_bytes` is not 0 and never to be used by
        two streams at once. `stream`: on which the arrays are ready (DLPack's producers alone need it).
        """
        call = self._call(arrays, scalars, workspace, stream_handle(stream))
        return _library.bound(self._address or 0, call.pointer, (self, call, arrays, workspace))

    def run(self, *arrays: Address, scalars: Sequence[Scalar] = (), workspace: Address = None, stream: Stream = None) -> None:
        """Enqueues the plan's kernels on `stream`; arguments as in `bind`. Raises InvalidArgument, Misaligned, Overlap, ..."""
        on = stream_handle(stream)
        call = self._call(arrays, scalars, workspace, on)
        _library.check(_library.run(self._address, call.pointer, on))

    def _call(self, arrays: Sequence[Address], scalars: Sequence[Scalar], workspace: Address, stream: int) -> Call:
        call = Call(len(arrays), scalars)
        call.set(arrays, stream, workspace, self.info.workspace_bytes if workspace is not None else 0)
        return call


class Handle:
    """What opens the database and makes plans. Uses the CUDA context that is current on the calling thread; creates none.

    database, cache_folder, shipped, nvrtc, pin: as in docs/environment.md; None: from the environment, else the default.
    on_miss: what `run` does for a problem without a plan: "compile", "loaded_only", "not_planned" or "background".
    record_misses: note problems without a winner in the database, for `autotune sweep`.
    log: called with (level, message), level one of "debug", "info", "warning"; from any thread.
    Raises NoGpu without a driver. Thread-safe.
    """

    def __init__(
        self,
        *,
        database: Optional[str] = None,
        cache_folder: Optional[str] = None,
        shipped: Optional[str] = None,
        nvrtc: Optional[str] = None,
        pin: Optional[str] = None,
        on_miss: str = "compile",
        record_misses: bool = False,
        log: Optional[Callable[[str, str], None]] = None,
    ):
        self._address: Optional[int] = None
        if on_miss not in ON_MISS:
            raise ValueError(f"on_miss is {on_miss!r}; it must be one of {', '.join(ON_MISS)}")
        options = _library.OptionsStruct(ctypes.sizeof(_library.OptionsStruct))
        options.database = _text(database)
        options.cache_folder = _text(cache_folder)
        options.shipped = _text(shipped)
        options.nvrtc = _text(nvrtc if nvrtc is not None else nvrtc_of_this_python())
        options.pin = _text(pin)
        options.on_miss = ON_MISS[on_miss]
        options.read_environment = 1
        options.record_misses = int(record_misses)
        self._log = _library.LogFunction(_listener(log)) if log is not None else _library.LogFunction()
        options.log = self._log
        raw = ctypes.c_void_p()
        _library.check(_library.create(ctypes.byref(raw), ctypes.byref(options)))
        self._address = raw.value

    def close(self) -> None:
        """Gives the handle's memory back. No work that uses its workspaces may be pending; plans stay valid."""
        raw, self._address = self._address, None
        if raw:
            _library.destroy(raw)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self.close()

    def plan(self, problem: Problem) -> Plan:
        """The problem's winner, looked up, loaded or compiled: up to a second or so, once. Raises NoContext, NoKernel, ..."""
        raw = ctypes.c_void_p()
        _library.check(_library.plan_create(self._open(), ctypes.byref(problem.struct), ctypes.byref(raw)))
        return Plan(self, problem, raw.value or 0)

    def supports(self, problem: Problem) -> bool:
        """Whether a kernel family can do the problem on the current context's device. Raises InvalidArgument for what is none."""
        from .errors import NoKernel

        try:
            _library.check(_library.supports(self._open(), ctypes.byref(problem.struct)))
        except NoKernel:
            return False
        return True

    def run(self, problem: Problem, *arrays: Address, scalars: Sequence[Scalar] = (), stream: Stream = None) -> None:
        """The one-call form: the plan that the handle keeps for the problem, or what `on_miss` says, enqueued on `stream`.

        Alignments are taken from the arrays. A workspace is the handle's own.
        """
        on = stream_handle(stream)
        call = Call(len(arrays), scalars)
        call.set(arrays, on)
        _library.check(_library.tuned(self._open(), ctypes.byref(problem.struct), ctypes.byref(call.struct), on))

    def flush_misses(self) -> None:
        """Writes misses that are noted but not yet in the database."""
        _library.check(_library.flush_misses(self._open()))

    def _open(self) -> int:
        if not self._address:
            raise ValueError("the handle is closed")
        return self._address


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else str(value).encode()


def _listener(log: Callable[[str, str], None]) -> Callable[[Any, int, bytes], None]:
    def hear(_user: Any, level: int, message: bytes) -> None:
        log(LOG_LEVELS[level] if 0 <= level < len(LOG_LEVELS) else "warning", message.decode(errors="replace"))

    return hear


_default: Optional[Handle] = None
_default_lock = threading.Lock()


def default_handle() -> Handle:
    """The handle that functions use which are given none: made at its first use, with the environment's settings."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Handle(record_misses=records_misses())
    return _default


def records_misses() -> bool:
    import os

    return os.environ.get("AUTOTUNE_RECORD", "") not in ("", "0")
