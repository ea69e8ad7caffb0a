"""autotune::attention_bwd: the gradients of attention by the tuned kernel, or by aten and plain products if there is none."""

import contextlib
from typing import Any, Optional, Tuple

import torch

from . import _by_torch, _engine
from ._engine import Cache, Described, columns, layout_key, must_be_deterministic, plan_of, refuse_nondeterministic, tensor_of
from ._register import register
from ..errors import NoKernel
from ..problem import Problem, Tensor

Three = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Two = Tuple[torch.Tensor, torch.Tensor]

_plans: Cache[Optional[Described]] = Cache()  # None: no family has a kernel for the problem


def gradients_like(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Three:
    """Memory for dQ, dK and dV, with the layouts of q, k and v."""
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def backward_problem(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, grad: torch.Tensor, mask: str) -> Problem:
    """The problem of the gradients. Parts of dQ are added in any order, unless torch is set to deterministic algorithms."""
    inputs = {name: tensor_of(each) for name, each in (("q", q), ("k", k), ("v", v), ("o", o))}
    lse = {"lse": Tensor("f32", tuple(o.shape[:3])), "do": tensor_of(grad)}
    outputs = {name: tensor_of(each, 16) for name, each in zip(("dq", "dk", "dv"), gradients_like(q, k, v))}
    attributes = {"mask": mask, "deterministic": "yes" if must_be_deterministic() else "any"}
    if q.dtype is torch.float32:
        attributes["compute"] = _engine.f32_compute()
    return Problem("attention_bwd", {**inputs, **lse, **outputs}, attributes)


def launch_backward(plan: Described, grad: torch.Tensor, inputs: Three, outputs: Two) -> Three:
    gradients = gradients_like(*inputs)
    plan.launch(*(each.data_ptr() for each in (*inputs, *outputs, grad, *gradients)))
    return gradients


def _plan(grad: torch.Tensor, inputs: Three, o: torch.Tensor, mask: str, scale: float) -> Optional[Described]:
    key = (layout_key(*inputs, o, grad), mask, scale, _engine.f32_compute() if grad.dtype is torch.float32 else "", must_be_deterministic())
    with contextlib.suppress(KeyError):
        return _plans[key]
    index = grad.get_device()
    outdated = _plans.during_capture(key, index)
    if outdated is not None:
        return outdated
    try:
        return _plans.keep(key, Described(plan_of(backward_problem(*inputs, o, grad, mask), index), index, 9, (scale,)))
    except NoKernel:
        return _plans.keep(key, None)


def _attention_bwd_cuda(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    mask: str,
    scale: float,
) -> Three:
    if lse.numel() == 0 and q.numel() != 0:  # the forward pass returned no logarithms
        return _in_place_of(q, k, v, _by_torch.attention_bwd(grad, (q, k, v), mask, scale))
    if any(each.data_ptr() == 0 for each in (grad, q, k, v, o)):  # no elements, or a tensor of zeros without memory
        return _in_place_of(q, k, v, _by_torch.attention_bwd(grad, (q, k, v), mask, scale))
    grad, o, lse = columns(grad), columns(o), lse.contiguous()
    inputs = columns(q), columns(k), columns(v)
    plan = _plan(grad, inputs, o, mask, scale)
    if plan is not None:
        refuse_nondeterministic("attention", plan)
        gradients = launch_backward(plan, grad, inputs, (o, lse))
    elif _flash_can(q, k, v, mask):
        gradients = _flash_backward(grad, inputs, (o, lse), mask == "causal", scale)
    else:
        gradients = _by_torch.attention_bwd(grad, inputs, mask, scale)
    return _in_place_of(q, k, v, gradients)


def _in_place_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gradients: Three) -> Three:
    """Gradients with the strides that the fake implementation promises."""
    wanted = gradients_like(q, k, v)
    first, second, third = (
        made if made.stride() == place.stride() and made.dtype == place.dtype else place.copy_(made) for place, made in zip(wanted, gradients)
    )
    return first, second, third


def _attention_bwd_fake(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    mask: str,
    scale: float,
) -> Three:
    torch._check(grad.shape == o.shape, lambda: f"the gradient has shape {grad.shape}, the result {o.shape}")
    return gradients_like(q, k, v)


def _flash_can(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str) -> bool:
    is_square = q.shape[2] == k.shape[2]
    return q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and q.shape[3] == v.shape[3] and (mask == "none" or is_square)


def _flash_backward(grad: torch.Tensor, inputs: Three, outputs: Two, is_causal: bool, scale: float) -> Three:
    """aten's gradients, from our result and the logarithm of each row's sum. Heads of keys are repeated, their gradients summed."""
    q, k, v = inputs
    o, lse = outputs
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (each if group == 1 else each.repeat_interleave(group, dim=1) for each in (k, v))
    none = torch.empty(0, dtype=torch.int64, device=q.device)
    seed = torch.zeros(2, dtype=torch.uint64, device=q.device)
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad, q, wide_k, wide_v, o, lse, None, None, q.shape[2], k.shape[2], 0.0, is_causal, seed, none, scale=scale
    )
    if group > 1:
        dk, dv = (each.unflatten(1, (k.shape[1], group)).sum(2) for each in (dk, dv))
    return dq, dk, dv


def _bwd_by_torch(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    mask: str,
    scale: float,
) -> Three:
    """Computes the gradients from q, k and v only, because o and lse follow from these."""
    return _by_torch.attention_bwd(grad, (q, k, v), mask, scale)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    grad, q, k, v, _, _, ctx.mask, ctx.scale = inputs
    ctx.save_for_backward(grad, q, k, v)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, *gradients: Optional[torch.Tensor]) -> Tuple[Any, ...]:
    """Second derivatives, by autograd of the plain formula."""
    inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors] if not torch.is_grad_enabled() else list(ctx.saved_tensors)
    with torch.enable_grad():
        grad, q, k, v = inputs
        made = _by_torch.attention_bwd(grad, (q, k, v), ctx.mask, ctx.scale)
        used = [(result, gradient) for result, gradient in zip(made, gradients) if gradient is not None]
    wanted = [each for each in inputs if each.requires_grad]
    if not used or not wanted:
        return (None,) * 8
    results, given = zip(*used)
    found = iter(torch.autograd.grad(results, wanted, given, create_graph=torch.is_grad_enabled(), allow_unused=True))
    return (*(next(found) if each.requires_grad else None for each in inputs), None, None, None, None)


register(
    "attention_bwd",
    "(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, str mask, float scale) -> (Tensor, Tensor, Tensor)",
    cuda=_attention_bwd_cuda,
    fake=_attention_bwd_fake,
    by_torch=_bwd_by_torch,
    backward=_backward,
    save=_save,
)
