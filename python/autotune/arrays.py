"""Arrays and streams of other packages: address, type, extents and strides, without importing any of those packages."""

import sys
from typing import Any, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

from . import _dlpack
from ._checked import INT64, UINT64, integer, integers
from ._driver import current_device, device_of, wait_for
from .dtypes import BYTES, TYPESTR, dtype_word
from .errors import InvalidArgument

_NEWEST_INTERFACE = 3


class CudaArray(Protocol):
    """An array with `__cuda_array_interface__`."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class DLPackArray(Protocol):
    """An array with DLPack's protocol; torch tensors have it too."""

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
Address = Union[DeviceArray, int, None]  # for arguments that also accept an address, or None to leave an optional array out
Stream = Union[int, CudaStream, TorchStream, CupyStream, None]


class ArrayView(NamedTuple):
    """A device array: strides in elements, `device` an ordinal, or None if the array does not state it."""

    address: int
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    device: Optional[int]
    read_only: bool = False


def dense_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    strides: List[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


# ---- torch ----


def is_torch(array: Any) -> bool:
    """Whether it is a torch tensor. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _check_torch(tensor: Any) -> None:
    """Raises TypeError for a tensor whose values are not simply those in its memory."""
    torch: Any = sys.modules["torch"]
    if tensor.device.type != "cuda":
        raise TypeError(f"the tensor is on {tensor.device}; move it to a CUDA device first: tensor.cuda()")
    if tensor.layout is not torch.strided or tensor.is_nested:
        said = "is nested" if tensor.is_nested else f"has layout {tensor.layout}"
        raise TypeError(f"the tensor {said}; autotune takes strided tensors: tensor.to_dense(), or one of tensor.unbind()")
    if tensor.is_neg():
        raise TypeError("the tensor is a negative view, whose memory has the other sign; give tensor.resolve_neg()")
    if tensor.is_conj():
        raise TypeError("the tensor is a conjugate view; give tensor.resolve_conj()")
    if torch._is_functional_tensor(tensor) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise TypeError("the tensor is inside a transform of torch.func; autotune.torch has operators that go through these")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"the tensor is a {type(tensor).__name__}, whose memory is elsewhere; give the plain tensor in it")
    if tensor.numel() and not tensor.data_ptr():
        raise TypeError("the tensor has no memory; give a tensor with values, such as tensor.clone()")


def _from_torch(tensor: Any) -> ArrayView:
    _check_torch(tensor)
    return ArrayView(tensor.data_ptr(), dtype_word(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), tensor.device.index)


# ---- __cuda_array_interface__ ----


def _field(interface: Mapping[str, Any], name: str) -> Any:
    try:
        return interface[name]
    except (KeyError, TypeError):
        raise TypeError(f"__cuda_array_interface__ has no {name!r}") from None


def _word_of(interface: Mapping[str, Any]) -> Optional[str]:
    """The type's word; None for types that the interface has no name for, such as bf16 and fp8."""
    typestr = _field(interface, "typestr")
    if not isinstance(typestr, str):
        raise TypeError(f"__cuda_array_interface__ has typestr {typestr!r}; it must be a str such as '<f4'")
    if typestr[:1] == ">" and typestr[2:] != "1":
        raise TypeError(f"the array's type is {typestr!r}, big-endian; kernels read little-endian numbers")
    return TYPESTR.get(typestr) or TYPESTR.get("<" + typestr[1:]) or TYPESTR.get("|" + typestr[1:])


def _check_interface(interface: Mapping[str, Any]) -> None:
    """Raises if the interface has a member that changes the meaning of the fields that `_from_interface` reads."""
    version = integer("__cuda_array_interface__['version']", _field(interface, "version"), INT64)
    if not 0 <= version <= _NEWEST_INTERFACE:
        raise TypeError(f"__cuda_array_interface__ has version {version}; this package knows versions up to {_NEWEST_INTERFACE}")
    if interface.get("mask") is not None:
        raise TypeError("the array has a mask; kernels use every element: fill the masked ones and give the array without its mask")
    fields = interface.get("descr")
    if fields is not None and [tuple(each) for each in fields] != [("", interface["typestr"])]:
        raise TypeError(f"the array's elements are structures ({fields!r}); give an array of one of their fields")


def _from_interface(interface: Mapping[str, Any], stream: Optional[int]) -> ArrayView:
    _check_interface(interface)
    word = _word_of(interface)
    if word is None:
        raise TypeError(
            f"the array's type is {interface['typestr']!r}; autotune takes {', '.join(TYPESTR)} by __cuda_array_interface__, bf16 and fp8 by __dlpack__"
        )
    shape = integers("shape", _field(interface, "shape"), (0, INT64[1]))
    address, read_only = _data(interface, is_empty=0 in shape)
    strides = _strides(interface.get("strides"), shape, BYTES[word])
    if stream is not None:
        _wait(interface.get("stream"), stream)
    return ArrayView(address, word, shape, strides, None, read_only)


def _data(interface: Mapping[str, Any], is_empty: bool) -> Tuple[int, bool]:
    data = _field(interface, "data")
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"__cuda_array_interface__ has data {data!r}; it must be the address and whether it is read-only")
    address = 0 if data[0] is None and is_empty else integer("__cuda_array_interface__['data'][0]", data[0], UINT64)
    if address == 0 and not is_empty:
        raise InvalidArgument("the array has elements and its address is 0; it was freed, or never had memory")
    return address, bool(data[1])


def _strides(in_bytes: Any, shape: Tuple[int, ...], size: int) -> Tuple[int, ...]:
    if in_bytes is None:
        return dense_strides(shape)
    steps = integers("strides", in_bytes)
    if len(steps) != len(shape):
        raise InvalidArgument(f"the array has {len(steps)} strides and {len(shape)} dimensions")
    if any(step < 0 for step in steps):
        raise InvalidArgument(f"the array has strides {steps}; negative ones are not supported: give a copy")
    if any(step % size for step in steps):
        raise InvalidArgument(f"strides {steps} are no multiples of an element's {size} bytes")
    return tuple(step // size for step in steps)


def _wait(producer: Any, stream: int) -> None:
    """`stream` waits for the stream that produces the array's content: 1 is the legacy default stream, 2 the per-thread one."""
    if producer is None:
        return
    number = integer("__cuda_array_interface__['stream']", producer, UINT64)
    if number == 0:
        raise InvalidArgument("__cuda_array_interface__ has stream 0, which the protocol forbids; 1 is the legacy default stream, None none")
    wait_for(number, stream)


# ---- any ----


def view(array: DeviceArray, stream: Optional[int] = 0) -> ArrayView:
    """Describes a device array: a torch tensor, an object with `__cuda_array_interface__`, or one with `__dlpack__`.

    `stream`: the CUstream on which the array will be used, which waits for the stream that makes the array's content, where the array
    names one. None: the array is only described, and nothing waits.
    Raises TypeError for an array on the host or of a type that no kernel takes, InvalidArgument for invalid fields.
    """
    if is_torch(array):
        return _from_torch(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None and (_word_of(interface) is not None or not hasattr(array, "__dlpack__")):
        return _from_interface(interface, stream)
    if hasattr(array, "__dlpack__"):
        return ArrayView(*_dlpack.read(array, stream))
    raise TypeError(f"{type(array).__name__} is not a device array: it has neither __cuda_array_interface__ nor __dlpack__")


class Placed(NamedTuple):
    """The place of a call's argument. `device`, `size` (bytes, from the first to the last element) and `seen` are None if unknown."""

    address: int
    device: Optional[int] = None
    read_only: bool = False
    size: Optional[int] = None
    seen: Optional[ArrayView] = None


def placed(array: Address, stream: int = 0, describes: bool = True) -> Placed:
    """The place of an array, of None (address 0) or of a bare address, of which nothing else is known.

    `describes`: not for a workspace, which torch may hold in a type that no kernel takes.
    """
    if array is None:
        return Placed(0)
    if isinstance(array, int) or not (is_torch(array) or hasattr(array, "__cuda_array_interface__") or hasattr(array, "__dlpack__")):
        return Placed(_address(array))
    if is_torch(array):
        tensor: Any = array
        described = _from_torch(tensor) if describes else None
        if not describes:
            _check_torch(tensor)
        last = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride())) if tensor.numel() else -1
        return Placed(tensor.data_ptr(), tensor.device.index, False, (last + 1) * tensor.element_size(), described)
    seen = view(array, stream)
    last = sum((extent - 1) * step for extent, step in zip(seen.shape, seen.strides)) if 0 not in seen.shape else -1
    return Placed(seen.address, device_of_view(seen), seen.read_only, (last + 1) * BYTES[seen.dtype], seen)


def _address(value: Any) -> int:
    try:
        return integer("an address", value, UINT64)
    except TypeError:
        raise TypeError(f"{type(value).__name__} is not a device array: it has neither __cuda_array_interface__ nor __dlpack__") from None


def address(array: Address, stream: int = 0) -> int:
    """The device address of an array; 0 for None; an int is returned unchanged."""
    return placed(array, stream).address


def device_of_view(seen: ArrayView) -> Optional[int]:
    """The device that the array states, else the one that owns its memory according to the driver."""
    return seen.device if seen.device is not None else device_of(seen.address)


def check_devices(devices: Sequence[Optional[int]], wanted: Optional[int], whose: str = "the current context is of") -> None:
    """Raises InvalidArgument for arrays on several devices, or on another device than `wanted` (None: unknown)."""
    known = {each for each in devices if each is not None}
    if len(known) > 1:
        raise InvalidArgument(f"arrays are on devices {', '.join(map(str, sorted(known)))}; move them to one")
    if known and wanted is not None and wanted not in known:
        raise InvalidArgument(f"arrays are on device {known.pop()} and {whose} device {wanted}; make the arrays' device current")


def check_current_device(devices: Sequence[Optional[int]]) -> None:
    """Like check_devices, with the device of the context that is current on this thread."""
    if any(each is not None for each in devices):
        check_devices(devices, current_device())


def stream_handle(stream: Stream) -> int:
    """The CUstream of an int, None (the legacy default stream), an object with `__cuda_stream__`, or a torch or CuPy stream."""
    if stream is None:
        return 0
    if type(stream) is int:
        return integer("the stream", stream, UINT64)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return _from_stream_protocol(protocol() if callable(protocol) else protocol)
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return integer(f"the stream's {name}", handle, UINT64)
    try:
        return integer("the stream", stream, UINT64)
    except TypeError:
        raise TypeError(f"{type(stream).__name__} is no stream: give an int or an object with __cuda_stream__") from None


def _from_stream_protocol(said: Any) -> int:
    if not isinstance(said, (tuple, list)) or len(said) != 2:
        raise TypeError(f"__cuda_stream__ gives {said!r}; it must give its version and the CUstream")
    version = integer("the version of __cuda_stream__", said[0], UINT64)
    if version != 0:
        raise TypeError(f"version {version} of __cuda_stream__ is newer than this package knows (0)")
    return integer("the CUstream of __cuda_stream__", said[1], UINT64)
