"""`enable_inductor()`: our product is one of the choices that max-autotune races for each mm."""

import warnings
from typing import Any, List, Optional

import torch

from . import _engine
from ._engine import Cache, Gemm, gemm_problem, plan_of, tensor_of
from ._ops import _key
from ..errors import NotPlanned

_NEEDS = (
    "this torch ({}) has no torch._inductor.config.external_matmul, by which a product of another library takes part in max-autotune; "
    "torch 2.5 to 2.11 have it. autotune.torch.patch() works without"
)
_outs: Cache[Optional[Gemm]] = Cache()  # None: ours failed, so torch's own is used


def autotune_mm(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """torch.mm(a, b, out=out) by the tuned kernel. Inductor's generated code calls it by this name."""
    pa, pb, pc = a.data_ptr(), b.data_ptr(), out.data_ptr()
    key = _key(a, b, pa, pb), out.shape, out.stride(), out.dtype, pc & 15, _engine.f32_compute() if a.dtype is torch.float32 else ""
    try:
        product = _outs.get(key) or _outs.during_capture(key, a.get_device())
        if product is None and key not in _outs and pa and pb and pc:
            problem = gemm_problem(tensor_of(a), tensor_of(b), tensor_of(out))
            product = _outs.keep(key, Gemm(plan_of(problem, a.get_device()), a.get_device()))
        if product is not None and (product.deterministic or not _engine.must_be_deterministic()):
            product.launch(pa, pb, pc)
            return out
    except NotPlanned:
        pass  # a capture is running: the next call outside of one makes the plan
    except Exception as error:
        _outs.keep(key, None)
        warnings.warn(f"autotune.torch.autotune_mm leaves a product to torch after an error: {error}", RuntimeWarning, stacklevel=2)
    return torch.mm(a, b, out=out)


def enable_inductor() -> None:
    """Lets our product compete with aten's and Triton's for each mm that torch.compile meets with max_autotune_gemm on.

    Problems that were tuned before are raced by their winners, others by the nearest winner or a default. Raises RuntimeError where this torch
    lacks the setting.
    """
    import torch._inductor.config as config

    if not isinstance(getattr(config, "external_matmul", None), list):
        raise RuntimeError(_NEEDS.format(torch.__version__))
    choices: List[Any] = config.external_matmul
    if autotune_mm not in choices:
        choices.append(autotune_mm)


def disable_inductor() -> None:
    """Removes it again; code that was compiled with it keeps it."""
    import torch._inductor.config as config

    choices: List[Any] = getattr(config, "external_matmul", [])
    if autotune_mm in choices:
        choices.remove(autotune_mm)
