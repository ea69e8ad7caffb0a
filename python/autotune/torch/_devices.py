"""Selects the device and the context of a call: torch's primary context on the tensors' device, whichever context is current
on the thread.
"""

import contextlib
import ctypes
from typing import Callable, Dict, Iterator, Optional

import torch

from ..errors import DriverError

current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device
raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)
is_current_stream_capturing = torch.cuda.is_current_stream_capturing

_driver_library: Optional[ctypes.CDLL] = None
_primary: Dict[int, ctypes.c_void_p] = {}


def is_capturing(index: int) -> bool:
    """Whether torch's current stream of that device is being captured."""
    if current_device() == index:
        return is_current_stream_capturing()
    with torch.cuda.device(index):
        return is_current_stream_capturing()


def has_context(index: int) -> bool:
    """Whether this process has the primary context of the device. Makes none."""
    flags, active, device = ctypes.c_uint(), ctypes.c_int(), ctypes.c_int()
    _check("cuDeviceGet", driver().cuDeviceGet(ctypes.byref(device), index))
    _check("cuDevicePrimaryCtxGetState", driver().cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)))
    return active.value != 0


@contextlib.contextmanager
def on_device(index: int) -> Iterator[None]:
    """Makes the device and its primary context current, and restores the former ones. A thread without a context keeps the new one."""
    with torch.cuda.device(index):
        before, wanted = _current_context(), _primary_context(index)
        if before == wanted:
            yield
        elif before is None:  # a thread has no context before its first call of the CUDA runtime
            _check("cuCtxSetCurrent", driver().cuCtxSetCurrent(ctypes.c_void_p(wanted)))
            yield
        else:
            _check("cuCtxPushCurrent", driver().cuCtxPushCurrent_v2(ctypes.c_void_p(wanted)))
            try:
                yield
            finally:
                driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def relax_captures() -> None:
    """From now on this thread may load kernels and allocate while another one captures a graph."""
    _check("cuThreadExchangeStreamCaptureMode", driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(2))))


def driver() -> ctypes.CDLL:
    global _driver_library
    if _driver_library is None:
        _driver_library = ctypes.CDLL("libcuda.so.1")
    return _driver_library


def _current_context() -> Optional[int]:
    context = ctypes.c_void_p()
    _check("cuCtxGetCurrent", driver().cuCtxGetCurrent(ctypes.byref(context)))
    return context.value


def _primary_context(index: int) -> Optional[int]:
    if index not in _primary:
        torch.cuda.init()
        context, device = ctypes.c_void_p(), ctypes.c_int()
        _check("cuDeviceGet", driver().cuDeviceGet(ctypes.byref(device), index))
        _check("cuDevicePrimaryCtxRetain", driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        _primary[index] = context
    return _primary[index].value


def _check(name: str, status: int) -> None:
    if status != 0:
        raise DriverError(f"{name} answered {status}")
