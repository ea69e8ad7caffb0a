"""Makes plans for torch tensors: shared by the operators, the patch and Inductor's choice."""

import ctypes
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import torch

from . import _devices
from ._workspace import Workspace
from .. import _library
from ..errors import DriverError, InvalidArgument, NoContext, NotPlanned
from ..handle import Call, Handle, Plan, records_misses
from ..problem import Problem, Tensor

Key = Tuple[Any, ...]  # key of a cache of plans
Value = TypeVar("Value")

WORDS = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
}
FP8 = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_ALL_WORDS = {**WORDS, **FP8}
ALIGN_BITS = 15  # plans are made for alignments of up to 16 bytes

_gemm, _run_on = _library.gemm, _library.run_on
_handle: Optional[Handle] = None
_lock = threading.RLock()
_listeners: List[Callable[[], None]] = []
_caches: "List[Cache[Any]]" = []
_looker: Optional[threading.Thread] = None
_current_device, _raw_stream = _devices.current_device, _devices.raw_stream
is_capturing = _devices.is_capturing

MOST_PLANS = 1024  # number of plans that one operator keeps, with some 10 KB each
# Errors that cannot occur while the plan's own context is current: the plan was made in another context, or the thread has none.
_OF_CONTEXTS = {NoContext.status, DriverError.status, InvalidArgument.status}


class Cache(Dict[Key, Value]):
    """Plans by their keys. Their number is bounded: if there is no room for a new one, the oldest quarter is removed."""

    def __init__(self) -> None:
        super().__init__()
        self._set_aside: Dict[Key, Value] = {}
        on_refresh(self.clear)
        _caches.append(self)

    def set_outdated_aside(self) -> None:
        """Marks plans of problems that another winner serves by now; they are made again when they are next needed."""
        for key, value in list(self.items()):
            if value is not None and value.plan.is_outdated:  # type: ignore[attr-defined]
                self._set_aside[key] = value
                self.pop(key, None)

    def during_capture(self, key: Key, index: int) -> Optional[Value]:
        """Returns the outdated plan if the current stream of device `index` is being captured, because nothing may be compiled
        then.
        """
        return self._set_aside.get(key) if self._set_aside and is_capturing(index) else None

    def clear(self) -> None:
        super().clear()
        self._set_aside.clear()

    def keep(self, key: Key, value: Value) -> Value:
        self._set_aside.pop(key, None)
        if len(self) >= MOST_PLANS:
            for oldest in list(self)[: MOST_PLANS // 4]:
                self.pop(oldest, None)
        self[key] = value
        return value


def handle() -> Handle:
    """The handle for everything that torch runs. The patch records its misses itself: `misses()`."""
    global _handle
    with _lock:
        if _handle is None:
            _handle = Handle(record_misses=records_misses())
            if records_misses():
                _look_for_winners()
        return _handle


def _look_for_winners() -> None:
    """Starts the thread that removes outdated plans. The library looks for new winners once a minute if it records misses."""
    global _looker

    def look() -> None:
        while True:
            time.sleep(int(os.environ.get("AUTOTUNE_TEST_LOOK_MS", "60000")) / 1000)
            for cache in _caches:
                cache.set_outdated_aside()

    if _looker is None or not _looker.is_alive():  # the child of a fork does not have its parent's threads
        _looker = threading.Thread(target=look, name="autotune winners", daemon=True)
        _looker.start()


def on_refresh(forget: Callable[[], None]) -> None:
    _listeners.append(forget)


def refresh() -> None:
    """Drops every plan, so that winners that were tuned meanwhile are used from now on. Captured graphs keep their plans."""
    global _handle
    with _lock:
        _kept.append(_handle)  # kept, because graphs use the memory of its plans
        _handle = None
        for forget in _listeners:
            forget()


_kept: List[Optional[Handle]] = []


def tensor_of(tensor: torch.Tensor, align: Optional[int] = None) -> Tensor:
    """A torch tensor's description; `align` 16 for one that will come from torch's allocator."""
    low = tensor.data_ptr() & ALIGN_BITS if align is None else align
    return Tensor(_ALL_WORDS[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride()), (low & -low) or 16)


def f32_compute() -> str:
    """The compute type in which torch.mm would multiply f32: torch.set_float32_matmul_precision decides."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "f32"


def gemm_problem(a: Tensor, b: Tensor, c: Tensor, beta: str = "zero") -> Problem:
    attributes = {"beta": beta}
    if a.dtype == "f32":
        attributes["compute"] = f32_compute()
    return Problem("gemm", {"a": a, "b": b, "c": c}, attributes)


def plan_of(problem: Problem, index: int) -> Plan:
    """The plan, made in the context of device `index`. Raises NotPlanned during a capture: nothing may be compiled there."""
    if is_capturing(index):
        raise NotPlanned(
            f"{problem} has no plan yet, and a CUDA graph is being captured; run the model once before the capture, on the same shapes"
        )
    with _devices.on_device(index):
        return handle().plan(problem)


class _Launched:
    """Runs a plan on its device's current stream, whichever device is current. Threads share it."""

    __slots__ = ("plan", "index", "deterministic", "workspace", "in_stream", "in_graphs")

    def __init__(self, plan: Plan, index: int):
        self.plan, self.index, self.deterministic = plan, index, plan.info.deterministic
        self.workspace = Workspace(plan, index) if plan.workspace_bytes else None
        self.in_stream = self.in_graphs = True  # whether a patch takes the call, in a stream and in graphs

    def launch(self, *addresses: int) -> None:
        if _current_device() != self.index:
            with torch.cuda.device(self.index):
                return self._launch(addresses)
        return self._launch(addresses)

    def _launch(self, addresses: Tuple[int, ...]) -> None:
        status = self._run(addresses)
        if status in _OF_CONTEXTS:
            with _devices.on_device(self.index):
                status = self._run(addresses)
        if status:
            _library.check(status)

    def _run(self, addresses: Tuple[int, ...]) -> int:
        raise NotImplementedError


class Gemm(_Launched):
    """A product's plan with everything that a call needs, by value."""

    __slots__ = ("address", "shape", "strides", "alpha", "beta", "keep")

    def __init__(self, plan: Plan, index: int, alpha: float = 1.0, beta: float = 0.0):
        super().__init__(plan, index)
        self.address = plan._address
        self.shape = plan.problem.tensors["c"].shape
        self.strides = plan.problem.tensors["c"].strides
        self.keep = ctypes.c_float(alpha), ctypes.c_float(beta)
        self.alpha, self.beta = map(ctypes.addressof, self.keep)

    def launch(self, *addresses: int) -> None:
        # The usual case is written here without another call: a launch takes 2 us, and each call in Python adds noticeably to
        # that.
        if self.workspace is None and _current_device() == self.index:
            a, b, c = addresses
            if not _gemm(self.address, self.alpha, a, b, self.beta, c, 0, 0, _raw_stream(self.index)):
                return
        super().launch(*addresses)

    def _run(self, addresses: Tuple[int, ...]) -> int:
        a, b, c = addresses
        stream = _raw_stream(self.index)
        if self.workspace is None:
            return _gemm(self.address, self.alpha, a, b, self.beta, c, 0, 0, stream)
        return _gemm(self.address, self.alpha, a, b, self.beta, c, self.workspace.address(stream), self.workspace.bytes, stream)


class Described(_Launched):
    """Any op's plan: tensors in the op's order, scalars that stay."""

    __slots__ = ("_call",)

    def __init__(self, plan: Plan, index: int, tensor_count: int, scalars: Tuple[float, ...] = ()):
        super().__init__(plan, index)
        self._call = Call(tensor_count, scalars)

    def _run(self, addresses: Tuple[int, ...]) -> int:
        stream = _raw_stream(self.index)
        memory, size = (self.workspace.address(stream), self.workspace.bytes) if self.workspace else (0, 0)
        return _run_on(self.plan._address, self._call.pointer, memory, size, stream, *addresses)


class DevicesDiffer(TypeError, RuntimeError):
    """Tensors are on several devices: a RuntimeError with torch's sentence, and a TypeError as for other tensors that cannot be."""


def refuse_inputs(name: str, *tensors: torch.Tensor) -> None:
    """Raises for a tensor that no kernel accepts, and names the remedy."""
    first = tensors[0]
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise TypeError(f"autotune.torch.{name}: a tensor has layout {tensor.layout}; give it as .to_dense()")
        refuse_devices(name, first, tensor)
        if tensor.device.type != "cuda":
            raise TypeError(f"autotune.torch.{name}: a tensor is on {tensor.device}; move it to a GPU: .cuda()")
        if tensor.dtype not in WORDS:
            raise TypeError(f"autotune.torch.{name}: dtype {tensor.dtype} has no kernels; it takes {', '.join(map(str, WORDS))}")
        if tensor.dtype != first.dtype:
            raise TypeError(f"autotune.torch.{name}: dtypes are {first.dtype} and {tensor.dtype}; cast one, or use torch.autocast")


def refuse_devices(name: str, *tensors: Optional[torch.Tensor]) -> None:
    """Raises for tensors on several devices, also for the host and a GPU."""
    devices = [tensor.device for tensor in tensors if tensor is not None]
    other = next((device for device in devices if device != devices[0]), None)
    if other is not None:
        raise DevicesDiffer(
            f"Expected all tensors to be on the same device, but found at least two devices, {devices[0]} and {other}! "
            f"autotune.torch.{name}: move them to one device"
        )


def must_be_deterministic() -> bool:
    return torch.are_deterministic_algorithms_enabled()


def dense(matrix: torch.Tensor) -> torch.Tensor:
    """The tensor itself if one of the last two dimensions is contiguous and rows do not overlap, else a copy."""
    rows, cols = matrix.shape[-2:]
    row_step, col_step = matrix.stride()[-2:]
    plain = (col_step == 1 or cols == 1) and (row_step >= cols or rows == 1)
    turned = (row_step == 1 or rows == 1) and (col_step >= rows or cols == 1)
    batched = matrix.dim() < 3 or matrix.shape[0] == 1 or matrix.stride(0) > 0
    return matrix if (plain or turned) and batched else matrix.contiguous()


def refuse_nondeterministic(name: str, plan: Described) -> None:
    if not plan.deterministic and must_be_deterministic():
        raise RuntimeError(
            f"autotune.torch.{name}: the kernel on record is not deterministic, and deterministic algorithms are asked for; "
            "use torch's own function there"
        )


def with_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or ordinary zeros if it is one of torch's tensors of zeros without memory."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device) if tensor._is_zerotensor() else tensor


def columns(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if the last dimension is contiguous, else a copy."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def layout_key(*tensors: torch.Tensor) -> Key:
    """The properties of tensors that a plan depends on."""
    return tuple((each.shape, each.stride(), each.dtype, each.get_device(), each.data_ptr() & ALIGN_BITS) for each in tensors)
