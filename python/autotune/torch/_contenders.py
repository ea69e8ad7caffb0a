"""Runs a problem on memory of its own: with our kernel, and with torch's function for it."""

import math
from typing import Callable, Dict

import torch
import torch.nn.functional as F

from . import _engine
from ._engine import Described, Gemm, plan_of
from ..problem import Problem, Tensor

Runs = Dict[str, Callable[[], object]]  # "torch" and "ours"
_DTYPES = {word: dtype for dtype, word in _engine.WORDS.items()}


def has_rival(problem: Problem) -> bool:
    """Whether torch has a function for the problem, so that both can race."""
    if problem.op != "attention_bwd":
        return problem.op in ("gemm", "attention")
    q, k, v = (problem.tensors[name] for name in "qkv")
    mask = problem.attributes["mask"]
    return q.dtype in ("f16", "bf16") and q.shape[3] == v.shape[3] and (mask == "none" or (mask == "causal" and q.shape[2] == k.shape[2]))


def contenders(problem: Problem, device: torch.device) -> Runs:
    return {"gemm": _products, "attention": _attentions, "attention_bwd": _gradients}[problem.op](problem, device)


def _memory(tensor: Tensor, device: torch.device) -> torch.Tensor:
    dtype = _DTYPES[tensor.dtype]
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides))
    # Makes a view with the same alignment as the model's tensor.
    shift = 0 if tensor.align >= 16 else tensor.align // torch.empty(0, dtype=dtype).element_size()
    return torch.randn(extent + shift, device=device).to(dtype)[shift:].as_strided(tensor.shape, tensor.strides)


def _index(device: torch.device) -> int:
    return 0 if device.index is None else device.index


def _products(problem: Problem, device: torch.device) -> Runs:
    a, b = (_memory(problem.tensors[name], device) for name in "ab")
    product = Gemm(plan_of(problem, _index(device)), _index(device))
    c = torch.empty(product.shape, dtype=a.dtype, device=device)
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    return {"torch": lambda: multiply(a, b, out=c), "ours": lambda: product.launch(a.data_ptr(), b.data_ptr(), c.data_ptr())}


def _attentions(problem: Problem, device: torch.device) -> Runs:
    q, k, v, o = (_memory(problem.tensors[name], device) for name in "qkvo")
    lse = _memory(problem.tensors["lse"], device) if "lse" in problem.tensors else None
    scale, mask = 1 / math.sqrt(q.shape[3]), problem.attributes["mask"]
    plan = Described(plan_of(problem, _index(device)), _index(device), 5, (scale,))
    seen = None
    if mask == "causal_bottom_right":
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=device).tril(k.shape[2] - q.shape[2])
    is_grouped = q.shape[1] != k.shape[1]

    def theirs() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=mask == "causal", scale=scale, enable_gqa=is_grouped)

    def ours() -> torch.Tensor:
        plan.launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), 0 if lse is None else lse.data_ptr())
        return o

    return {"torch": theirs, "ours": ours}


def _gradients(problem: Problem, device: torch.device) -> Runs:
    """Gradients. torch's are those of its flash attention, whose forward results both kernels can use."""
    q, k, v, o, grad, *gradients = (_memory(problem.tensors[name], device) for name in ("q", "k", "v", "o", "do", "dq", "dk", "dv"))
    scale, is_causal = 1 / math.sqrt(q.shape[3]), problem.attributes["mask"] == "causal"
    made, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = torch.ops.aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, is_causal, False, scale=scale
    )
    o.copy_(made)
    plan = Described(plan_of(problem, _index(device)), _index(device), 9, (scale,))
    rest = cum_q, cum_k, max_q, max_k, 0.0, is_causal, seed, offset

    def theirs() -> object:
        return torch.ops.aten._scaled_dot_product_flash_attention_backward(grad, q, k, v, o, lse, *rest, scale=scale)

    def ours() -> object:
        plan.launch(*(each.data_ptr() for each in (q, k, v, o, lse, grad, *gradients)))
        return gradients

    return {"torch": theirs, "ours": ours}
