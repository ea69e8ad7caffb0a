"""Each operator by torch's own functions: for transforms, subclasses and tensors that our kernels cannot handle.

These functions consist of aten's, so that torch.func, forward-mode gradients and second derivatives work with them.
"""

import math
from typing import Optional, Tuple

import torch
import torch.nn.functional as F

from ..errors import InvalidArgument

MASKS = ("none", "causal", "causal_bottom_right")
Attended = Tuple[torch.Tensor, torch.Tensor]
Three = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def check_mask(mask: str) -> None:
    if mask not in MASKS:
        raise InvalidArgument(f"autotune.torch.attention: mask is {mask!r}; it takes {', '.join(MASKS)}")


def softmax(x: torch.Tensor, scale: float) -> torch.Tensor:
    if scale == 1:
        return torch.softmax(x, -1)
    return torch.softmax(x.to(_wide(x)) * scale, -1).to(x.dtype)


def _wide(x: torch.Tensor) -> torch.dtype:
    """The type in which our kernels compute sums; f64 for f64 operands."""
    return torch.promote_types(x.dtype, torch.float32)


def _repeated(keys: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values [batch, key heads, length, size], repeated for each head of queries."""
    batch, key_heads, length, size = keys.shape
    if heads == key_heads:
        return keys
    return keys.unsqueeze(2).expand(batch, key_heads, heads // key_heads, length, size).reshape(batch, heads, length, size)


def _first_row(queries: int, keys: int, mask: str) -> int:
    """The first query that sees a key. The scores of earlier queries have no softmax."""
    if keys == 0:
        return queries
    return min(max(queries - keys, 0), queries) if mask == "causal_bottom_right" else 0


def _scores(q: torch.Tensor, k: torch.Tensor, mask: str, scale: float, first: int) -> torch.Tensor:
    """Masked scores of the queries from `first` on with all keys, in f32 or f64."""
    scores = (q[:, :, first:].to(_wide(q)) @ k.to(_wide(q)).mT) * scale
    if mask == "none":
        return scores
    offset = k.shape[2] - q.shape[2] if mask == "causal_bottom_right" else 0
    seen = torch.ones(q.shape[2] - first, k.shape[2], dtype=torch.bool, device=q.device).tril(offset + first)
    return scores.masked_fill(~seen, -math.inf)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float, with_lse: bool = True) -> Attended:
    """o and lse as autotune::attention returns them, from all scores. A query without keys has o = 0 and lse = -inf."""
    check_mask(mask)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        q, k, v = (each if each.dtype is torch.float64 else each.to(dtype) for each in (q, k, v))
    with torch.autocast("cuda", enabled=False):
        first = _first_row(q.shape[2], k.shape[2], mask)
        scores = _scores(q, _repeated(k, q.shape[1]), mask, scale, first)
        o = torch.softmax(scores, -1) @ _repeated(v, q.shape[1]).to(scores.dtype)
        lse = torch.logsumexp(scores, -1) if with_lse and k.shape[2] else scores.new_full(scores.shape[:3], -math.inf)
        if first:
            o = torch.cat([o.new_zeros((*q.shape[:2], first, v.shape[3])), o], 2)
            lse = torch.cat([lse.new_full((*q.shape[:2], first), -math.inf), lse], 2)
        return o.to(q.dtype), (lse if with_lse else lse[:, :, :0]).float()


def attention_bwd(
    grad: torch.Tensor, inputs: Three, mask: str, scale: float, grad_of_lse: Optional[torch.Tensor] = None
) -> Three:
    """Gradients of attention by the scores themselves, for any mask and type: needs memory for all of them. Differentiable."""
    q, k, v = inputs
    first = _first_row(q.shape[2], k.shape[2], mask)
    wide_k, wide_v = (_repeated(each, q.shape[1]).to(_wide(q)) for each in (k, v))
    grad, wide_q = grad[:, :, first:].to(_wide(q)), q[:, :, first:].to(_wide(q))
    with torch.autocast("cuda", enabled=False):
        weights = torch.softmax(_scores(q, wide_k, mask, scale, first), -1)
        of_weights = grad @ wide_v.mT
        of_rows = (of_weights * weights).sum(-1, keepdim=True)
        if grad_of_lse is not None:
            of_rows = of_rows - grad_of_lse[:, :, first:].to(of_rows.dtype).unsqueeze(-1)
        of_scores = weights * (of_weights - of_rows) * scale
        dq, dk, dv = of_scores @ wide_k, of_scores.mT @ wide_q, weights.mT @ grad
    if first:
        dq = torch.cat([dq.new_zeros((*q.shape[:2], first, q.shape[3])), dq], 2)
    if q.shape[1] != k.shape[1]:
        dk, dv = (each.unflatten(1, (k.shape[1], q.shape[1] // k.shape[1])).sum(2) for each in (dk, dv))
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float, with_lse: bool = True) -> Attended:
    """Like `attention`, by the function that subclasses of tensors know, if it can do the same."""
    check_mask(mask)
    if with_lse or mask == "causal_bottom_right":
        return attention(q, k, v, mask, scale, with_lse)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=mask == "causal", scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return o, q.new_empty(0)


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out_dtype: torch.dtype,
    use_fast_accum: bool,
    bias: Optional[torch.Tensor] = None,
    scale_result: Optional[torch.Tensor] = None,
    amax: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """The product in f32, which represents fp8 exactly. `use_fast_accum` only permits less accuracy, so it has no effect here."""
    rows = scale_a.reshape(-1, 1) if scale_a.numel() > 1 else scale_a.reshape(())
    columns = scale_b.reshape(1, -1) if scale_b.numel() > 1 else scale_b.reshape(())
    with torch.autocast("cuda", enabled=False):
        product = (a.float() @ b.float()) * rows * columns
        result = product if bias is None else product + bias.float()
        if amax is not None and result.numel():
            amax.copy_(torch.maximum(amax, result.detach().abs().max().reshape(amax.shape)))
        if scale_result is not None:
            result = result * scale_result.reshape(())
        if out_dtype.itemsize == 1:
            most = torch.finfo(out_dtype).max
            result = result.clamp(-most, most)
        return result.to(out_dtype)
