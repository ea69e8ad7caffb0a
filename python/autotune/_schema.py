"""The interfaces of the ops, and the call that every function of `autotune.ops` makes."""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ._checked import INT32, integer
from .arrays import DeviceArray, Stream, check_current_device, device_of_view, stream_handle, view
from .errors import InvalidArgument
from .handle import U64, Handle, Scalar, default_handle
from .problem import Attribute, Problem, Tensor


MOST_PROBLEMS = 1024  # number of problems that `call` keeps, with about 4 KB each
_problems: Dict[Tuple[Any, ...], Problem] = {}


@dataclass(frozen=True)
class TensorForm:
    """A tensor of an op's interface. `access`: "in", "out" or "inout"."""

    name: str
    access: str
    dims: Tuple[str, ...]
    is_optional: bool
    about: str


@dataclass(frozen=True)
class AttributeForm:
    """An attribute: a word of `allowed`, or, if that is empty, a number that `form` describes."""

    name: str
    allowed: Tuple[str, ...]
    form: str
    about: str


@dataclass(frozen=True)
class ScalarForm:
    """A number of each call: "f32", "i32" or "u64"."""

    name: str
    type: str

    def value(self, number: float) -> Scalar:
        if self.type == "f32":
            return float(number)
        return U64(number) if self.type == "u64" else integer(self.name, number, INT32)


@dataclass(frozen=True)
class OpSchema:
    """An op's tensors in the order of a call, its attributes and its scalars."""

    name: str
    about: str
    tensors: Tuple[TensorForm, ...]
    attributes: Tuple[AttributeForm, ...]
    scalars: Tuple[ScalarForm, ...]
    in_place: bool

    def attributes_for(self, attributes: Mapping[str, Optional[Attribute]], scalars: Mapping[str, float]) -> Dict[str, Attribute]:
        """The given attributes. An attribute that states whether the scalar of its name may be non-zero is derived from that scalar."""
        known = {form.name: form for form in self.attributes}
        words = {name: value for name, value in attributes.items() if value is not None}
        for name, value in scalars.items():
            if name in known and set(known[name].allowed) == {"zero", "any"}:
                words.setdefault(name, "zero" if value == 0 else "any")
        return words


def call(
    schema: OpSchema,
    arrays: Mapping[str, Optional[DeviceArray]],
    attributes: Mapping[str, Optional[Attribute]],
    scalars: Mapping[str, float],
    stream: Stream,
    handle: Optional[Handle],
) -> None:
    """One call of an op on device arrays, with the handle's cached plan."""
    on = stream_handle(stream)
    views = [None if array is None else view(array, on) for array in (arrays[form.name] for form in schema.tensors)]
    for form, each in zip(schema.tensors, views):
        if each is not None and each.read_only and form.access != "in":
            raise InvalidArgument(f"{form.name} is written, and its array is read-only; give an array that may be written")
    check_current_device([None if each is None else device_of_view(each) for each in views])
    key = (
        schema.name,
        tuple(None if each is None else (each.dtype, each.shape, each.strides, each.device) for each in views),
        tuple(attributes.values()),
        tuple(value == 0 for value in scalars.values()),
    )
    problem = _problems.get(key)
    if problem is None:
        # Alignments are those of the addresses in each call: Handle.run determines them.
        tensors = {form.name: Tensor(each.dtype, each.shape, each.strides) for form, each in zip(schema.tensors, views) if each is not None}
        problem = Problem(schema.name, tensors, schema.attributes_for(attributes, scalars))
        if len(_problems) >= MOST_PROBLEMS:
            _problems.clear()
        _problems[key] = problem
    values = [form.value(scalars[form.name]) for form in schema.scalars]
    addresses = [0 if each is None else each.address for each in views]
    (handle or default_handle())._run(problem, addresses, values, on)
