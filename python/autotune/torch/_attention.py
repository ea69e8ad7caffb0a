"""autotune::attention: the operator and the function users call. Its gradients are autotune::attention_bwd."""

import math
from typing import Any, Literal, Optional, Tuple, Union, overload

import torch

from . import _by_torch, _engine
from ._engine import Cache, Described, columns, layout_key, plan_of, refuse_inputs, refuse_nondeterministic, tensor_of
from ._guards import is_compiling, is_plain, is_torchs
from ._register import lower_precision, register
from ..errors import InvalidArgument
from ..problem import Problem, Tensor

_plans: Cache[Described] = Cache()


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str) -> None:
    refuse_inputs("attention", q, k, v)
    _by_torch.check_mask(mask)
    if not q.dim() == k.dim() == v.dim() == 4:
        raise InvalidArgument("autotune.torch.attention takes q, k and v of four dimensions: batch, heads, length, head size")
    fits = q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3] and k.shape[:3] == v.shape[:3]
    if not fits or (q.shape[1] % k.shape[1] if k.shape[1] else q.shape[1]):
        shapes = ", ".join(str(tuple(each.shape)) for each in (q, k, v))
        raise InvalidArgument(f"autotune.torch.attention: shapes {shapes} do not fit; see its documentation")


def attention_problem(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, mask: str, with_lse: bool) -> Problem:
    tensors = {name: tensor_of(each) for name, each in (("q", q), ("k", k), ("v", v))}
    tensors["o"] = tensor_of(o, 16)
    if with_lse:
        tensors["lse"] = Tensor("f32", tuple(q.shape[:3]))
    attributes = {"mask": mask}
    if q.dtype is torch.float32:
        attributes["compute"] = _engine.f32_compute()
    return Problem("attention", tensors, attributes)


def problem_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, with_lse: bool) -> Problem:
    """The problem of the operator, whose result has q's layout."""
    return attention_problem(q, k, v, _outputs(q, v, False)[0], mask, with_lse)


def _attention_cuda(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float, with_lse: bool = True
) -> Tuple[torch.Tensor, torch.Tensor]:
    if q.dim() == k.dim() == v.dim() == 4:
        q, k, v = columns(q), columns(k), columns(v)
    else:
        _check(q, k, v, mask)
    if q.data_ptr() == 0 or k.data_ptr() == 0 or v.data_ptr() == 0:
        return _attention_of_nothing(q, k, v, mask, scale, with_lse)
    key = layout_key(q, k, v), mask, scale, with_lse, _engine.f32_compute() if q.dtype is torch.float32 else ""
    plan = _plans.get(key) or _plans.during_capture(key, q.get_device())
    if plan is None:
        _check(q, k, v, mask)
        plan = _plans.keep(key, Described(plan_of(problem_of(q, k, v, mask, with_lse), q.get_device()), q.get_device(), 5, (scale,)))
    refuse_nondeterministic("attention", plan)
    o, lse = _outputs(q, v, with_lse)
    plan.launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr() if with_lse else 0)
    return o, lse


def _attention_of_nothing(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float, with_lse: bool
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The result for tensors without elements, or tensors of zeros without memory: without keys o = 0 and lse = -inf. It has
    the usual layout.
    """
    q, k, v = (_engine.with_memory(each) for each in (q, k, v))
    _check(q, k, v, mask)
    o, lse = _outputs(q, v, with_lse)
    values = _by_torch.attention(q, k, v, mask, scale, with_lse)
    return o.copy_(values[0]), lse.copy_(values[1])


def _outputs(q: torch.Tensor, v: torch.Tensor, with_lse: bool) -> Tuple[torch.Tensor, torch.Tensor]:
    """o has the memory layout of q, for example [batch, length, heads, size]. Without logarithms lse has no rows."""
    o = torch.empty_like(q) if q.shape[-1] == v.shape[-1] else q.new_empty((*q.shape[:-1], v.shape[-1]))
    return o, q.new_empty((*q.shape[:2], q.shape[2] if with_lse else 0), dtype=torch.float32)


def _attention_fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float, with_lse: bool = True
) -> Tuple[torch.Tensor, torch.Tensor]:
    torch._check(q.dim() == 4 and k.dim() == 4 and v.dim() == 4, lambda: "autotune::attention takes four dimensions")
    torch._check(q.shape[-1] == k.shape[-1] and k.shape[:3] == v.shape[:3], lambda: f"shapes {q.shape}, {k.shape} and {v.shape} do not fit")
    return _outputs(columns(q), v, with_lse)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, ctx.mask, ctx.scale, *_ = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Optional[torch.Tensor], grad_of_lse: Optional[torch.Tensor]) -> Tuple[Any, ...]:
    q, k, v, o, lse = ctx.saved_tensors
    if grad_of_lse is not None and lse.numel():  # kernels compute only gradients of o
        grad = o.new_zeros(o.shape) if grad is None else grad
        return (*_by_torch.attention_bwd(grad, (q, k, v), ctx.mask, ctx.scale, grad_of_lse), None, None, None)
    if grad is None:
        return (None,) * 6
    return (*torch.ops.autotune.attention_bwd(grad, q, k, v, o, lse, ctx.mask, ctx.scale), None, None, None)


register(
    "attention",
    "(Tensor q, Tensor k, Tensor v, str mask, float scale, bool with_lse=True) -> (Tensor, Tensor)",
    cuda=_attention_cuda,
    fake=_attention_fake,
    by_torch=_by_torch.attention,
    backward=_backward,
    save=_save,
    autocast=lower_precision,
)


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: str = ...,
    is_causal: bool = ...,
    scale: Optional[float] = ...,
    return_lse: Literal[False] = ...,
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: str = ...,
    is_causal: bool = ...,
    scale: Optional[float] = ...,
    return_lse: Literal[True],
) -> Tuple[torch.Tensor, torch.Tensor]: ...


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    mask: str = "none",
    is_causal: bool = False,
    scale: Optional[float] = None,
    return_lse: bool = False,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """softmax(scale q k^T) v for each head, by the tuned kernel.

    q [batch, heads, queries, size], k [batch, key heads, keys, size], v [batch, key heads, keys, value size]; heads are a multiple of key
    heads. mask: "none", "causal" (query i sees keys up to i, as torch's is_causal) or "causal_bottom_right" (the last query sees the last key).
    scale: 1 / sqrt(size) if left out. f16, bf16, f32. The result lies in memory as q does. return_lse: also the logarithm of each row's sum
    [batch, heads, queries], f32. Without keys o is 0 and the logarithm -inf. Differentiable in q, k and v, by the op attention_bwd; where it has
    no kernel, by aten's flash attention or from all scores, and so are second derivatives and those of the logarithms.
    """
    mask = "causal" if is_causal and mask == "none" else mask
    scale = (1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0) if scale is None else float(scale)
    plain = is_plain(q, k) and is_plain(k, v)
    if not plain and not is_compiling() and is_torchs(q, k, v):
        o, lse = _by_torch.sdpa(q, k, v, mask, scale, return_lse)
    else:
        with_lse = return_lse or (torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad))
        run = _attention_cuda if plain else torch.ops.autotune.attention
        o, lse = run(q, k, v, mask, scale, with_lse)
    return (o, lse) if return_lse else o
