"""libautotune for Python: its structs, its functions, and statuses as exceptions. Mirrors include/autotune/autotune.h."""

import atexit
import ctypes
import os
import sys
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple, Type

from ._nvrtc import with_this_pythons
from .errors import error_of

MAX_DIMS = 5
FOLDER = Path(__file__).resolve().parent

c_int64_dims = ctypes.c_int64 * MAX_DIMS
LogFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class OptionsStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("database", ctypes.c_char_p),
        ("cache_folder", ctypes.c_char_p),
        ("shipped", ctypes.c_char_p),
        ("nvrtc", ctypes.c_char_p),
        ("pin", ctypes.c_char_p),
        ("on_miss", ctypes.c_int),
        ("read_environment", ctypes.c_int),
        ("record_misses", ctypes.c_int),
        ("log", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("label", ctypes.c_char_p),
    ]


class TensorStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("extents", c_int64_dims),
        ("strides", c_int64_dims),
        ("align", ctypes.c_int),
    ]


class AttributeStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("word", ctypes.c_char_p),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    ]


class ProblemStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("op", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(TensorStruct)),
        ("tensor_count", ctypes.c_size_t),
        ("attributes", ctypes.POINTER(AttributeStruct)),
        ("attribute_count", ctypes.c_size_t),
    ]


class ScalarValue(ctypes.Union):
    _fields_ = [("f32", ctypes.c_float), ("i32", ctypes.c_int32), ("u64", ctypes.c_uint64)]


class ScalarStruct(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("value", ScalarValue)]


class CallStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("tensors", ctypes.POINTER(ctypes.c_void_p)),
        ("tensor_count", ctypes.c_size_t),
        ("scalars", ctypes.POINTER(ScalarStruct)),
        ("scalar_count", ctypes.c_size_t),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
    ]


class FactsStruct(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("origin", ctypes.c_int),
        ("deterministic", ctypes.c_int),
        ("candidate", ctypes.c_char_p),
        ("predicted_us", ctypes.c_double),
        ("recorded_us", ctypes.c_double),
        ("workspace_bytes", ctypes.c_size_t),
        ("workspace_zero_bytes", ctypes.c_size_t),
        ("recorded_rival_us", ctypes.c_double),
        ("candidate_when_zero", ctypes.c_char_p),
        ("origin_when_zero", ctypes.c_int),
        ("expected_regret", ctypes.c_double),
    ]


class VerdictStruct(ctypes.Structure):
    """autotune_verdict."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("problem", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("rival", ctypes.c_char_p),
        ("in_stream", ctypes.c_double),
        ("in_graphs", ctypes.c_double),
    ]


VerdictFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(VerdictStruct))


def _load(kind: Type[ctypes.CDLL]) -> ctypes.CDLL:
    path = FOLDER / "lib" / "libautotune.so"
    try:
        return kind(str(path))
    except OSError as error:
        raise ImportError(
            f"cannot load {path}: {error}. The package was built for another system or not built at all: "
            "install the wheel, or `pip install .` in a checkout"
        ) from None


def _declare(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function  # type: ignore[no-any-return]


_library = _load(ctypes.CDLL)
# The same library, called with the interpreter's lock held. A launch takes 2 us, but a thread that gives up the lock may wait 5
# ms to get it back.
_held = _load(ctypes.PyDLL)

_p = ctypes.c_void_p
version_string = _declare(_library, "autotune_version_string", ctypes.c_char_p)
origin_string = _declare(_library, "autotune_origin_string", ctypes.c_char_p, ctypes.c_int)
create = _declare(_library, "autotune_create", ctypes.c_int, ctypes.POINTER(_p), ctypes.POINTER(OptionsStruct))
destroy = _declare(_library, "autotune_destroy", None, _p)
last_error = _declare(_library, "autotune_last_error", ctypes.c_char_p, _p)
flush_misses = _declare(_library, "autotune_flush_misses", ctypes.c_int, _p)
agreement = _declare(
    _library, "autotune_agreement", ctypes.c_int, _p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
)
supports = _declare(_library, "autotune_supports", ctypes.c_int, _p, ctypes.POINTER(ProblemStruct))
problem_key = _declare(
    _library, "autotune_problem_key", ctypes.c_int, _p, ctypes.POINTER(ProblemStruct), ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
)
kernel_open = _declare(_library, "autotune_kernel_open", ctypes.c_int, _p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t))
kernel_interface = _declare(
    _library, "autotune_kernel_interface", ctypes.c_int, _p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
)
refresh = _declare(_library, "autotune_refresh", ctypes.c_int, _p)
plan_create = _declare(_library, "autotune_plan_create", ctypes.c_int, _p, ctypes.POINTER(ProblemStruct), ctypes.POINTER(_p))
plan_info = _declare(_library, "autotune_plan_info", ctypes.c_int, _p, ctypes.POINTER(FactsStruct))
plan_is_outdated = _declare(_library, "autotune_plan_is_outdated", ctypes.c_int, _p, ctypes.POINTER(ctypes.c_int))
plan_destroy = _declare(_library, "autotune_plan_destroy", None, _p)
tuned = _declare(_library, "autotune_tuned", ctypes.c_int, _p, ctypes.POINTER(ProblemStruct), ctypes.POINTER(CallStruct), _p)
put_verdicts = _declare(_library, "autotune_put_verdicts", ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(VerdictStruct), ctypes.c_size_t)
read_verdicts = _declare(_library, "autotune_read_verdicts", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, VerdictFunction, _p)


def check(status: int) -> None:
    """Raises the exception for a status other than success, with the library's message."""
    if status != 0:
        raise error_of(status, with_this_pythons(last_error(None).decode(errors="replace")))


def _load_quick_calls() -> Any:
    """The C functions of quick_calls.cpp, which call the library in a twentieth of ctypes' time; None if Python is not CPython."""
    if sys.implementation.name != "cpython":
        return None
    try:
        return ctypes.PyDLL(str(FOLDER / "lib" / "quick_calls.so"))
    except OSError:
        return None


_quick = _load_quick_calls()


def _hot(name: str, *arguments: Any) -> Callable[..., int]:
    """A function of the library that is called at each launch: it takes addresses as ints and returns the status."""
    function: Callable[..., int] = _declare(_held, f"autotune_{name}", ctypes.c_int, *arguments)
    return function if _quick is None else _made_quick(name, _address(function))


def _address(function: Any) -> int:
    return ctypes.cast(function, _p).value or 0


def _made_quick(name: str, made_of: Any) -> Callable[..., Any]:
    return _declare(_quick, f"autotune_quick_{name}", ctypes.py_object, ctypes.py_object)(made_of)  # type: ignore[no-any-return]


run = _hot("run", _p, _p, _p)
# Arguments: plan, alpha, a, b, beta, c, workspace, its bytes, stream. All are passed by value, so threads need no lock.
gemm = _hot("gemm", _p, _p, _p, _p, _p, _p, _p, ctypes.c_size_t, _p)


def _run_on_by_ctypes(plan: int, call: int, workspace: int, workspace_bytes: int, stream: int, *addresses: int) -> int:
    own = CallStruct.from_buffer_copy(CallStruct.from_address(call))
    own.tensors, own.tensor_count = (_p * len(addresses))(*addresses), len(addresses)
    own.workspace, own.workspace_bytes = workspace, workspace_bytes
    return run(plan, ctypes.addressof(own), stream)


# Arguments: plan, call, workspace, its bytes, stream, addresses of the tensors. The addresses replace those of the call, which
# threads share.
run_on: Callable[..., int] = _run_on_by_ctypes if _quick is None else _made_quick("run_on", _address(_held.autotune_run))


def _made_of_nothing(name: str) -> Callable[[], Any]:
    return _made_quick(name, None)


def _address_of(name: str) -> int:
    return int(_declare(_quick, f"autotune_quick_{name}", ctypes.c_void_p)())


def log_function(hear: Callable[[int, bytes], None]) -> Tuple[int, int, Any]:
    """A log function of the library that calls `hear`: its address, its `user`, and an object that keeps both alive."""
    if _quick is not None:
        return _address_of("hear"), id(hear), hear
    function = LogFunction(lambda _user, level, message: hear(level, message))
    return _address(function), 0, function


# The function that the driver calls with a number once all holders of a user object are destroyed; None if it does not exist.
graph_ended: Optional[int] = None if _quick is None else _address_of("graph_is_gone")


def _no_graphs() -> List[int]:
    return []


ended_graphs: Callable[[], List[int]] = _no_graphs


def on_graph_end(listener: Callable[[], None]) -> None:
    """`listener` is called by the main thread soon after graphs have ended; `ended_graphs` then returns their numbers."""
    global ended_graphs
    if _quick is not None:
        ended_graphs = _made_quick("ended_graphs", listener)


if _quick is not None:
    # Registered at import, so that it runs after the exit functions that programs register later. From then on no thread of the
    # library or the driver calls Python.
    atexit.register(_made_of_nothing("end_calls"))
    os.register_at_fork(after_in_child=_made_of_nothing("forget_calls"))


def bound(plan: int, call: int, handle_of: Callable[[Any], int], owners: Any) -> Callable[..., None]:
    """Returns a function of a stream that runs the call. `handle_of` converts a stream that is not an int to a CUstream, or
    raises. `owners` live as long as the function.
    """
    if _quick is not None:
        return _made_quick("launch", (_address(_held.autotune_run), plan, call, check, handle_of, owners))

    def launch(stream: Any = 0, *, _owners: Any = owners) -> None:
        status = run(plan, call, handle_of(stream))
        if status:
            check(status)

    return launch
