"""The attentions that torch's kernels are asked for, as problems: of the fused kernels that aten chooses among on CUDA, and their gradients.

Each function stands for one of aten's operators. It asks its listener (_collect.py) for a kernel of ours, with the problem that the call is.
"""

import math
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from . import _engine
from ._attention import attention_problem
from ._attention_bwd import Three, Two, backward_problem, launch_backward
from ._engine import Described, Key, columns, layout_key
from ._register import Function

Outputs = Callable[[torch.Tensor, torch.Tensor], Tuple[torch.Tensor, torch.Tensor, bool]]  # of queries and values


def _fits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether our attention can take these tensors. For others, aten makes copies or repeats elements."""
    first = q.dtype, q.device
    return (
        q.dtype in _engine.WORDS
        and all((each.dtype, each.device) == first and each.dim() == 4 and each.stride(3) == 1 and each.numel() > 0 for each in (q, k, v))
        and q.shape[0] == k.shape[0]
        and q.shape[3] == k.shape[3]
        and k.shape[:3] == v.shape[:3]
        and q.shape[1] % k.shape[1] == 0
    )


def _scale_of(q: torch.Tensor, scale: Optional[float]) -> float:
    return 1 / math.sqrt(q.shape[-1] or 1) if scale is None else float(scale)


def _key(name: str, tensors: Tuple[torch.Tensor, ...], is_causal: bool, scale: float, *more: Any) -> Key:
    compute = _engine.f32_compute() if tensors[0].dtype is torch.float32 else ""
    return (name, layout_key(*tensors), is_causal, scale, compute, *more)


def _mask(is_causal: bool) -> str:
    """aten's is_causal is aligned at the top left: query i sees the keys up to i."""
    return "causal" if is_causal else "none"


class _Forward:
    """A call of one of aten's operators: attention of these tensors. `outputs` makes o and lse in the operator's form, and
    says whether lse is filled.
    """

    def __init__(self, tensors: Three, is_causal: bool, scale: Optional[float], outputs: Outputs):
        self.tensors, self.is_causal, self.scale, self.outputs = tensors, is_causal, _scale_of(tensors[0], scale), outputs

    def entry(self, patch: Any, theirs: Callable[[], object]) -> Any:
        if not _fits(*self.tensors) or not self.scale > 0:
            return None
        q, _, v = self.tensors
        o, _, with_lse = self.outputs(q, v)
        plan = patch.plan(lambda: attention_problem(*self.tensors, o, _mask(self.is_causal), with_lse), q.get_device())
        if plan is None:
            return None
        return patch.winner(lambda: Described(plan, q.get_device(), 5, (self.scale,)), self.launch, theirs)

    def launch(self, entry: Described) -> Tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.tensors
        o, lse, with_lse = self.outputs(q, v)
        entry.launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr() if with_lse else 0)
        return o, lse

    @property
    def key(self) -> Key:
        return _key("attention", self.tensors, self.is_causal, self.scale, self.outputs)


def _attend(
    patch: Any, tensors: Three, is_causal: bool, scale: Optional[float], outputs: Outputs, theirs: Callable[[], object]
) -> Optional[Two]:
    """Returns (o, lse) by our kernel, or None if aten must run the call, which is `theirs`."""
    key: Key = ()
    try:
        call = _Forward(tensors, is_causal, scale, outputs)
        key = call.key
        entry = patch.entry(key, tensors[0].get_device(), lambda: call.entry(patch, theirs))
        return None if entry is None else call.launch(entry)
    except Exception as error:
        patch.fall_back("scaled_dot_product_attention", key, error)
        return None


def flash_outputs(q: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, bool]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32), True


def _like(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Memory with q's shape and v's columns, with the dimensions in the order in which q has them in memory."""
    shape = (*q.shape[:3], v.shape[3])
    if tuple(q.shape) == shape:
        return torch.empty_like(q)
    order = sorted(range(4), key=lambda i: q.stride(i), reverse=True)
    return q.new_empty([shape[i] for i in order]).permute([order.index(i) for i in range(4)])


def cudnn_outputs(q: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, bool]:
    return _like(q, v), q.new_empty((*q.shape[:3], 1), dtype=torch.float32), True


def cudnn_outputs_without_lse(q: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, bool]:
    return (*cudnn_outputs(q, v)[:2], False)


def efficient_outputs(q: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, bool]:
    o = q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3])).transpose(1, 2)
    return o, q.new_empty((*q.shape[:2], 0), dtype=torch.float32), False


def _override_flash(patch: Any, original: Function) -> Function:
    def run(
        keyset: Any,
        q: Any,
        k: Any,
        v: Any,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: Optional[float] = None,
    ) -> Any:
        # If lengths differ, this operator aligns the mask at the bottom right. Attention's function never requests such a mask
        # from it.
        is_ours = dropout_p == 0 and not return_debug_mask and q.shape[3:] == v.shape[3:] and not (is_causal and q.shape[2:3] != k.shape[2:3])
        theirs: Callable[[], Any] = lambda: original(keyset, q, k, v, dropout_p, is_causal, return_debug_mask, scale=scale)
        made = _attend(patch, (q, k, v), is_causal, scale, flash_outputs, theirs) if is_ours else None
        if made is None:
            return theirs()
        state = q.new_empty((2,), dtype=torch.uint64), q.new_empty((), dtype=torch.uint64)
        return (*made, None, None, q.shape[2], k.shape[2], *state, q.new_empty(0))

    return run


def _override_cudnn(patch: Any, original: Function) -> Function:
    def run(
        keyset: Any,
        q: Any,
        k: Any,
        v: Any,
        attn_bias: Any,
        compute_log_sumexp: bool,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: Optional[float] = None,
    ) -> Any:
        is_ours = dropout_p == 0 and not return_debug_mask and attn_bias is None
        outputs = cudnn_outputs if compute_log_sumexp else cudnn_outputs_without_lse
        theirs: Callable[[], Any] = lambda: original(
            keyset, q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, scale=scale
        )
        made = _attend(patch, (q, k, v), is_causal, scale, outputs, theirs) if is_ours else None
        if made is None:
            return theirs()
        state = q.new_empty((), dtype=torch.long), q.new_empty((), dtype=torch.long)
        return (*made, None, None, q.shape[2], k.shape[2], *state, None)

    return run


def _override_efficient(patch: Any, original: Function) -> Function:
    def run(
        keyset: Any,
        q: Any,
        k: Any,
        v: Any,
        attn_bias: Any,
        compute_log_sumexp: bool,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: Optional[float] = None,
    ) -> Any:
        # This operator pads logarithms to 32 rows, and our kernels do not.
        is_ours = dropout_p == 0 and attn_bias is None and not compute_log_sumexp
        theirs: Callable[[], Any] = lambda: original(keyset, q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, scale=scale)
        made = _attend(patch, (q, k, v), is_causal, scale, efficient_outputs, theirs) if is_ours else None
        if made is None:
            return theirs()
        return (*made, q.new_empty((), dtype=torch.long), q.new_empty((), dtype=torch.long))

    return run


# ---- gradients ----


def _backward(
    patch: Any, grad: torch.Tensor, inputs: Three, outputs: Two, is_causal: bool, scale: float, theirs: Callable[[], object]
) -> Optional[Three]:
    o, lse = outputs
    is_ours = (
        _fits(*inputs)
        and o.dim() == grad.dim() == 4
        and grad.device == o.device == lse.device == inputs[0].device
        and grad.dtype == o.dtype == inputs[0].dtype
        and lse.is_contiguous()
        and o.stride(3) == 1
        and scale > 0
    )
    if not is_ours:
        return None
    grad = columns(grad)

    def make() -> Any:
        plan = patch.plan(lambda: backward_problem(*inputs, o, grad, _mask(is_causal)), grad.get_device())
        if plan is None:
            return None
        return patch.winner(
            lambda: Described(plan, grad.get_device(), 9, (scale,)), lambda entry: launch_backward(entry, grad, inputs, outputs), theirs
        )

    key: Key = ()
    try:
        key = _key("attention_bwd", (*inputs, o, grad), is_causal, scale)
        entry = patch.entry(key, grad.get_device(), make)
        return None if entry is None else launch_backward(entry, grad, inputs, outputs)
    except Exception as error:
        patch.fall_back("scaled_dot_product_attention's gradients", key, error)
        return None


def _override_flash_backward(patch: Any, original: Function) -> Function:
    def run(keyset: Any, grad: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *rest: Any, scale: Optional[float] = None) -> Any:
        cum_q, _, _, _, dropout_p, is_causal, _, _ = rest
        is_ours = dropout_p == 0 and cum_q is None and not (is_causal and q.shape[2:3] != k.shape[2:3])
        theirs: Callable[[], Any] = lambda: original(keyset, grad, q, k, v, o, lse, *rest, scale=scale)
        made = _backward(patch, grad, (q, k, v), (o, lse), is_causal, _scale_of(q, scale), theirs) if is_ours else None
        return theirs() if made is None else made

    return run


def _override_cudnn_backward(patch: Any, original: Function) -> Function:
    def run(keyset: Any, grad: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *rest: Any, scale: Optional[float] = None) -> Any:
        _, _, bias, cum_q, _, _, _, dropout_p, is_causal = rest
        is_ours = dropout_p == 0 and cum_q is None and bias is None
        theirs: Callable[[], Any] = lambda: original(keyset, grad, q, k, v, o, lse, *rest, scale=scale)
        made = _backward(patch, grad, (q, k, v), (o, lse), is_causal, _scale_of(q, scale), theirs) if is_ours else None
        return theirs() if made is None else made

    return run


OVERRIDES: Dict[str, Callable[[Any, Function], Function]] = {
    "_scaled_dot_product_flash_attention": _override_flash,
    "_scaled_dot_product_cudnn_attention": _override_cudnn,
    "_scaled_dot_product_efficient_attention": _override_efficient,
    "_scaled_dot_product_flash_attention_backward": _override_flash_backward,
    "_scaled_dot_product_cudnn_attention_backward": _override_cudnn_backward,
}
