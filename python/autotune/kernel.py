"""Kernels of one's own: the op of a kernel file (docs/kernel_files.md), called with arrays."""

import ctypes
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _library
from ._checked import Path, path as checked_path, word
from ._schema import AttributeForm, OpSchema, ScalarForm, TensorForm, call
from .arrays import DeviceArray, Stream
from .errors import InvalidArgument
from .handle import Handle, Plan, default_handle, records_misses
from .problem import Attribute, Problem, Tensor
from .tuning import ProgressFunction, TuneResult, tune, words_of_key

_SIZE = 4096


class Kernel:
    """A CUDA kernel of yours, described by its file:

    >>> conv2d = autotune.Kernel("conv2d.toml")
    >>> conv2d(image, weights, out, filter=15)              # the best config known, on the default stream
    >>> plan = conv2d.plan(image, weights, out, filter=15)  # before a loop or a capture
    >>> conv2d.tune(image, weights, out, filter=15, budget="30s")

    Arrays come in the order of the file's tensors, scalars behind them; attributes, and extents that no tensor has as a dimension of its
    own, by name. A call uses the winner of the same file and problem, else the nearest winner of the same file, else the default config.
    A kernel file is code that runs with your rights. handle: None: `default_handle()`, or one of its own if that handle has opened another
    content of the same op, as after an edit in a notebook.
    Raises InvalidArgument with the first fault of a file.
    """

    def __init__(self, path: Path, *, handle: Optional[Handle] = None):
        encoded = checked_path("path", os.path.abspath(os.fspath(path)))
        assert encoded is not None
        self.path: str = os.fsdecode(encoded)
        self._handle = handle or default_handle()
        try:
            self.op = self._opened(encoded)
        except InvalidArgument as error:
            if handle is not None or "another handle" not in str(error):
                raise
            self._handle = Handle(record_misses=records_misses())
            self.op = self._opened(encoded)
        self.schema = self._interface()
        # What a call needs of the interface, made once: a call takes as long as one of a built-in op.
        self._tensor_names = tuple(form.name for form in self.schema.tensors)
        self._argument_names = self._tensor_names + tuple(form.name for form in self.schema.scalars)
        self._scalar_names = self._argument_names[len(self._tensor_names) :]
        self._no_attributes: Dict[str, Optional[Attribute]] = {form.name: None for form in self.schema.attributes}

    def __repr__(self) -> str:
        return f"Kernel({self.path!r})"

    def _opened(self, encoded: bytes) -> str:
        return self._text(lambda handle, text, size: _library.kernel_open(handle, encoded, text, size))

    def _text(self, write: Any) -> str:
        size = ctypes.c_size_t(_SIZE)
        while True:
            text = ctypes.create_string_buffer(size.value)
            with self._handle._owned as address:
                _library.check(write(address, text, ctypes.byref(size)))
            if size.value <= len(text):
                return text.value.decode()

    def _interface(self) -> OpSchema:
        name = word("op", self.op)
        lines = self._text(lambda handle, text, size: _library.kernel_interface(handle, name, text, size)).splitlines()
        found: Dict[str, List[List[str]]] = {"tensor": [], "scalar": [], "attribute": [], "extent": []}
        for line in lines:
            kind, *words = line.split(" ")
            found[kind].append(words)
        extents = [words[0] for words in found["extent"] if words[-1] == "attributes"]
        return OpSchema(
            name=self.op,
            about=f"the kernel of {self.path}",
            tensors=tuple(TensorForm(words[0], words[1], (), False, "") for words in found["tensor"]),
            attributes=tuple(
                [AttributeForm(words[0], tuple(words[1:]), "", "") for words in found["attribute"]]
                + [AttributeForm(extent, (), "integer", "an extent") for extent in extents]
            ),
            scalars=tuple(ScalarForm(words[0], words[1]) for words in found["scalar"]),
            in_place=False,
        )

    def _attributes(self, given: Mapping[str, Optional[Attribute]]) -> Mapping[str, Optional[Attribute]]:
        """All attributes in the file's order, None for those that were left out."""
        if not given:
            return self._no_attributes
        for name in given:
            if name not in self._no_attributes:
                raise TypeError(f"{self.op} has no attribute {name!r}; it has {', '.join(self._no_attributes) or 'none'}")
        return {**self._no_attributes, **given}

    def _arrays(self, arrays: Sequence[Any]) -> Dict[str, Any]:
        names = self._tensor_names
        if len(arrays) != len(names):
            raise TypeError(f"{self.op} takes {len(names)} arrays ({', '.join(names)}), not {len(arrays)}")
        return dict(zip(names, arrays))

    def __call__(self, *arguments: Union[DeviceArray, float], stream: Stream = None, **attributes: Optional[Attribute]) -> None:
        """One call on `stream`, by the best config known: arrays, then scalars, in the order of the file. The handle keeps the plan; a
        first call may compile, so make it, or `plan`, before a capture."""
        names = self._argument_names
        if len(arguments) != len(names):
            raise TypeError(f"{self.op} takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
        arrays: Dict[str, Any] = dict(zip(self._tensor_names, arguments))
        scalars: Dict[str, Any] = dict(zip(self._scalar_names, arguments[len(arrays) :])) if self._scalar_names else {}
        call(self.schema, arrays, self._attributes(attributes), scalars, stream, self._handle)

    def problem(self, *arrays: Union[Tensor, DeviceArray], **attributes: Optional[Attribute]) -> Problem:
        """The problem of these arrays, or of Tensors."""
        return Problem(self.op, self._arrays(arrays), self._attributes(attributes))

    def plan(self, *arrays: Union[Tensor, DeviceArray], **attributes: Optional[Attribute]) -> Plan:
        """The plan of a problem, looked up and compiled now: `plan.bind(...)` gives a launch for loops and captures."""
        return self._handle.plan(self.problem(*arrays, **attributes), schema=self.schema)

    def tune(
        self,
        *arrays: Union[Tensor, DeviceArray],
        budget: Optional[str] = None,
        trials: Optional[int] = None,
        retune: bool = False,
        device: Optional[int] = None,
        database: Optional[Path] = None,
        progress: Optional[ProgressFunction] = None,
        options: Optional[Mapping[str, Any]] = None,
        **attributes: Optional[Attribute],
    ) -> TuneResult:
        """Tunes the problem of these arrays in processes of its own, whose inputs are those that the file states. `options`: other flags of
        `autotune tune`, with _ for -. Later calls use the winner. Raises CommandError."""
        problem = self.problem(*arrays, **attributes)
        struct = ctypes.byref(problem.struct)
        key = self._text(lambda handle, text, size: _library.problem_key(handle, struct, text, size))
        words = words_of_key(key)
        shape, op = words.pop("shape"), words.pop("op")
        given: Dict[str, Any] = {name: value for name, value in words.items() if any(form.name == name for form in self.schema.attributes)}
        result = tune(
            op,
            shape,
            kernel=self.path,
            budget=budget,
            trials=trials,
            retune=retune,
            device=device,
            database=database,
            progress=progress,
            **{**given, **(options or {})},
        )
        self._handle.refresh()
        return result
