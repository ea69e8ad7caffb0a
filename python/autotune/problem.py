"""Problems: an op with everything fixed that changes the result or the cost."""

import ctypes
import numbers
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Iterable, List, Mapping, NoReturn, Optional, Tuple, Union

from . import _library
from ._checked import INT64, integer, integers, word
from .arrays import DeviceArray, dense_strides, view
from .dtypes import CODES, dtype_word
from .errors import InvalidArgument

Attribute = Union[str, int, float]
_ALIGNMENTS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, init=False)
class Tensor:
    """One array of a problem, without its memory.

    dtype: "f16", "bf16", "f32", ... or a NumPy or torch dtype. shape: extents, the outermost first. strides: elements; None:
    dense, the last dimension contiguous. align: the address is a multiple of this many bytes: 1, 2, 4, 8 or 16.
    """

    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    align: int

    def __init__(self, dtype: Any, shape: Iterable[int], strides: Optional[Iterable[int]] = None, align: int = 16):
        extents = integers("shape", shape, (0, INT64[1]))
        steps = dense_strides(extents) if strides is None else integers("strides", strides, (0, INT64[1]))
        alignment = integer("align", align)
        if len(steps) != len(extents):
            raise InvalidArgument(f"{len(steps)} strides for {len(extents)} dimensions")
        if len(extents) > _library.MAX_DIMS:
            raise InvalidArgument(f"{len(extents)} dimensions; at most {_library.MAX_DIMS}")
        if alignment not in _ALIGNMENTS:
            raise InvalidArgument(f"align is {alignment}; it must be one of {', '.join(map(str, _ALIGNMENTS))}")
        for name, value in (("dtype", dtype_word(dtype)), ("shape", extents), ("strides", steps), ("align", alignment)):
            object.__setattr__(self, name, value)

    @staticmethod
    def of(array: Union["Tensor", DeviceArray], stream: Optional[int] = None) -> "Tensor":
        """That of a device array, with the alignment of its address. `stream`: as for `arrays.view`; a description need not wait."""
        if isinstance(array, Tensor):
            return array
        seen = view(array, stream)
        address = seen.address
        return Tensor(seen.dtype, seen.shape, seen.strides, min(address & -address or 16, 16))


class Problem:
    """An op, its tensors by name and its attributes. Immutable and hashable; may be copied, and pickled for another process.

    >>> Problem("gemm", {"a": Tensor("bf16", (16, 4096)), "b": Tensor("bf16", (4096, 4096), strides=(1, 4096)),
    ...                  "c": Tensor("bf16", (16, 4096))})

    Which tensors and attributes an op has is in docs/python.md and in `autotune.ops.SCHEMA`. Nothing is checked here: a plan, `supports`
    or a tune raises InvalidArgument for what is no problem of the op. Device arrays are taken where a Tensor is.
    """

    __slots__ = ("op", "tensors", "attributes", "_struct", "_keep", "_hash")

    op: str
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, Attribute]
    _struct: _library.ProblemStruct
    _keep: Any
    _hash: int

    def __init__(
        self,
        op: str,
        tensors: Mapping[str, Union[Tensor, DeviceArray, None]],
        attributes: Optional[Mapping[str, Optional[Attribute]]] = None,
    ):
        def set_(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        set_("op", op)
        set_("tensors", MappingProxyType({name: Tensor.of(tensor) for name, tensor in tensors.items() if tensor is not None}))
        words = {name: _attribute(name, value) for name, value in (attributes or {}).items() if value is not None}
        set_("attributes", MappingProxyType(words))
        set_("_hash", hash((op, frozenset(self.tensors.items()), frozenset(self.attributes.items()))))
        set_("_keep", None)
        set_("_struct", self._make_struct())

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a problem does not change; make another")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a problem does not change; make another")

    def __copy__(self) -> "Problem":
        return self

    def __deepcopy__(self, memo: Any) -> "Problem":
        return self

    def __reduce__(self) -> Any:
        return Problem, (self.op, dict(self.tensors), dict(self.attributes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Problem):
            return False
        return (self.op, self.tensors, self.attributes) == (other.op, other.tensors, other.attributes)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        tensors = ", ".join(
            f"{name} {tensor.dtype}[{'x'.join(map(str, tensor.shape))}]"
            + ("" if tensor.strides == dense_strides(tensor.shape) else f" strides {tensor.strides}")
            for name, tensor in self.tensors.items()
        )
        words = "".join(f", {name}={value}" for name, value in self.attributes.items())
        return f"Problem({self.op}: {tensors}{words})"

    @property
    def key(self) -> str:
        """The problem in the words of the command and the database, its shape last. Raises InvalidArgument for what is none."""
        size = ctypes.c_size_t(512)
        while True:
            text = ctypes.create_string_buffer(size.value)
            _library.check(_library.problem_key(None, ctypes.byref(self._struct), text, ctypes.byref(size)))
            if size.value <= len(text):
                return text.value.decode()

    @property
    def struct(self) -> _library.ProblemStruct:
        """The `autotune_problem` of the C interface; lives as long as this."""
        return self._struct

    def _make_struct(self) -> _library.ProblemStruct:
        op = word("op", self.op)
        tensors = (_library.TensorStruct * max(len(self.tensors), 1))()
        for place, (name, tensor) in zip(tensors, self.tensors.items()):
            place.struct_size = ctypes.sizeof(place)
            place.name = word("a tensor's name", name)
            place.type = CODES[tensor.dtype]
            dims = _said_dims(name, tensor)
            place.rank = len(dims)
            for i, (extent, stride) in enumerate(dims):
                place.extents[i] = extent
                place.strides[i] = stride
            place.align = tensor.align
        attributes = (_library.AttributeStruct * max(len(self.attributes), 1))()
        for place, (name, value) in zip(attributes, self.attributes.items()):
            place.struct_size = ctypes.sizeof(place)
            place.name = word("an attribute's name", name)
            _fill_attribute(place, name, value)
        object.__setattr__(self, "_keep", (tensors, attributes))
        return _library.ProblemStruct(
            ctypes.sizeof(_library.ProblemStruct), op, tensors, len(self.tensors), attributes, len(self.attributes)
        )


def _said_dims(name: str, tensor: Tensor) -> List[Tuple[int, int]]:
    """Extents with strides in the form of the C interface, where strides that are all 0 mean dense. An array that repeats one
    element would have such strides, so one of its dimensions with one element gets a stride of 1, which has no effect.
    """
    dims = list(zip(tensor.shape, tensor.strides))
    if any(tensor.strides) or all(extent <= 1 for extent in tensor.shape) or 0 in tensor.shape:
        return dims
    if 1 in tensor.shape:
        return [(extent, 1 if extent == 1 else 0) for extent in tensor.shape]
    if len(dims) == 1:
        return [(1, 1), *dims]
    raise InvalidArgument(
        f"tensor {name} repeats one element (all of its strides are 0), and kernels read only elements that lie in memory; give a dense copy: "
        "contiguous() of a torch tensor, ascontiguousarray() of CuPy"
    )


def _attribute(name: str, value: Any) -> Attribute:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") or not isinstance(value, numbers.Real):
        raise TypeError(f"attribute {name} is {value!r}; an attribute is a word or a number")
    return integer(f"attribute {name}", value) if isinstance(value, numbers.Integral) else float(value)


def _fill_attribute(place: _library.AttributeStruct, name: str, value: Attribute) -> None:
    if isinstance(value, str):
        place.kind, place.word = 0, word(f"attribute {name}", value)
    elif isinstance(value, int):
        place.kind, place.integer = 1, value
    else:
        place.kind, place.number = 2, value
