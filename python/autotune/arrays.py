"""Arrays and streams of other packages: address, type, extents and strides, without importing any of those packages."""

import ctypes
from typing import Any, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

from .dtypes import BYTES, DLPACK, TYPESTR, dtype_word

_CUDA, _CUDA_MANAGED = 2, 13


class CudaArray(Protocol):
    """An array that says where it lies by `__cuda_array_interface__`."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class DLPackArray(Protocol):
    """An array that says where it lies by DLPack; torch tensors too."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> Tuple[Any, int]: ...


class CudaStream(Protocol):
    """A stream by cuda.core's protocol: its version, 0, and the CUstream."""

    def __cuda_stream__(self) -> Tuple[int, int]: ...


class TorchStream(Protocol):
    """A torch.cuda.Stream."""

    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    """A cupy.cuda.Stream."""

    @property
    def ptr(self) -> int: ...


DeviceArray = Union[CudaArray, DLPackArray]
Address = Union[DeviceArray, int, None]  # where an address is taken as it is, and None leaves an optional array out
Stream = Union[int, CudaStream, TorchStream, CupyStream, None]


class ArrayView(NamedTuple):
    """A device array: strides in elements, `device` an ordinal or None where the array does not say."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    device: Optional[int]


def dense_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    strides: List[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


class _DLTensor(ctypes.Structure):
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


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _from_torch(array: Any) -> ArrayView:
    if array.device.type != "cuda":
        raise TypeError(f"the tensor is on {array.device}; move it to a CUDA device first: tensor.cuda()")
    if array.layout is not _strided_layout():
        raise TypeError(f"the tensor has layout {array.layout}; autotune takes strided tensors: tensor.to_dense()")
    return ArrayView(array.data_ptr(), dtype_word(array.dtype), tuple(array.shape), tuple(array.stride()), array.device.index)


def _strided_layout() -> Any:
    import sys

    return sys.modules["torch"].strided


def _from_interface(interface: Mapping[str, Any]) -> ArrayView:
    shape = tuple(interface["shape"])
    word = TYPESTR.get(interface["typestr"])
    if word is None:
        raise TypeError(
            f"the array's type is {interface['typestr']!r}; autotune takes {', '.join(TYPESTR)} by __cuda_array_interface__, bf16 and fp8 by __dlpack__"
        )
    strides = interface.get("strides")
    if strides is None:
        return ArrayView(interface["data"][0], word, shape, dense_strides(shape), None)
    if any(step % BYTES[word] for step in strides):
        raise ValueError(f"strides {strides} are no multiples of an element's {BYTES[word]} bytes")
    return ArrayView(interface["data"][0], word, shape, tuple(step // BYTES[word] for step in strides), None)


def _from_dlpack(array: Any, stream: int) -> ArrayView:
    kind, ordinal = array.__dlpack_device__()
    if int(kind) not in (_CUDA, _CUDA_MANAGED):
        raise TypeError(f"the array is not on a CUDA device (DLPack device type {int(kind)}); move it to one first")
    capsule = array.__dlpack__(stream=_dlpack_stream(stream))
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    word = DLPACK.get((tensor.type_code, tensor.bits)) if tensor.lanes == 1 else None
    if word is None:
        raise TypeError(f"DLPack type code {tensor.type_code} of {tensor.bits} bits is none that autotune takes")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    # The capsule is dropped here, unconsumed: its owner frees it, and the array that the caller holds keeps the memory.
    return ArrayView((tensor.data or 0) + tensor.byte_offset, word, shape, strides, ordinal)


def _dlpack_stream(stream: int) -> int:
    """DLPack's word for a stream: 1 is the legacy default stream, 2 the per-thread one."""
    return stream if stream else 1


def view(array: DeviceArray, stream: int = 0) -> ArrayView:
    """What `array` is: a torch tensor, an object with `__cuda_array_interface__`, or one with `__dlpack__`.

    `stream`: the CUstream on which the array will be used; a producer by DLPack makes it wait for the array's content.
    Raises TypeError for an array of the host or of a type that no kernel takes.
    """
    if hasattr(array, "data_ptr") and hasattr(array, "layout"):
        return _from_torch(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None and interface["typestr"] in TYPESTR:
        return _from_interface(interface)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, stream)
    if interface is not None:
        return _from_interface(interface)
    raise TypeError(f"{type(array).__name__} is no device array: it has neither __cuda_array_interface__ nor __dlpack__")


def address(array: Address, stream: int = 0) -> int:
    """The device address of an array, or of None (0) or an int as it is."""
    if array is None:
        return 0
    if isinstance(array, int):
        return array
    if hasattr(array, "data_ptr") and hasattr(array, "layout"):
        tensor: Any = array  # torch's, without importing torch
        if not tensor.is_cuda:
            raise TypeError(f"the tensor is on {tensor.device}; move it to a CUDA device first: tensor.cuda()")
        return int(tensor.data_ptr())
    return view(array, stream).address


def stream_handle(stream: Stream) -> int:
    """The CUstream of an int, of None (the legacy default stream), of an object with `__cuda_stream__`, or of a torch or CuPy stream."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"version {version} of __cuda_stream__ is newer than this package knows (0)")
        return int(handle)
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise TypeError(f"{type(stream).__name__} is no stream: give an int or an object with __cuda_stream__")
