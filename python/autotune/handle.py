"""Handles, plans and launches: what runs a problem."""

import atexit
import contextlib
import ctypes
import math
import os
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn, Optional, Protocol, Sequence, Tuple, Type, Union

from . import _library
from ._checked import INT32, UINT64, Path, integer, path, word
from ._driver import current_device
from ._nvrtc import nvrtc_of_this_python, with_this_pythons
from .arrays import Address, Placed, Stream, check_current_device, check_devices, placed, stream_handle
from .errors import InvalidArgument, WorkspaceTooSmall
from .problem import Problem

if TYPE_CHECKING:
    from ._schema import OpSchema

ON_MISS = {"compile": 0, "loaded_only": 1, "not_planned": 2, "background": 3}
LOG_LEVELS = ("debug", "info", "warning")


class U64(int):
    """A scalar that an op takes as u64, such as a seed. A float is passed as f32, another int as i32."""

    def __new__(cls, value: Any = 0) -> "U64":
        return super().__new__(cls, integer("a u64 scalar", value, UINT64))


Scalar = Union[float, int, U64]


@dataclass(frozen=True)
class PlanInfo:
    """Facts about a plan. Times are in microseconds, 0 if unknown; `recorded_us` is the stored winner's, of this very
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


@dataclass(frozen=True)
class Agreement:
    """32 bytes that are equal in two processes if and only if the parts are: version, kernels, label, shipped, pin, policy, nvrtc, device."""

    digest: bytes
    parts: Dict[str, str]


class Call:
    """An `autotune_call` with its arrays; addresses are set before each use."""

    __slots__ = ("struct", "addresses", "scalars", "pointer")

    def __init__(self, tensor_count: int, scalars: Sequence[Scalar]):
        self.addresses = (ctypes.c_void_p * max(tensor_count, 1))()
        self.scalars = (_library.ScalarStruct * max(len(scalars), 1))()
        for i, (place, scalar) in enumerate(zip(self.scalars, scalars)):
            _fill_scalar(place, f"scalar {i}", scalar)
        self.struct = _library.CallStruct(
            ctypes.sizeof(_library.CallStruct), self.addresses, tensor_count, self.scalars, len(scalars), None, 0
        )
        self.pointer = ctypes.addressof(self.struct)

    def set(self, addresses: Sequence[int]) -> None:
        for i, address in enumerate(addresses):
            self.addresses[i] = address

    def set_workspace(self, workspace: Placed, wanted_bytes: int) -> None:
        """Checks for memory of at least `wanted_bytes`. The size of a bare address is unknown."""
        if workspace.read_only:
            raise InvalidArgument("the workspace is read-only; give memory that may be written")
        if workspace.size is not None and workspace.size < wanted_bytes:
            raise WorkspaceTooSmall(f"the workspace has {workspace.size} bytes; the plan needs {wanted_bytes} (Plan.workspace_bytes)")
        self.struct.workspace, self.struct.workspace_bytes = workspace.address, wanted_bytes


def _fill_scalar(place: Any, name: str, scalar: Any) -> None:
    if isinstance(scalar, U64):
        place.type, place.value.u64 = 2, scalar
    elif hasattr(scalar, "__index__"):
        place.type, place.value.i32 = 1, integer(name, scalar, INT32)
    else:
        if not hasattr(scalar, "__float__"):
            raise TypeError(f"{name} is {scalar!r}; it must be a number")
        number = float(scalar)
        place.type, place.value.f32 = 0, number
        if math.isinf(place.value.f32) and not math.isinf(number):
            raise InvalidArgument(f"{name} is {number}, which f32 cannot express")


def _schema_of(problem: Problem, schema: Optional["OpSchema"]) -> Optional["OpSchema"]:
    """`schema`, or the schema of a built-in op."""
    from .ops import SCHEMA

    return schema or SCHEMA.get(problem.op)


def _check_scalars(problem: Problem, scalars: Sequence[Scalar], known: Optional["OpSchema"] = None) -> None:
    """Raises InvalidArgument if the op has another number of scalars."""
    schema = _schema_of(problem, known)
    if schema is not None and len(scalars) != len(schema.scalars):
        names = ", ".join(form.name for form in schema.scalars)
        raise InvalidArgument(f"the call passes {len(scalars)} scalars; op {problem.op} takes {len(schema.scalars)}{names and f': {names}'}")


def _check_arrays(problem: Problem, arrays: Sequence[Placed], known: Optional["OpSchema"] = None) -> None:
    """Raises InvalidArgument for arrays that do not match the problem. Bare addresses are not checked."""
    if all(each.seen is None for each in arrays):
        return
    schema = _schema_of(problem, known)
    if schema is not None and len(arrays) > len(schema.tensors):
        raise InvalidArgument(f"the call passes {len(arrays)} arrays; op {problem.op} takes {len(schema.tensors)}")
    for form, each in zip(schema.tensors if schema is not None else (), arrays):
        if each.read_only and form.access != "in":
            raise InvalidArgument(f"{form.name} is written, and its array is read-only; give an array that may be written")
        planned = problem.tensors.get(form.name)
        if planned is None or each.seen is None:
            continue
        if each.seen.dtype != planned.dtype:
            raise InvalidArgument(f"{form.name} is {planned.dtype} in the problem, and its array is {each.seen.dtype}")
        # Extents of 1 are ignored: a batch of one matrix equals that matrix.
        if _layout(each.seen.shape, each.seen.strides) != _layout(planned.shape, planned.strides):
            raise InvalidArgument(
                f"{form.name} has shape {planned.shape} and strides {planned.strides} in the problem, and its array shape {each.seen.shape} "
                f"and strides {each.seen.strides}; plan the problem of these arrays"
            )


def _layout(shape: Sequence[int], strides: Sequence[int]) -> List[Tuple[int, int]]:
    return [] if 0 in shape else [(extent, step) for extent, step in zip(shape, strides) if extent != 1]


class Launch(Protocol):
    """A plan with its arrays: each launch is one call of the library. Keeps the arrays alive.

    Safe to use from several threads. May be called while its stream is captured in a CUDA graph.
    """

    def __call__(self, stream: Stream = 0) -> None:
        """Enqueues the kernels on a stream: an int, which is fastest, or anything that `stream_handle` takes."""


class Plan:
    """A problem's kernel, ready to be enqueued. Made by `Handle.plan`; belongs to the context that was current at that time.

    `run` and the launches of `bind` enqueue kernels and do nothing else: no allocation, no synchronisation, no file access.
    """

    def __init__(self, handle: "Handle", problem: Problem, raw: int, schema: Optional["OpSchema"] = None):
        self._handle, self.problem, self._schema = handle, problem, schema
        self._address: Optional[int] = raw
        self._device = current_device()
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

    def __copy__(self) -> "Plan":
        return self  # a copy would be a second owner of the library's plan, which cannot change

    def __deepcopy__(self, memo: Any) -> "Plan":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Plan belongs to its process and CUDA context and cannot be pickled; send plan.problem, and plan it there")

    @property
    def origin(self) -> str:
        """How the kernel was found: "exact", "shipped", "near", "default", "pinned" or "loaded" (docs/library.md)."""
        return self.info.origin

    @property
    def candidate(self) -> str:
        """The kernel and config that will run: "gemm/wgmma block_m=128 ..."."""
        return self.info.candidate

    @property
    def is_outdated(self) -> bool:
        """Whether another winner may serve the problem by now; `Handle.plan` returns its plan. This plan still works."""
        outdated = ctypes.c_int()
        _library.check(_library.plan_is_outdated(self._address, ctypes.byref(outdated)))
        return outdated.value != 0

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
        return _library.bound(self._address or 0, call.pointer, stream_handle, (self, call, arrays, workspace))

    def run(self, *arrays: Address, scalars: Sequence[Scalar] = (), workspace: Address = None, stream: Stream = None) -> None:
        """Enqueues the plan's kernels on `stream`; arguments as for `bind`. Raises InvalidArgument, Misaligned, Overlap, ..."""
        on = stream_handle(stream)
        call = self._call(arrays, scalars, workspace, on)
        _library.check(_library.run(self._address, call.pointer, on))

    def _call(self, arrays: Sequence[Address], scalars: Sequence[Scalar], workspace: Address, stream: int) -> Call:
        _check_scalars(self.problem, scalars, self._schema)
        call, seen = Call(len(arrays), scalars), [placed(array, stream) for array in arrays]
        memory = placed(workspace, stream, describes=False)
        check_devices([each.device for each in (*seen, memory)], self._device, "the plan was made on")
        _check_arrays(self.problem, seen, self._schema)
        call.set([each.address for each in seen])
        if workspace is not None:
            call.set_workspace(memory, self.info.workspace_bytes)
        return call


class _Owned:
    """The library's handle, and the threads that are inside it. The last call that uses the handle destroys it, but never a
    call of its own log function: that function runs in the middle of the library's work, on the caller's thread or on a thread
    of the library, and destroying the handle waits for that thread.
    """

    def __init__(self, log: Optional[Callable[[str, str], None]]):
        self._lock = threading.RLock()
        self._address: Optional[int] = None
        self._to_destroy: Optional[int] = None
        self._users = 0
        self._log = log
        nobody: Tuple[int, int, Any] = (0, 0, None)
        # The library calls `_keep`, which lives as long as this object.
        self.log_function, self.log_user, self._keep = nobody if log is None else _library.log_function(self._hear)

    def open(self, address: Optional[int]) -> None:
        self._address = address

    def close(self) -> None:
        with self._lock:
            address, self._address = self._address, None
            if address and self._users:
                self._to_destroy, address = address, None
        if address:
            self._destroy(address)

    def after_fork(self) -> None:
        self._lock = threading.RLock()  # in a forked child, a thread of the parent may have held the old lock

    def __enter__(self) -> int:
        with self._lock:
            if not self._address:
                raise ValueError("the handle is closed")
            self._users += 1
            return self._address

    def __exit__(self, *_: Any) -> None:
        address = self._left()
        if address:
            self._destroy(address)

    def _destroy(self, address: int) -> None:
        _library.destroy(address)  # may call `_hear`, which therefore must live as long as this call

    def _left(self) -> Optional[int]:
        with self._lock:
            self._users -= 1
            if self._users:
                return None
            address, self._to_destroy = self._to_destroy, None
            return address

    def _hear(self, level: int, message: bytes) -> None:
        with self._lock:
            self._users += 1
        try:
            if self._log is not None:
                said = with_this_pythons(message.decode(errors="replace"))
                self._log(LOG_LEVELS[level] if 0 <= level < len(LOG_LEVELS) else "warning", said)
        finally:
            address = self._left()
            if address:  # this thread is the library's, which waits for it to end, so another thread destroys the handle
                with contextlib.suppress(RuntimeError):  # Python is ending, which frees the handle's resources
                    threading.Thread(target=self._destroy, args=(address,), name="autotune handle").start()


class Handle:
    """Opens the database and makes plans. Uses the CUDA context that is current on the calling thread; creates none.

    database, cache_folder, shipped, nvrtc (paths), pin: as in docs/environment.md; None: from the environment, else the default.
    on_miss: how `run` serves a problem without a plan: "compile", "loaded_only", "not_planned" or "background".
    record_misses: record problems without a winner in the database, for `autotune sweep`.
    label: name or file of a label of a fleet: processes with the same `agreement` then run the same kernels; None: AUTOTUNE_LABEL.
    log: called with (level, message), level one of "debug", "info", "warning"; from any thread, and no longer once Python ends.
    Raises NoGpu without a driver. Thread-safe. Closed at exit.
    """

    def __init__(
        self,
        *,
        database: Optional[Path] = None,
        cache_folder: Optional[Path] = None,
        shipped: Optional[Path] = None,
        nvrtc: Optional[Path] = None,
        pin: Optional[str] = None,
        on_miss: str = "compile",
        record_misses: bool = False,
        log: Optional[Callable[[str, str], None]] = None,
        label: Optional[Path] = None,
    ):
        if on_miss not in ON_MISS:
            raise ValueError(f"on_miss is {on_miss!r}; it must be one of {', '.join(ON_MISS)}")
        if log is not None and not callable(log):
            raise TypeError(f"log is {log!r}; it must be a function of a level and a message")
        options = _library.OptionsStruct(ctypes.sizeof(_library.OptionsStruct))
        options.database = path("database", database)
        options.cache_folder = path("cache_folder", cache_folder)
        options.shipped = path("shipped", shipped)
        options.nvrtc = path("nvrtc", nvrtc if nvrtc is not None else nvrtc_of_this_python())
        options.pin = None if pin is None else word("pin", pin)
        options.on_miss = ON_MISS[on_miss]
        options.read_environment = 1
        options.record_misses = int(bool(record_misses))
        self._owned = _Owned(log)
        options.label = path("label", label)
        options.log, options.log_user = self._owned.log_function, self._owned.log_user
        raw = ctypes.c_void_p()
        _library.check(_library.create(ctypes.byref(raw), ctypes.byref(options)))
        self._owned.open(raw.value)
        _handles.add(self)

    def close(self) -> None:
        """Frees the handle's memory. No work that uses its workspaces may be pending; plans stay valid.

        Calls on other threads, and the call whose log function calls this, end first.
        """
        self._owned.close()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        owned = getattr(self, "_owned", None)
        if owned is not None:
            owned.close()

    def __copy__(self) -> "Handle":
        return self  # a copy would be a second owner of the library's handle

    def __deepcopy__(self, memo: Any) -> "Handle":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Handle belongs to its process and cannot be pickled; make one in the other process: autotune.Handle(...)")

    def plan(self, problem: Problem, schema: Optional["OpSchema"] = None) -> Plan:
        """The plan of the problem's winner: looked up, loaded or compiled, which takes up to a second once. `schema`: of the op of a kernel
        file. Raises NoContext, NoKernel, ..."""
        raw = ctypes.c_void_p()
        with self._owned as address:
            _library.check(_library.plan_create(address, ctypes.byref(problem.struct), ctypes.byref(raw)))
        return Plan(self, problem, raw.value or 0, schema)

    @property
    def agreement(self) -> "Agreement":
        """What decides which kernels this handle runs with a label. Reads the files of winners, which takes some 20 ms."""
        digest, size = ctypes.create_string_buffer(32), ctypes.c_size_t(4096)
        text = ctypes.create_string_buffer(size.value)
        with self._owned as address:
            _library.check(_library.agreement(address, digest, text, ctypes.byref(size)))
        parts = dict(line.split(" ", 1) for line in text.value.decode(errors="replace").splitlines())
        return Agreement(digest.raw, parts)

    def supports(self, problem: Problem) -> bool:
        """Whether a kernel family can do the problem on the current context's device. Raises InvalidArgument for an invalid problem."""
        from .errors import NoKernel

        try:
            with self._owned as address:
                _library.check(_library.supports(address, ctypes.byref(problem.struct)))
        except NoKernel:
            return False
        return True

    def run(self, problem: Problem, *arrays: Address, scalars: Sequence[Scalar] = (), stream: Stream = None) -> None:
        """The one-call form: the plan that the handle keeps for the problem, or what `on_miss` says, enqueued on `stream`.

        Alignments are taken from the arrays. If a workspace is needed, the handle has it.
        """
        on = stream_handle(stream)
        _check_scalars(problem, scalars)
        seen = [placed(array, on) for array in arrays]
        check_current_device([each.device for each in seen])
        _check_arrays(problem, seen)
        self._run(problem, [each.address for each in seen], scalars, on)

    def _run(self, problem: Problem, addresses: Sequence[int], scalars: Sequence[Scalar], stream: int) -> None:
        call = Call(len(addresses), scalars)
        call.set(addresses)
        with self._owned as handle:
            _library.check(_library.tuned(handle, ctypes.byref(problem.struct), ctypes.byref(call.struct), stream))

    def refresh(self) -> None:
        """Plans that were made before are looked up again the next time they are requested, so that new winners are used."""
        with self._owned as address:
            _library.check(_library.refresh(address))

    def flush_misses(self) -> None:
        """Writes the recorded misses that are not in the database yet."""
        with self._owned as address:
            _library.check(_library.flush_misses(address))


_handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()


def _close_all() -> None:
    """Runs at exit, while the library's threads can still call Python: their last messages are passed on, and no thread is
    left.
    """
    for handle in list(_handles):
        handle.close()


def _renew_locks() -> None:
    for handle in list(_handles):
        handle._owned.after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_renew_locks)


_default: Optional[Handle] = None
_default_lock = threading.Lock()


def default_handle() -> Handle:
    """The handle for functions that are called without one, made at its first use with the settings of the environment."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Handle(record_misses=records_misses())
    return _default


def records_misses() -> bool:
    return os.environ.get("AUTOTUNE_RECORD", "") not in ("", "0")
