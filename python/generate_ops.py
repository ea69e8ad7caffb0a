#!/usr/bin/env python3
"""Writes the package's ops.py from the schemas of the ops, as `autotune families --json` prints them.

usage: generate_ops.py COMMAND FILE      COMMAND: the built autotune; FILE: what to write
"""

import json
import pathlib
import subprocess
import sys
import textwrap

HEAD = '''"""One function for each op, and their schemas. Written by python/generate_ops.py when the package is built."""

from typing import Dict, Literal, Optional

from ._schema import AttributeForm, OpSchema, ScalarForm, TensorForm, call
from .arrays import DeviceArray, Stream
from .handle import Handle

'''
PYTHON_TYPES = {"f32": "float", "i32": "int", "u64": "int"}


def first_lower(text):
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def schema_text(op):
    tensors = [
        f"TensorForm({t['name']!r}, {t['access']!r}, {tuple(t['dims'])!r}, {t['optional']!r}, {t['about']!r})" for t in op["tensors"]
    ]
    attributes = [f"AttributeForm({a['name']!r}, {tuple(a['allowed'])!r}, {a['form']!r}, {a['about']!r})" for a in op["attributes"]]
    scalars = [f"ScalarForm({s['name']!r}, {s['type']!r})" for s in op["scalars"]]

    def listed(entries):
        return "(" + "".join(f"\n            {entry}," for entry in entries) + ("\n        " if entries else "") + ")"

    return (
        f"    {op['name']!r}: OpSchema(\n        {op['name']!r},\n        {op['about']!r},\n        {listed(tensors)},\n"
        f"        {listed(attributes)},\n        {listed(scalars)},\n        {op['in_place']!r},\n    ),\n"
    )


def told_by_attributes(op):
    """Attributes that callers pass as arguments. A scalar or tensor with the same name determines the other attributes: a
    tensor by its presence and its type.
    """
    others = {entry["name"] for entry in (*op["scalars"], *op["tensors"])}
    return [a for a in op["attributes"] if a["name"] not in others]


def argument_lines(op):
    roles = {"in": "read", "out": "written", "inout": "written, and read where the op says so"}
    for t in op["tensors"]:
        about = f"; {t['about']}" if t["about"] else ""
        yield f"{t['name']} [{', '.join(t['dims'])}]: {roles[t['access']]}{', may be left out' if t['optional'] else ''}{about}"
    for a in told_by_attributes(op):
        allowed = f"one of {', '.join(a['allowed'])}" if a["allowed"] else a["form"]
        yield f"{a['name']}: {first_lower(a['about'])}; {allowed}"
    for s in op["scalars"]:
        yield f"{s['name']}: a number of each call, {s['type']}"


def attribute_type(attribute):
    """The type for a type checker: one of the words, or the number that the form describes."""
    if attribute["allowed"]:
        return f"Literal[{', '.join(json.dumps(word) for word in attribute['allowed'])}]"
    for start, name in (("integer", "int"), ("number", "float")):
        if attribute["form"].startswith(start):
            return name
    return "object"  # `call` does not accept this type: then the test of types fails, and shows that a new form is needed here


DEFAULTS = {"alpha": " = 1.0", "beta": " = 0.0"}  # callers must give every other scalar


def function_text(op):
    positional = [
        f"{t['name']}: " + ("Optional[DeviceArray] = None" if t["optional"] else "DeviceArray")
        for t in sorted(op["tensors"], key=lambda t: t["optional"])
    ]
    attributes = told_by_attributes(op)
    named = [f"{a['name']}: Optional[{attribute_type(a)}] = None" for a in attributes]
    named += [f"{s['name']}: {PYTHON_TYPES[s['type']]}{DEFAULTS.get(s['name'], '')}" for s in op["scalars"]]
    named += ["stream: Stream = None", "handle: Optional[Handle] = None"]
    lines = "".join(f"    {entry},\n" for entry in [*positional, "*", *named])
    doc = [f"{op['about']}.", "", *argument_lines(op)]
    doc += ["Arrays are device arrays (`__dlpack__`, `__cuda_array_interface__`, torch); strides are their own."]
    doc += ["stream: a CUstream, see `stream_handle`; None: the legacy default stream. handle: None: `default_handle()`."]
    wrapped = "\n".join(textwrap.fill(line, 116, initial_indent="    ", subsequent_indent="        ") if line else "" for line in doc)
    tensors = ", ".join(f"{t['name']!r}: {t['name']}" for t in op["tensors"])
    words = ", ".join(f"{a['name']!r}: {a['name']}" for a in attributes)
    scalars = ", ".join(f"{s['name']!r}: {s['name']}" for s in op["scalars"])
    return (
        f"def {op['name']}(\n{lines}) -> None:\n" + '    """' + wrapped.lstrip() + '\n    """\n'
        f"    call(SCHEMA[{op['name']!r}], {{{tensors}}}, {{{words}}}, {{{scalars}}}, stream, handle)\n"
    )


def text_of(ops):
    schema = "SCHEMA: Dict[str, OpSchema] = {\n" + "".join(schema_text(op) for op in ops) + "}\n"
    names = ", ".join(f'"{op["name"]}"' for op in ops)
    return HEAD + schema + "\n\n" + "\n\n".join(function_text(op) for op in ops) + f"\n\n__all__ = [{names}]\n"


def main():
    command, target = sys.argv[1], pathlib.Path(sys.argv[2])
    said = subprocess.run([command, "families", "--op", "add", "--json"], check=True, capture_output=True, text=True).stdout
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text_of(json.loads(said)["ops"]))


if __name__ == "__main__":
    main()
