"""Checks of the caller's arguments before C gets them: ctypes cuts an integer to its low bits, and a NUL ends a string."""

import os
from operator import index
from typing import Any, Optional, Tuple, Union

from .errors import InvalidArgument

INT32, INT64, UINT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1), (0, 2**64 - 1)

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def integer(name: str, value: Any, bounds: Tuple[int, int] = INT64) -> int:
    """`value` as an int; it is an int or an integer of NumPy. Raises TypeError for other types, InvalidArgument outside the bounds."""
    if type(value) is not int:
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            raise TypeError(f"{name} is {value!r}; it must be an integer")
        try:
            value = index(value)
        except TypeError:
            raise TypeError(f"{name} is {value!r}; it must be an integer") from None
    least, most = bounds
    if not least <= value <= most:
        raise InvalidArgument(f"{name} is {value}; it must be from {least} to {most}")
    return int(value)


def integers(name: str, values: Any, bounds: Tuple[int, int] = INT64) -> Tuple[int, ...]:
    """A sequence of integers as ints; messages name them `name[i]`."""
    try:
        listed = tuple(values)
    except TypeError:
        raise TypeError(f"{name} is {values!r}; it must be a sequence of integers") from None
    return tuple(integer(f"{name}[{i}]", value, bounds) for i, value in enumerate(listed))


def word(name: str, value: Any) -> bytes:
    """A name or word for C, in UTF-8. Raises TypeError for other types, InvalidArgument for a str that C cannot take."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; it must be a str")
    if "\0" in value:
        raise InvalidArgument(f"{name} is {value!r}; it must not contain a NUL character")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} is {value!r}; it must be text that UTF-8 can express") from None


def path(name: str, value: Optional[Path]) -> Optional[bytes]:
    """A path for C: a str, bytes or os.PathLike. Bytes that are not UTF-8 are passed on unchanged, as everywhere in Python."""
    if value is None:
        return None
    try:
        encoded = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a path: a str, bytes or os.PathLike") from None
    if b"\0" in encoded:
        raise InvalidArgument(f"{name} is {value!r}; it must not contain a NUL character")
    return encoded


def argument(name: str, value: Any) -> str:
    """An argument of the command."""
    if isinstance(value, (bytes, os.PathLike)):
        value = os.fsdecode(value)
    text = str(value)
    if "\0" in text:
        raise InvalidArgument(f"{name} is {text!r}; it must not contain a NUL character")
    return text
