"""What a user's typed program may say: checked by `mypy --strict` in check_types.py, never run."""

from typing import Any, Dict, List, Optional, Tuple

import autotune
from autotune.tuning import progress_bar


class Matrix:
    """An array of a user's own package."""

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"shape": (16, 64), "typestr": "<f2", "data": (4096, False), "version": 3}


class Queue:
    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, 1


def one_call(a: Matrix, b: Matrix, c: Matrix) -> None:
    autotune.gemm(a, b, c, alpha=2, beta=1.0, layout="nt", acc="f32", stream=Queue())
    autotune.softmax(a, c, scale=0.125)
    autotune.attention_bwd(a, b, c, a, b, c, a, b, c, mask="causal", left=3, deterministic="yes", scale=0.5)


def planned(a: Matrix, b: Matrix, c: Matrix) -> float:
    problem = autotune.Problem("gemm", {"a": a, "b": autotune.Tensor("bf16", (64, 32), strides=(1, 64)), "c": c}, {"beta": "zero"})
    plan = autotune.default_handle().plan(problem)
    launch: autotune.Launch = plan.bind(a, b, c, scalars=(1.0, 0.0), workspace=1 << 20)
    launch(0)
    with autotune.Handle(on_miss="compile", log=lambda level, message: print(level, message)) as handle:
        handle.run(problem, a, b, c, scalars=(1.0, autotune.U64(3)), stream=Queue())
    return plan.info.recorded_us


def tuned(problems: List[autotune.Problem]) -> Optional[str]:
    result = autotune.tune(problems[0], budget="20s", progress=lambda each: print(each.text))
    swept = autotune.sweep(problems, progress=progress_bar())
    records: List[Dict[str, Any]] = [result.record(), *swept.records()]
    autotune.report().save(str(len(records)))
    return result.winner.candidate if result.winner is not None else None


def failures(problem: autotune.Problem) -> Optional[int]:
    try:
        return len(problem.key)
    except autotune.CommandError as error:
        return error.exit_code
    except autotune.Error as error:
        return error.status
