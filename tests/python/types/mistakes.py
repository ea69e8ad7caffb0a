"""Calls that a type checker refuses: check_types.py wants an error in each line that says so, and nowhere else."""

from typing import Any

import autotune


def mistakes(a: autotune.DeviceArray, problem: autotune.Problem) -> Any:
    autotune.gemm(a, a)  # error: call-arg
    autotune.gemm(a, a, a, layout="xy")  # error: arg-type
    autotune.gemm(a, a, a, beta="any")  # error: arg-type
    autotune.gemm(a, a, 4096)  # error: arg-type
    autotune.gemm(a, a, a, colour="red")  # error: call-arg
    autotune.attention(a, a, a, a)  # error: call-arg
    autotune.attention(a, a, a, a, scale=1.0, left=0.5)  # error: arg-type
    autotune.softmax(a, a, stream="first")  # error: arg-type
    autotune.default_handle().plan("gemm")  # error: arg-type
    autotune.tune(problem, budget=20)  # error: arg-type
    problem.colour  # error: attr-defined
    return autotune.convolution(a, a)  # error: attr-defined
