"""DLPack: reads a producer's description of an array, with a bound for every value in it.

A capsule is consumed: its name is changed, and its producer's deleter is called once, after the last read. The array that the caller holds
keeps the memory.
"""

import ctypes
from typing import Any, Optional, Tuple

from ._checked import INT32, INT64, UINT64, integer
from .dtypes import BYTES, DLPACK
from .errors import InvalidArgument

MAX_DIMS = 5  # as autotune.h
_CUDA, _CUDA_MANAGED = 2, 13
_NEWEST = (1, 0)  # the version requested from producers; flags and type codes tell what a newer 1.x adds
_READ_ONLY, _IS_COPIED = 1, 2

View = Tuple[int, str, Tuple[int, ...], Tuple[int, ...], Optional[int], bool]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensor, in a capsule named "dltensor"."""

    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, in a capsule named "dltensor_versioned". Every version begins with these fields up to the deleter."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


def _capsule_function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _capsule_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _capsule_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# These names must live as long as the capsules
_KINDS = ((b"dltensor", b"used_dltensor", Managed), (b"dltensor_versioned", b"used_dltensor_versioned", Versioned))


def read(array: Any, stream: Optional[int]) -> View:
    """Returns address, type, shape, strides in elements, device and whether it is read-only. `stream` waits for the producer's work."""
    kind, ordinal = _device(array)
    capsule = _capsule(array, stream)
    for name, used, form in _KINDS:
        if _is_valid(capsule, name):
            managed = ctypes.cast(_pointer(capsule, name), ctypes.POINTER(form)).contents
            _set_name(capsule, used)
            try:
                return _checked(managed, (kind, ordinal))
            finally:
                if managed.deleter:
                    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))
        if _is_valid(capsule, used):
            raise InvalidArgument("the capsule of __dlpack__ was consumed before; a producer must give a new one at each call")
    raise TypeError(f"__dlpack__ gives {type(capsule).__name__}; it must give a capsule named dltensor or dltensor_versioned")


def _device(array: Any) -> Tuple[int, int]:
    said = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else None
    if not isinstance(said, (tuple, list)) or len(said) != 2:
        raise TypeError(f"__dlpack_device__ gives {said!r}; it must give the type of the device and its number")
    kind = integer("the device type of __dlpack_device__", said[0], INT32)
    if kind not in (_CUDA, _CUDA_MANAGED):
        raise TypeError(f"the array is not on a CUDA device (DLPack device type {kind}); move it to one first")
    return kind, integer("the device of __dlpack_device__", said[1], (0, INT32[1]))


def _capsule(array: Any, stream: Optional[int]) -> Any:
    """DLPack's number for a stream: 1 is the legacy default stream, 2 the per-thread one, None the producer's default."""
    wanted = None if stream is None else stream or 1
    try:
        return array.__dlpack__(stream=wanted, max_version=_NEWEST)
    except TypeError:  # the producer was made before version 1.0
        return array.__dlpack__(stream=wanted)


def _checked(managed: Any, device: Tuple[int, int]) -> View:
    flags = 0
    if isinstance(managed, Versioned):
        if managed.major != _NEWEST[0]:
            raise TypeError(f"the array has DLPack version {managed.major}.{managed.minor}; this package knows {_NEWEST[0]}.x")
        flags = managed.flags
    if flags & _IS_COPIED:
        raise InvalidArgument("the array's producer gives a copy by DLPack, which would be gone before the kernel runs; give the device array itself")
    tensor = managed.tensor
    if (tensor.device_type, tensor.device_id) != device:
        raise InvalidArgument(
            f"DLPack's tensor is on device {tensor.device_type}:{tensor.device_id}, and __dlpack_device__ says {device[0]}:{device[1]}"
        )
    word = _word(tensor)
    shape, strides = _extents(tensor)
    is_empty = 0 in shape
    address = integer("the address of DLPack's tensor", (tensor.data or 0) + tensor.byte_offset, UINT64)
    if not tensor.data and not is_empty:
        raise InvalidArgument("the array has elements and its address is 0; it was freed, or never had memory")
    # Managed memory belongs to no single device: every device can access it.
    return address, word, shape, strides, device[1] if device[0] == _CUDA else None, bool(flags & _READ_ONLY)


def _word(tensor: Any) -> str:
    if tensor.lanes != 1:
        raise TypeError(f"DLPack's elements have {tensor.lanes} lanes; autotune takes arrays of single numbers")
    word = DLPACK.get((tensor.type_code, tensor.bits))
    if word is None:
        raise TypeError(f"DLPack type code {tensor.type_code} of {tensor.bits} bits is none that autotune takes")
    return word


def _extents(tensor: Any) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    rank = tensor.ndim
    if not 0 <= rank <= MAX_DIMS:
        raise InvalidArgument(f"the array has {rank} dimensions; at most {MAX_DIMS}")
    if rank and not tensor.shape:
        raise InvalidArgument(f"DLPack's tensor has {rank} dimensions and no shape")
    shape = tuple(integer(f"shape[{i}]", tensor.shape[i], (0, INT64[1])) for i in range(rank))
    if not tensor.strides:
        from .arrays import dense_strides

        return shape, dense_strides(shape)
    strides = tuple(tensor.strides[i] for i in range(rank))
    if any(step < 0 for step in strides):
        raise InvalidArgument(f"the array has strides {strides}; negative ones are not supported: give a copy")
    return shape, strides
