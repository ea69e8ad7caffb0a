#!/usr/bin/env python3
"""What Python itself adds to a bound launch: nanoseconds, without a GPU, the driver or the library's own part.

usage: python_launch.py      with the package installed, or its folder on PYTHONPATH

A launch is called whose C function is libc's abs(), which returns at once: by quick_calls.so, and by ctypes as on a Python without it; beside
them the pieces of the latter. Each row is the least of many rounds, less an empty Python function: what other work on the machine adds falls out.
"""

import ctypes
import time
from unittest import mock

from autotune import _library

ROUNDS, CALLS = 120, 2000
ADDRESS = 0x7F00_0000_0000  # an address of which abs() of the low word is 0


def nothing(*types):
    """A C function that accepts such arguments and returns 0 if the low word of the first is 0."""
    function = ctypes.PyDLL("libc.so.6").abs
    function.argtypes, function.restype = types, ctypes.c_int
    return function


def least_ns(call):
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter_ns() - start) / CALLS)
    return least


def calls():
    word = ctypes.c_void_p
    by_ctypes = nothing(word, word, word)
    with mock.patch.object(_library, "_held", mock.Mock(autotune_run=by_ctypes)):
        quick = _library.bound(ADDRESS, ADDRESS, ())
    with mock.patch.object(_library, "_quick", None):
        slow = _library.bound(ADDRESS, ADDRESS, ())
    of_nine = nothing(*[word] * 9)
    yield "a bound launch: launch(stream)", lambda: quick(0)
    yield "a product's nine words, quick", lambda words=(ADDRESS,) * 9, call=_library._made_quick("gemm", _library._address(of_nine)): call(*words)
    with mock.patch.object(_library, "run", by_ctypes):
        yield "a bound launch by ctypes", lambda: slow(0)
    yield "its foreign call: plan, call, stream", lambda: by_ctypes(ADDRESS, ADDRESS, 0)
    yield "a foreign call of nine words", lambda words=(ADDRESS,) * 9: of_nine(*words)
    one, none = nothing(word), nothing()
    yield "a foreign call of one word", lambda: one(0)
    yield "a foreign call of none", lambda: none()


def main():
    empty = least_ns(lambda: None)
    for name, call in calls():
        print(f"{name:40s} {least_ns(call) - empty:6.0f} ns")


if __name__ == "__main__":
    main()
