"""The few questions to the CUDA driver that the package asks by itself, without making a context."""

import ctypes
from typing import Any, Callable, Optional


def _library() -> Optional[ctypes.CDLL]:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _entry(name: str, version: int) -> Optional[Callable[..., Any]]:
    """An entry point as a program of that CUDA version sees it, by cuGetProcAddress; None without a driver that has it."""
    library, address, status = _library(), ctypes.c_void_p(), ctypes.c_int()
    if library is None or not hasattr(library, "cuGetProcAddress_v2"):
        return None
    result = library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(0), ctypes.byref(status))
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address.value) if result == 0 and address.value else None


def driver_major() -> Optional[int]:
    """The CUDA major version that the driver supports; None without a driver."""
    library, version = _library(), ctypes.c_int()
    if library is None or not hasattr(library, "cuDriverGetVersion"):
        return None
    return version.value // 1000 if library.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def current_device() -> Optional[int]:
    """The ordinal of the device whose context is current on this thread; None where there is none."""
    ask = _entry("cuCtxGetDevice", 2000)
    device = ctypes.c_int()
    return device.value if ask is not None and ask(ctypes.addressof(device)) == 0 else None
