"""Which tensors our kernels may see: plain ones, where nothing of torch wants to see the call. Everything else is the dispatcher's or torch's own."""

from typing import Any

import torch
from torch.autograd import forward_ad as _forward_ad

PLAIN = (torch.Tensor, torch.nn.Parameter)

grad_enabled = torch.is_grad_enabled
is_compiling = torch.compiler.is_compiling
any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: torch.is_autocast_enabled("cuda"))
_dispatch_modes = torch._C._len_torch_dispatch_stack
# The tracing state of torch.jit.trace, which records everything that the dispatcher sees
tracing_state = torch._C._get_tracing_state
_function_modes = torch._C._is_torch_function_mode_enabled
functorch_layer = torch._C._functorch.peek_interpreter_stack


def is_plain(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether no part of torch needs to see the call, and both tensors' values are simply those in memory."""
    return (
        type(a) in PLAIN
        and type(b) in PLAIN
        and not is_compiling()
        and not (grad_enabled() and (a.requires_grad or b.requires_grad))
        and a.is_cuda
        and not a.is_neg()
        and not b.is_neg()
        and not a.is_nested
        and not b.is_nested
        and not any_autocast()
        and tracing_state() is None
        and not _dispatch_modes()
        and not _function_modes()
        and functorch_layer() is None
        and _forward_ad._current_level < 0
    )


def is_torchs(*arguments: Any) -> bool:
    """Whether an argument is a tensor whose class has operations of its own, or of ragged shape. Then torch's function is
    called, which knows such classes. REQUIRES: torch.compile is not tracing.
    """
    return any(_has_own_operations(each) for each in arguments if type(each) not in PLAIN) or any(
        each.is_nested for each in arguments if isinstance(each, torch.Tensor)
    )


def _has_own_operations(value: Any) -> bool:
    kind = type(value)
    if kind.__module__.startswith(("torch._subclasses.", "torch.fx.")):
        return False  # fake and functional tensors and proxies stand for plain ones, so tracing records our operators
    if not isinstance(value, torch.Tensor):
        return hasattr(kind, "__torch_function__")
    own: Any = kind.__torch_function__
    inherited: Any = torch.Tensor.__torch_function__  # a class method: each access makes a new object
    is_inherited = own is torch._C._disabled_torch_function_impl or getattr(own, "__func__", None) is inherited.__func__
    return not is_inherited or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def has_tangent(*arguments: Any) -> bool:
    """Whether a forward-mode gradient goes through one of these (torch.autograd.forward_ad)."""
    return _forward_ad._current_level >= 0 and any(
        _forward_ad.unpack_dual(each).tangent is not None for each in arguments if isinstance(each, torch.Tensor)
    )
