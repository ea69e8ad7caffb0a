"""From torch tensors to plans: what the operators, the patch and Inductor's choice share."""

import ctypes
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .. import _library
from ..errors import DriverError, NoContext, NotPlanned
from ..handle import Call, Handle, Plan, records_misses
from ..problem import Problem, Tensor

Key = Tuple[Any, ...]  # of a cache of plans

WORDS = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
}
FP8 = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_ALL_WORDS = {**WORDS, **FP8}
ALIGN_BITS = 15  # what a plan is made for: up to 16 bytes

_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)

_gemm, _run_on = _library.gemm, _library.run_on
_handle: Optional[Handle] = None
_lock = threading.RLock()
_listeners: List[Callable[[], None]] = []


def handle() -> Handle:
    """The handle of all that torch runs. The patch keeps its misses by itself: `misses()`."""
    global _handle
    with _lock:
        if _handle is None:
            _handle = Handle(record_misses=records_misses())
        return _handle


def on_refresh(forget: Callable[[], None]) -> None:
    _listeners.append(forget)


def refresh() -> None:
    """Forgets every plan, so that winners which were tuned meanwhile are used from now on. Captured graphs keep theirs."""
    global _handle
    with _lock:
        _kept.append(_handle)  # graphs hold its plans' memory
        _handle = None
        for forget in _listeners:
            forget()


_kept: List[Optional[Handle]] = []


def tensor_of(tensor: torch.Tensor, align: Optional[int] = None) -> Tensor:
    """A torch tensor's description; `align` 16 for one that will come from torch's allocator."""
    low = tensor.data_ptr() & ALIGN_BITS if align is None else align
    return Tensor(_ALL_WORDS[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride()), (low & -low) or 16)


def f32_compute() -> str:
    """What torch.mm would multiply f32 in: torch.set_float32_matmul_precision decides."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "f32"


def gemm_problem(a: Tensor, b: Tensor, c: Tensor, beta: str = "zero") -> Problem:
    attributes = {"beta": beta}
    if a.dtype == "f32":
        attributes["compute"] = f32_compute()
    return Problem("gemm", {"a": a, "b": b, "c": c}, attributes)


def is_capturing() -> bool:
    return torch.cuda.is_current_stream_capturing()


def plan_of(problem: Problem, index: int) -> Plan:
    """The plan, made in the context of device `index`. Raises NotPlanned during a capture: nothing may be compiled there."""
    if is_capturing():
        raise NotPlanned(
            f"{problem} has no plan yet, and a CUDA graph is being captured; run the model once before the capture, on the same shapes"
        )
    with torch.cuda.device(index):
        make_context_current(index)
        return handle().plan(problem)


class Workspace:
    """A plan's device memory: one tensor a stream, and one a capture, each zeroed once where the plan says so.

    A capture takes the spare that was made at warm-up and keeps it: two graphs never share counters. Where there is none left, the
    graph gets memory of its own pool and clears it at every replay.
    """

    def __init__(self, plan: Plan, index: int):
        self.bytes, self.zero_bytes, self.index = plan.workspace_bytes, plan.workspace_zero_bytes, index
        self.of_stream: Dict[int, torch.Tensor] = {}
        self.of_capture: Dict[Tuple[int, int], torch.Tensor] = {}
        self.spare: Optional[torch.Tensor] = self._make()

    def _make(self) -> torch.Tensor:
        memory = torch.empty(self.bytes, dtype=torch.uint8, device=torch.device("cuda", self.index))
        if self.zero_bytes:
            memory[: self.zero_bytes].zero_()
        return memory

    def get(self, stream: int) -> torch.Tensor:
        if not is_capturing():
            memory = self.of_stream.get(stream)
            if memory is None:
                memory = self.of_stream[stream] = self._make()
            if self.spare is None:
                self.spare = self._make()
            return memory
        capture = (stream, capture_id(stream))
        memory = self.of_capture.get(capture)
        if memory is None:
            memory, self.spare = self.spare, None
            if memory is None:
                memory = self._make()
            self.of_capture[capture] = memory
        return memory


def capture_id(stream: int) -> int:
    """The driver's number of the capture that `stream` takes part in."""
    status, number = ctypes.c_int(), ctypes.c_uint64()
    result = _driver().cuStreamGetCaptureInfo_v2(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), None, None, None)
    if result != 0:
        raise DriverError(f"cuStreamGetCaptureInfo answered {result}")
    return number.value


_driver_library: Optional[ctypes.CDLL] = None
_contexts: Dict[int, ctypes.c_void_p] = {}


def _driver() -> ctypes.CDLL:
    global _driver_library
    if _driver_library is None:
        _driver_library = ctypes.CDLL("libcuda.so.1")
    return _driver_library


def make_context_current(index: int) -> None:
    """Gives this thread the device's primary context, torch's own: a thread has none before its first call of the CUDA runtime."""
    current = ctypes.c_void_p()
    if _driver().cuCtxGetCurrent(ctypes.byref(current)) == 0 and current.value:
        return
    if index not in _contexts:
        torch.cuda.init()
        context, device = ctypes.c_void_p(), ctypes.c_int()
        results = _driver().cuDeviceGet(ctypes.byref(device), index), _driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        if any(results):
            raise DriverError(f"device {index} has no primary context: the driver answered {results}")
        _contexts[index] = context
    _driver().cuCtxSetCurrent(_contexts[index])


class Gemm:
    """A product's plan with what a call needs, all by value, so that threads share it."""

    __slots__ = ("plan", "address", "index", "shape", "strides", "deterministic", "workspace", "alpha", "beta", "keep", "in_stream", "in_graphs")

    def __init__(self, plan: Plan, index: int, alpha: float = 1.0, beta: float = 0.0):
        self.plan, self.address, self.index = plan, plan._address, index
        self.shape = plan.problem.tensors["c"].shape
        self.strides = plan.problem.tensors["c"].strides
        self.deterministic = plan.info.deterministic
        self.workspace = Workspace(plan, index) if plan.workspace_bytes else None
        self.keep = ctypes.c_float(alpha), ctypes.c_float(beta)
        self.alpha, self.beta = map(ctypes.addressof, self.keep)
        self.in_stream = self.in_graphs = True  # where a patch takes it

    def launch(self, a: int, b: int, c: int) -> None:
        stream = _raw_stream(self.index)
        if self.workspace is None:
            status = _gemm(self.address, self.alpha, a, b, self.beta, c, 0, 0, stream)
        else:
            memory = self.workspace.get(stream)
            status = _gemm(self.address, self.alpha, a, b, self.beta, c, memory.data_ptr(), self.workspace.bytes, stream)
        if status:
            self._again(status, (a, b, c), stream)

    def _again(self, status: int, addresses: Tuple[int, int, int], stream: int) -> None:
        try:
            _library.check(status)
        except (NoContext, DriverError):
            make_context_current(self.index)
            memory, size = (self.workspace.get(stream).data_ptr(), self.workspace.bytes) if self.workspace else (0, 0)
            a, b, c = addresses
            _library.check(_gemm(self.address, self.alpha, a, b, self.beta, c, memory, size, stream))


class Described:
    """Any op's plan: tensors in the op's order, scalars that stay. Threads share it."""

    __slots__ = ("plan", "index", "deterministic", "workspace", "_call", "in_stream", "in_graphs")

    def __init__(self, plan: Plan, index: int, tensor_count: int, scalars: Tuple[float, ...] = ()):
        self.plan, self.index, self.deterministic = plan, index, plan.info.deterministic
        self.workspace = Workspace(plan, index) if plan.workspace_bytes else None
        self._call = Call(tensor_count, scalars)
        self.in_stream = self.in_graphs = True  # where a patch takes it

    def launch(self, *addresses: int) -> None:
        stream = _raw_stream(self.index)
        memory, size = (self.workspace.get(stream).data_ptr(), self.workspace.bytes) if self.workspace else (0, 0)
        status = _run_on(self.plan._address, self._call.pointer, memory, size, stream, *addresses)
        if status:
            make_context_current(self.index)
            _library.check(_run_on(self.plan._address, self._call.pointer, memory, size, stream, *addresses))


def refuse_inputs(name: str, *tensors: torch.Tensor) -> None:
    """Raises for what no kernel takes, with what to do about it."""
    first = tensors[0]
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise TypeError(f"autotune.torch.{name}: a tensor has layout {tensor.layout}; give it as .to_dense()")
        if tensor.device.type != "cuda":
            raise TypeError(f"autotune.torch.{name}: a tensor is on {tensor.device}; move it to a GPU: .cuda()")
        if tensor.device != first.device:
            raise TypeError(f"autotune.torch.{name}: tensors are on {first.device} and {tensor.device}; move them to one device")
        if tensor.dtype not in WORDS:
            raise TypeError(f"autotune.torch.{name}: dtype {tensor.dtype} has no kernels; it takes {', '.join(map(str, WORDS))}")
        if tensor.dtype != first.dtype:
            raise TypeError(f"autotune.torch.{name}: dtypes are {first.dtype} and {tensor.dtype}; cast one, or use torch.autocast")


def must_be_deterministic() -> bool:
    return torch.are_deterministic_algorithms_enabled()


def dense(matrix: torch.Tensor) -> torch.Tensor:
    """The same where one of the last two dimensions is contiguous and rows do not overlap, else a copy."""
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


def columns(tensor: torch.Tensor) -> torch.Tensor:
    """The same where the last dimension is contiguous, else a copy."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def layout_key(*tensors: torch.Tensor) -> Key:
    """What of tensors a plan depends on."""
    return tuple((each.shape, each.stride(), each.dtype, each.get_device(), each.data_ptr() & ALIGN_BITS) for each in tensors)
