#!/usr/bin/env python3
"""What Python itself adds to a bound launch: nanoseconds, without a GPU, the driver or the library's own part.

usage: python_launch.py      with the package installed, or its folder on PYTHONPATH

A `Launch` is called whose C function is libc's abs(), which returns at once; beside it the pieces of that call, and shorter ways to make it.
Each row is the least of many rounds, less an empty Python function: what other work on the machine adds falls out.
"""

import ctypes
import functools
import time
from unittest import mock

from autotune import _library
from autotune.handle import Launch

ROUNDS, CALLS = 120, 2000
ADDRESS = 0x7F00_0000_0000


def nothing(*types, result=ctypes.c_int):
    """A C function that takes such arguments and gives 0 for a first one whose low word is 0."""
    function = ctypes.PyDLL("libc.so.6").abs
    function.argtypes, function.restype = types, result
    return function


def least_ns(call):
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter_ns() - start) / CALLS)
    return least


def raise_for(status):
    if status:
        raise RuntimeError(status)


def calls():
    word = ctypes.c_void_p
    run = nothing(word, word, word)
    launch = Launch(mock.Mock(_address=ADDRESS), mock.Mock(pointer=ADDRESS), ())
    yield "a bound launch: launch(stream)", lambda: launch(0)
    yield "its foreign call: plan, call, stream", lambda: run(ADDRESS, ADDRESS, 0)
    one, none = nothing(word), nothing()
    yield "a foreign call of one word", lambda: one(0)
    yield "a foreign call of none", lambda: none()
    # What would save something, and how much: python/README.md says why it is not done.
    checked = functools.partial(nothing(word, word, word, result=raise_for), ADDRESS, ADDRESS)
    yield "a launch that is a functools.partial", lambda: checked(0)


def main():
    with mock.patch.object(_library, "run", nothing(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)):
        empty = least_ns(lambda: None)
        for name, call in calls():
            print(f"{name:40s} {least_ns(call) - empty:6.0f} ns")


if __name__ == "__main__":
    main()
