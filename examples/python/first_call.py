#!/usr/bin/env python3
"""A first product in a fresh environment, with nothing installed but the package: what each step takes.

usage: first_call.py      needs a GPU; no torch, NumPy or compiler

The context and the arrays come from the driver itself, which every machine with a GPU has; a program with torch or CuPy has them already.
"""

import time

STARTED = time.perf_counter()

import ctypes
import struct

import autotune

IMPORTED = time.perf_counter()
M, N, K = 128, 96, 64


class Driver:
    """The few calls that make a context current and move data."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name, *arguments):
        entry, found = ctypes.c_void_p(), ctypes.c_int()
        self._library.cuGetProcAddress_v2(name.encode(), ctypes.byref(entry), 12000, ctypes.c_uint64(0), ctypes.byref(found))
        function = ctypes.CFUNCTYPE(ctypes.c_int)(entry.value)
        function.argtypes = None
        status = function(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answered {status}")

    def array(self, values):
        data, address = struct.pack(f"<{len(values)}e", *values), ctypes.c_uint64()
        self._call("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self._call("cuMemcpyHtoD", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def values(self, address, count):
        data = ctypes.create_string_buffer(2 * count)
        self._call("cuCtxSynchronize")
        self._call("cuMemcpyDtoH", data, ctypes.c_uint64(address), ctypes.c_size_t(2 * count))
        return list(struct.unpack(f"<{count}e", data.raw))


def main():
    driver = Driver()
    a = [(i * 7 % 5) - 2 for i in range(M * K)]
    b = [(i * 3 % 5) - 2 for i in range(K * N)]
    arrays = driver.array(a), driver.array(b), driver.array([0] * (M * N))
    made = time.perf_counter()

    tensors = {"a": autotune.Tensor("f16", (M, K)), "b": autotune.Tensor("f16", (K, N)), "c": autotune.Tensor("f16", (M, N))}
    problem = autotune.Problem("gemm", tensors)
    autotune.default_handle().run(problem, *arrays, scalars=(1.0, 0.0))
    c = driver.values(arrays[2], M * N)
    first = time.perf_counter()

    autotune.default_handle().run(problem, *arrays, scalars=(1.0, 0.0))
    driver.values(arrays[2], 1)
    second = time.perf_counter()

    expected = [sum(a[row * K + k] * b[k * N + column] for k in range(K)) for row in range(M) for column in range(N)]
    if c != expected:
        raise SystemExit("the product is wrong")
    plan = autotune.default_handle().plan(problem)
    print(f"right, by {plan.candidate} ({plan.origin})")
    steps = (("import autotune", STARTED, IMPORTED), ("driver, context, arrays", IMPORTED, made), ("first product", made, first), ("second", first, second))
    for name, begun, ended in steps:
        print(f"{name:24s} {ended - begun:8.4f} s")


if __name__ == "__main__":
    main()
