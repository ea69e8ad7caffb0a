"""The operators: autotune::mm, bmm, addmm, linear and softmax, with shapes, strides, gradients and autocast for torch's machinery.

Each function of this module calls the operator only where torch has to see it (gradients, compilation, modes, autocast). Elsewhere it goes
straight to the plan, because an operator that is written in Python costs several microseconds on the host.
"""

from typing import Any, Callable, Optional, Tuple

import torch
import torch.nn.functional as F

from . import _by_torch, _engine
from ._engine import Cache, Described, Gemm, Key, dense, gemm_problem, must_be_deterministic, plan_of, refuse_inputs, tensor_of
from ._guards import any_autocast, is_compiling, is_plain, is_torchs
from ._register import BY_TORCH, Function, dispatched, full_precision, library, lower_precision, register
from ..errors import InvalidArgument
from ..problem import Problem, Tensor

_products: Cache[Gemm] = Cache()
_softmaxes: Cache[Described] = Cache()


# ---- products ----


def _key(a: torch.Tensor, b: torch.Tensor, pa: int, pb: int) -> Key:
    return a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.get_device(), b.get_device(), (pa & 15) << 4 | (pb & 15)


def _check_product(name: str, a: torch.Tensor, b: torch.Tensor) -> None:
    refuse_inputs(name, a, b)
    rank = 3 if name == "bmm" else 2
    if a.dim() != rank or b.dim() != rank:
        raise InvalidArgument(f"autotune.torch.{name}: the tensors have {a.dim()} and {b.dim()} dimensions; it takes {rank}")
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise InvalidArgument(f"autotune.torch.{name}: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")


def _make_product(name: str, a: torch.Tensor, b: torch.Tensor) -> Optional[Gemm]:
    """Returns None if there is nothing to multiply, or if a deterministic kernel is required and the winner is not
    deterministic.
    """
    _check_product(name, a, b)
    if 0 in a.shape or 0 in b.shape:
        return None
    c = Tensor(_engine.WORDS[a.dtype], (*a.shape[:-1], b.shape[-1]))
    return Gemm(plan_of(gemm_problem(tensor_of(a), tensor_of(b), c), a.get_device()), a.get_device())


def _torchs(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = getattr(torch, name)(a, b)
    return result


def _product(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    try:
        pa, pb = a.data_ptr(), b.data_ptr()
        key = _key(a, b, pa, pb)
    except RuntimeError:  # a layout without a pointer
        refuse_inputs(name, a, b)
        raise
    if pa == 0 or pb == 0:  # there is nothing to multiply, or a tensor of zeros has no memory
        _check_product(name, a, b)
        return _torchs(name, a, b)
    product = _products.get(key)
    if product is None:
        checked = dense(a), dense(b)
        if checked[0] is not a or checked[1] is not b:
            return _product(name, *checked)
        if a.dtype is torch.float32:
            key = (*key, _engine.f32_compute())
            product = _products.get(key)
        if product is None:
            product = _products.during_capture(key, a.get_device()) or _make_product(name, a, b)
            if product is None:
                return _torchs(name, a, b)
            _products.keep(key, product)
    if not product.deterministic and must_be_deterministic():
        return _torchs(name, a, b)
    c = a.new_empty_strided(product.shape, product.strides)
    product.launch(pa, pb, c.data_ptr())
    return c


def _mm_cuda(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product("mm", a, b)


def _bmm_cuda(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _product("bmm", a, b)


def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [m, k] times b [k, n], as torch.mm, by the tuned kernel. f16, bf16, f32 (as torch.set_float32_matmul_precision says).

    The result is contiguous. Differentiable; its gradients are tuned products too. torch's own function runs under transforms of torch.func,
    for forward-mode gradients, for nested tensors and for subclasses with operations of their own. Raises TypeError for tensors of the host,
    of other layouts or dtypes, torch's RuntimeError for tensors of two devices, InvalidArgument for shapes that do not fit, NotPlanned for a
    first call inside a graph capture.
    """
    return _product("mm", a, b) if is_plain(a, b) else dispatched("mm", torch.mm, a, b)


def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [batch, m, k] times b [batch, k, n], as torch.bmm; otherwise as `mm`."""
    return _product("bmm", a, b) if is_plain(a, b) else dispatched("bmm", torch.bmm, a, b)


def _is_turned(matrix: torch.Tensor) -> bool:
    """Whether it is stored transposed, as linear's weight is. Autograd would copy a gradient with another layout."""
    return matrix.stride(-2) == 1 and matrix.stride(-1) > 1


def _product_gradients(product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Function:
    def backward(context: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
        a, b = context.saved_tensors
        of_a = of_b = None
        if context.needs_input_grad[0]:
            of_a = product(b, gradient.mT).mT if _is_turned(a) else product(gradient, b.mT)
        if context.needs_input_grad[1]:
            of_b = product(gradient.mT, a).mT if _is_turned(b) else product(a.mT, gradient)
        return of_a, of_b

    return backward


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _mm_fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    torch._check(a.dim() == 2 and b.dim() == 2, lambda: "autotune::mm takes matrices")
    torch._check(a.shape[1] == b.shape[0], lambda: f"shapes {a.shape} and {b.shape} cannot be multiplied")
    torch._check(a.dtype == b.dtype, lambda: f"dtypes are {a.dtype} and {b.dtype}")
    return a.new_empty((a.shape[0], b.shape[1]))


def _bmm_fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    torch._check(a.dim() == 3 and b.dim() == 3, lambda: "autotune::bmm takes batches of matrices")
    torch._check(a.shape[2] == b.shape[1] and a.shape[0] == b.shape[0], lambda: f"shapes {a.shape} and {b.shape} cannot be multiplied")
    torch._check(a.dtype == b.dtype, lambda: f"dtypes are {a.dtype} and {b.dtype}")
    return a.new_empty((a.shape[0], a.shape[1], b.shape[2]))


# ---- addmm and linear, made from products ----


def addmm(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> torch.Tensor:
    """beta input + alpha (a b), as torch.addmm: a tuned product, and one elementwise kernel for the rest. Differentiable."""
    plain = is_plain(a, b)
    if not plain and not is_compiling() and is_torchs(input, a, b):
        return torch.addmm(input, a, b, beta=beta, alpha=alpha)
    product = _product("mm", a, b) if plain else mm(a, b)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return torch.add(product, _as_autocast(input, product), alpha=beta)


def _as_autocast(added: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Casts the operand that is added to a product to the product's type under autocast, like torch's own products."""
    return added.to(product.dtype) if added.dtype != product.dtype and any_autocast() else added


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """x [..., k] times the transpose of weight [n, k], plus bias [n], as torch.nn.functional.linear. Differentiable."""
    plain = is_plain(x, weight)
    if not plain and not is_compiling() and is_torchs(x, weight, *(() if bias is None else (bias,))):
        return F.linear(x, weight, bias)
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    out = _product("mm", rows, weight.t()) if plain else mm(rows, weight.t())
    if bias is not None:
        out = out + _as_autocast(bias, out)
    return out if x.dim() == 2 else out.view(*x.shape[:-1], weight.shape[0])


def _addmm_composite(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float = 1.0, alpha: float = 1.0) -> torch.Tensor:
    return addmm(input, a, b, beta=beta, alpha=alpha)


def _addmm_by_torch(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float = 1.0, alpha: float = 1.0) -> torch.Tensor:
    return torch.addmm(input, a, b, beta=beta, alpha=alpha)


# ---- softmax ----


def _softmax_cuda(x: torch.Tensor, scale: float) -> torch.Tensor:
    if x.data_ptr() == 0:  # there are no elements, or a tensor of zeros has no memory
        refuse_inputs("softmax", x)
        return _by_torch.softmax(x, scale)
    if not x.is_contiguous():
        x = x.contiguous()
    key = x.shape, x.dtype, x.get_device(), x.data_ptr() & 15, scale
    plan = _softmaxes.get(key) or _softmaxes.during_capture(key, x.get_device())
    if plan is None:
        refuse_inputs("softmax", x)
        if x.dim() == 0:
            return _by_torch.softmax(x, scale)
        flat = x if x.dim() <= 5 else x.flatten(0, x.dim() - 5)
        described = tensor_of(flat)
        problem = Problem("softmax", {"x": described, "y": Tensor(described.dtype, described.shape)}, {"scale": float(scale)})
        plan = _softmaxes.keep(key, Described(plan_of(problem, x.get_device()), x.get_device(), 3))
    y = torch.empty_like(x)
    plan.launch(x.data_ptr(), y.data_ptr(), 0)
    return y


def _softmax_fake(x: torch.Tensor, scale: float) -> torch.Tensor:
    torch._check(x.dim() >= 1, lambda: "autotune::softmax takes at least one dimension")
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _softmax_save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)
    ctx.scale = inputs[1]


def _softmax_backward(ctx: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
    (y,) = ctx.saved_tensors
    return torch._softmax_backward_data(gradient.contiguous(), y, -1, y.dtype) * ctx.scale, None


def softmax(x: torch.Tensor, dim: int = -1, *, scale: float = 1.0) -> torch.Tensor:
    """softmax(scale x) along `dim`, as torch.softmax, by the tuned kernel. Another dimension than the last is copied to the end first.

    f16, bf16, f32; the result has x's dtype and is contiguous. Differentiable.
    """
    if is_plain(x, x) and dim in (-1, x.dim() - 1):
        return _softmax_cuda(x, scale)
    if not is_compiling() and is_torchs(x):
        return torch.softmax(x if scale == 1 else x * scale, dim)
    if dim not in (-1, x.dim() - 1):
        return softmax(x.movedim(dim, -1).contiguous(), scale=scale).movedim(-1, dim)
    result: torch.Tensor = torch.ops.autotune.softmax(x, scale)
    return result


# ---- registration ----


register(
    "mm",
    "(Tensor a, Tensor b) -> Tensor",
    cuda=_mm_cuda,
    fake=_mm_fake,
    by_torch=torch.mm,
    backward=_product_gradients(mm),
    save=_save_inputs,
    autocast=lower_precision,
)
register(
    "bmm",
    "(Tensor a, Tensor b) -> Tensor",
    cuda=_bmm_cuda,
    fake=_bmm_fake,
    by_torch=torch.bmm,
    backward=_product_gradients(bmm),
    save=_save_inputs,
    autocast=lower_precision,
)
register(
    "softmax",
    "(Tensor x, float scale) -> Tensor",
    cuda=_softmax_cuda,
    fake=_softmax_fake,
    by_torch=_by_torch.softmax,
    backward=_softmax_backward,
    save=_softmax_save,
    autocast=full_precision,
)
for _name, _schema, _composite, _torchs_own in (
    ("linear", "(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", linear, F.linear),
    ("addmm", "(Tensor input, Tensor a, Tensor b, float beta=1.0, float alpha=1.0) -> Tensor", _addmm_composite, _addmm_by_torch),
):
    library.define(f"{_name}{_schema}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(_name, _composite, "CompositeImplicitAutograd")
    for _key_of_torch in BY_TORCH:
        library.impl(_name, _torchs_own, _key_of_torch)

OPERATORS = ("mm", "bmm", "addmm", "linear", "softmax", "attention", "scaled_mm")
