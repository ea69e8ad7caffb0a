"""autotune::attention: the operator, its gradients, and the function users call."""

import math
from typing import Dict, Optional, Tuple

import torch

from . import _engine
from ._engine import Described, plan_of, refuse_inputs, tensor_of
from ._ops import _autocast, _is_plain, _library, _refuse_host
from ..errors import InvalidArgument
from ..problem import Problem, Tensor

MASKS = ("none", "causal", "causal_bottom_right")

_plans: Dict[tuple, Described] = {}
_engine.on_refresh(_plans.clear)


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str) -> None:
    refuse_inputs("attention", q, k, v)
    if mask not in MASKS:
        raise InvalidArgument(f"autotune.torch.attention: mask is {mask!r}; it takes {', '.join(MASKS)}")
    if not q.dim() == k.dim() == v.dim() == 4:
        raise InvalidArgument("autotune.torch.attention takes q, k and v of four dimensions: batch, heads, length, head size")


def _columns(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] == 1 else tensor.contiguous()


def _attention_cuda(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float) -> Tuple[torch.Tensor, torch.Tensor]:
    q, k, v = _columns(q), _columns(k), _columns(v)
    key = (
        q.shape,
        k.shape,
        v.shape,
        q.stride(),
        k.stride(),
        v.stride(),
        q.dtype,
        k.dtype,
        v.dtype,
        q.get_device(),
        k.get_device(),
        v.get_device(),
        mask,
        scale,
        (q.data_ptr() & 15, k.data_ptr() & 15, v.data_ptr() & 15),
        q.dtype is torch.float32 and _engine.f32_compute(),
    )
    o, lse = _outputs(q, v)
    plan = _plans.get(key)
    if plan is None:
        _check(q, k, v, mask)
        tensors = {name: tensor_of(each) for name, each in (("q", q), ("k", k), ("v", v))}
        tensors["o"] = Tensor(tensors["q"].dtype, tuple(o.shape), tuple(o.stride()))
        tensors["lse"] = Tensor("f32", tuple(lse.shape))
        attributes = {"mask": mask}
        if q.dtype is torch.float32:
            attributes["compute"] = _engine.f32_compute()
        problem = Problem("attention", tensors, attributes)
        plan = _plans[key] = Described(plan_of(problem, q.get_device()), q.get_device(), 5, (scale,))
    plan.launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr())
    return o, lse


def _outputs(q: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """o lies as q does: of [batch, length, heads, size] in memory, if that is what q is."""
    o = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, q.new_empty(q.shape[:-1], dtype=torch.float32)


def _attention_fake(q, k, v, mask, scale):
    torch._check(q.dim() == 4 and k.dim() == 4 and v.dim() == 4, lambda: "autotune::attention takes four dimensions")
    torch._check(q.shape[-1] == k.shape[-1] and k.shape[:3] == v.shape[:3], lambda: f"shapes {q.shape}, {k.shape} and {v.shape} do not fit")
    return _outputs(q, v)


def _save(ctx, inputs, output):
    q, k, v, ctx.mask, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, grad, _grad_of_lse):
    q, k, v, o, lse = ctx.saved_tensors
    if _flash_can(q, k, v, ctx.mask):
        gradients = _flash_backward(grad, (q, k, v), (o, lse), ctx.mask == "causal", ctx.scale)
    else:
        gradients = _recomputed_backward(grad, (q, k, v), ctx.mask, ctx.scale)
    return (*gradients, None, None)


def _flash_can(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str) -> bool:
    is_square = q.shape[2] == k.shape[2]
    return q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and q.shape[3] == v.shape[3] and (mask == "none" or is_square)


def _flash_backward(grad, inputs, outputs, is_causal, scale):
    """aten's: it needs what ours gives, the result and the logarithm of each row's sum. Heads of keys are repeated, their gradients summed."""
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


def _recomputed_backward(grad, inputs, mask, scale):
    """Any mask and type, by the scores themselves: needs memory for all of them."""
    q, k, v = inputs
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (each.repeat_interleave(group, dim=1).float() for each in (k, v))
    grad, q32 = grad.float(), q.float()
    scores = (q32 @ wide_k.mT) * scale
    if mask != "none":
        offset = k.shape[2] - q.shape[2] if mask == "causal_bottom_right" else 0
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(offset)
        scores = scores.masked_fill(~seen, -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    of_weights = grad @ wide_v.mT
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
    dq, dk, dv = of_scores @ wide_k, of_scores.mT @ q32, weights.mT @ grad
    if group > 1:
        dk, dv = (each.unflatten(1, (k.shape[1], group)).sum(2) for each in (dk, dv))
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


_library.define("attention(Tensor q, Tensor k, Tensor v, str mask, float scale) -> (Tensor, Tensor)", tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("attention", _attention_cuda, "CUDA")
_library.impl("attention", _refuse_host("attention"), "CPU")
_library.impl("attention", _autocast(torch.ops.autotune.attention.default), "AutocastCUDA")
torch.library.register_fake("autotune::attention", _attention_fake, lib=_library)
torch.library.register_autograd("autotune::attention", _backward, setup_context=_save, lib=_library)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: str = "none",
    is_causal: bool = False,
    scale: Optional[float] = None,
    return_lse: bool = False,
):
    """softmax(scale q k^T) v for each head, by the tuned kernel.

    q [batch, heads, queries, size], k [batch, key heads, keys, size], v [batch, key heads, keys, value size]; heads are a multiple of key
    heads. mask: "none", "causal" (query i sees keys up to i, as torch's is_causal) or "causal_bottom_right" (the last query sees the last key).
    scale: 1 / sqrt(size) if left out. f16, bf16, f32. The result lies in memory as q does. return_lse: also the logarithm of each row's sum
    [batch, heads, queries], f32. Differentiable in q, k and v: gradients are aten's flash attention's where it can, else they are computed from
    all scores.
    """
    mask = "causal" if is_causal and mask == "none" else mask
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    plain = _is_plain(q, k) and _is_plain(k, v)
    o, lse = _attention_cuda(q, k, v, mask, scale) if plain else torch.ops.autotune.attention(q, k, v, mask, scale)
    return (o, lse) if return_lse else o
