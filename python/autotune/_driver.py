"""The few calls of the CUDA driver that the package makes itself, without making a context."""

import ctypes
import functools
from typing import Any, Callable, Optional

from .errors import DriverError

NOT_FOUND = 500  # CUDA_ERROR_NOT_FOUND: the driver has no function of that name, or there is no driver
_CAPTURING = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
_ATTRIBUTES = (ctypes.c_int * 3)(2, 8, 9)  # _MEMORY_TYPE, _IS_MANAGED and _DEVICE_ORDINAL of CU_POINTER_ATTRIBUTE
_DEVICE_MEMORY = 2  # CU_MEMORYTYPE_DEVICE


@functools.lru_cache(maxsize=None)
def _library() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


@functools.lru_cache(maxsize=None)
def _entry(name: str, version: int) -> Optional[Callable[..., Any]]:
    """The driver's function in the version of that CUDA release, by cuGetProcAddress; None if the driver does not have it."""
    library, address, status = _library(), ctypes.c_void_p(), ctypes.c_int()
    if library is None or not hasattr(library, "cuGetProcAddress_v2"):
        return None
    result = library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(0), ctypes.byref(status))
    if result != 0 or not address.value:
        return None
    function = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
    function.argtypes = None  # type: ignore[assignment]
    return function


def driver_call(name: str, version: int, *arguments: Any) -> int:
    """Calls a driver function and returns its status; NOT_FOUND if there is none of that name. Arguments are ctypes values."""
    function = _entry(name, version)
    return NOT_FOUND if function is None else int(function(*arguments))


def driver_major() -> Optional[int]:
    """The CUDA major version that the driver supports; None without a driver."""
    library, version = _library(), ctypes.c_int()
    if library is None or not hasattr(library, "cuDriverGetVersion"):
        return None
    return version.value // 1000 if library.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def current_device() -> Optional[int]:
    """The ordinal of the device whose context is current on this thread; None if no context is current."""
    device = ctypes.c_int()
    return device.value if driver_call("cuCtxGetDevice", 2000, ctypes.byref(device)) == 0 else None


def device_of(address: int) -> Optional[int]:
    """The ordinal of the device that has the memory at an address. None if several devices can access it, or if it is unknown."""
    if address == 0:
        return None
    values = [ctypes.c_int() for _ in _ATTRIBUTES]
    places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    arguments = ctypes.c_uint(len(values)), _ATTRIBUTES, places, ctypes.c_uint64(address)
    if driver_call("cuPointerGetAttributes", 7000, *arguments) != 0:
        return None
    kind, is_managed, ordinal = (value.value for value in values)
    return ordinal if kind == _DEVICE_MEMORY and not is_managed & 1 else None


def wait_for(producer: int, consumer: int) -> None:
    """Makes later work on stream `consumer` wait for the work that is now on `producer`. Raises DriverError.

    A capture of the consumer does not wait for a stream outside of it: the graph runs after the capture, when its caller says.
    """
    if producer == consumer or {producer, consumer} == {0, 1}:  # both numbers mean the legacy default stream
        return
    if _is_capturing(consumer) and not _is_capturing(producer):
        return
    event = ctypes.c_void_p()
    _check("cuEventCreate", driver_call("cuEventCreate", 2000, ctypes.byref(event), ctypes.c_uint(2)))  # CU_EVENT_DISABLE_TIMING
    try:
        _check("cuEventRecord", driver_call("cuEventRecord", 2000, event, ctypes.c_void_p(producer)))
        _check("cuStreamWaitEvent", driver_call("cuStreamWaitEvent", 3020, ctypes.c_void_p(consumer), event, ctypes.c_uint(0)))
    finally:
        driver_call("cuEventDestroy", 4000, event)  # the driver frees the event once it is over


def _is_capturing(stream: int) -> bool:
    status = ctypes.c_int()
    answer = driver_call("cuStreamIsCapturing", 10000, ctypes.c_void_p(stream), ctypes.byref(status))
    return answer == 0 and status.value == _CAPTURING  # the legacy stream answers 906 while another one is captured


def _check(name: str, status: int) -> None:
    if status != 0:
        raise DriverError(f"{name} answered {status}")
