"""How an operator of ours is registered, so that torch's machinery gives right answers whatever it does to its arguments.

| what reaches the operator | who answers |
|---|---|
| a plain CUDA tensor | our kernel |
| gradients | our formulas, which are operators of ours again |
| a forward-mode gradient; a tensor whose class has operations of its own; a nested tensor | torch's functions (_by_torch.py) |
| any transform of torch.func (vmap, grad, jvp, functionalize, ...) | torch's functions, before the transform is applied |
| a negative or conjugate view, a zero tensor | the dispatcher makes a plain one, then our kernel |
| a tensor of the host | an exception that says what to do |
"""

from typing import Any, Callable, Optional

import torch

from ._engine import refuse_inputs
from ._guards import functorch_layer, grad_enabled, has_tangent, is_compiling, is_torchs

library = torch.library.Library("autotune", "DEF")
Function = Callable[..., Any]
_any_requires_grad = torch._C._any_requires_grad
BY_TORCH = ("FuncTorchDynamicLayerFrontMode", "NestedTensorCUDA", "NestedTensorCPU")


def register(
    name: str,
    schema: str,
    *,
    cuda: Function,
    fake: Function,
    by_torch: Function,
    backward: Function,
    save: Function,
    autocast: Optional[Callable[[Function], Function]] = None,
    host: Optional[Function] = None,
) -> None:
    """`save` and `backward` are as in torch.library.register_autograd; `autocast` makes what is called under autocast of the operator."""
    library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(getattr(torch.ops.autotune, name), "default")
    library.impl(name, cuda, "CUDA")
    library.impl(name, host or _refuse_host(name), "CPU")
    library.impl(name, _with_gradients(name, operator, by_torch, backward, save), "Autograd", with_keyset=True)
    for key in BY_TORCH:
        library.impl(name, by_torch, key)
    if autocast is not None:
        library.impl(name, autocast(operator), "AutocastCUDA")
    torch.library.register_fake(f"autotune::{name}", fake, lib=library)


def _with_gradients(name: str, operator: Any, by_torch: Function, backward: Function, save: Function) -> Function:
    def below(keyset: Any, arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    def forward(ctx: Any, *arguments: Any) -> Any:
        *given, keyset = arguments
        result = below(keyset, given)
        save(ctx, given, result)
        return result

    def of_inputs(ctx: Any, *gradients: Any) -> Any:
        made = backward(ctx, *gradients)
        return (*made, None) if isinstance(made, tuple) else (made, None)

    differentiable = type(f"Autotune_{name}", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(of_inputs)})

    def run(keyset: Any, *arguments: Any) -> Any:
        if functorch_layer() is not None or has_tangent(*arguments) or is_torchs(*arguments):
            return by_torch(*arguments)
        if grad_enabled() and _any_requires_grad(*arguments):
            return differentiable.apply(*arguments, keyset)  # type: ignore[attr-defined]
        return below(keyset, arguments)

    return run


def _refuse_host(name: str) -> Function:
    def refuse(*arguments: Any) -> None:
        refuse_inputs(name, *(each for each in arguments if isinstance(each, torch.Tensor)))

    return refuse


def dispatched(name: str, by_torch: Function, *arguments: Any) -> Any:
    """Runs the operator for arguments that are not plain."""
    if not is_compiling() and is_torchs(*arguments):
        return by_torch(*arguments)
    return getattr(torch.ops.autotune, name)(*arguments)


def lower_precision(operator: Function) -> Function:
    """As torch's own products under autocast: f32, f16 and bf16 are cast, f64 is not."""
    return _autocast(operator, lambda: torch.get_autocast_dtype("cuda"))


def full_precision(operator: Function) -> Function:
    """As torch's own softmax under autocast: in f32."""
    return _autocast(operator, lambda: torch.float32)


def _autocast(operator: Function, dtype: Callable[[], torch.dtype]) -> Function:
    def cast(*arguments: Any) -> Any:
        wanted = dtype()
        with torch.autocast("cuda", enabled=False):
            return operator(*(each.to(wanted) if _is_cast(each) else each for each in arguments))

    return cast


def _is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64
