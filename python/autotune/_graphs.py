"""Keeps the objects that a captured CUDA graph needs for as long as the graph lives."""

import ctypes
import itertools
from typing import Any, Dict, Tuple

from . import _library
from ._driver import driver_call
from .errors import DriverError

_NO_SYNC, _MOVE = 1, 1  # CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CU_GRAPH_USER_OBJECT_MOVE

_kept: Dict[int, Any] = {}
_numbers = itertools.count(1)


def capture_of(stream: int) -> Tuple[int, int]:
    """The driver's number of the capture that `stream` takes part in, and the graph that is being made."""
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
    arguments = ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph), None, None
    _check("cuStreamGetCaptureInfo", driver_call("cuStreamGetCaptureInfo", 11030, ctypes.c_void_p(stream), *arguments))
    return number.value, graph.value or 0


def keep_for_graph(graph: int, needed: Any) -> None:
    """Keeps `needed` until the graph and everything instantiated from it are destroyed; forever if the driver cannot report that."""
    forget_ended()
    number = next(_numbers)
    _kept[number] = needed
    if _library.graph_ended is None:
        return
    user_object = ctypes.c_void_p()
    payload = ctypes.c_void_p(number), ctypes.c_void_p(_library.graph_ended), ctypes.c_uint(1), ctypes.c_uint(_NO_SYNC)
    _check("cuUserObjectCreate", driver_call("cuUserObjectCreate", 11030, ctypes.byref(user_object), *payload))
    retained = driver_call("cuGraphRetainUserObject", 11030, ctypes.c_void_p(graph), user_object, ctypes.c_uint(1), ctypes.c_uint(_MOVE))
    if retained != 0:
        _kept[-number] = needed  # releasing the object would report that the graph has ended, but it has not
        driver_call("cuUserObjectRelease", 11030, user_object, ctypes.c_uint(1))


def forget_ended() -> None:
    """Releases the objects of ended graphs. Called by the main thread soon after a graph has ended, and whenever a graph is made."""
    for number in _library.ended_graphs():
        _kept.pop(number, None)


def _check(name: str, status: int) -> None:
    if status != 0:
        raise DriverError(f"{name} answered {status}")


_library.on_graph_end(forget_ended)
