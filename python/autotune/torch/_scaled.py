"""autotune::scaled_mm: products of fp8 with factors of tensors or of rows and columns, a bias, an output in fp8 and its amax."""

from typing import Any, List, NoReturn, Optional, Tuple

import torch

from . import _by_torch, _engine
from ._engine import FP8, WORDS, Cache, Described, plan_of, refuse_devices, refuse_nondeterministic, tensor_of
from ._guards import is_compiling, is_plain, is_torchs
from ._register import register
from ..errors import InvalidArgument
from ..problem import Problem, Tensor

OUT = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", **FP8}

_plans: Cache[Described] = Cache()

Epilogue = Tuple[Optional[torch.Tensor], Optional[torch.Tensor], Optional[torch.Tensor]]  # bias, scale_result, amax


def _check(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, out_dtype: torch.dtype) -> None:
    if a.dtype not in FP8 or b.dtype not in FP8:
        raise TypeError(f"autotune.torch.scaled_mm: dtypes are {a.dtype} and {b.dtype}; it takes {', '.join(map(str, FP8))}")
    if out_dtype not in OUT:
        raise TypeError(f"autotune.torch.scaled_mm: out_dtype is {out_dtype}; it takes {', '.join(map(str, OUT))}")
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise InvalidArgument(f"autotune.torch.scaled_mm: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        raise TypeError(f"autotune.torch.scaled_mm: scales are {scale_a.dtype} and {scale_b.dtype}; they must be torch.float32")


def _check_devices(tensors: List[Optional[torch.Tensor]]) -> None:
    refuse_devices("scaled_mm", *tensors)
    for tensor in tensors:
        if tensor is not None and tensor.device.type != "cuda":
            raise TypeError(f"autotune.torch.scaled_mm: a tensor is on {tensor.device}; move it to a GPU: .cuda()")


def _check_epilogue(columns: int, out_dtype: torch.dtype, epilogue: Epilogue) -> None:
    bias, scale_result, amax = epilogue
    if bias is not None and (bias.dtype not in WORDS or tuple(bias.shape) != (columns,)):
        raise InvalidArgument(
            f"autotune.torch.scaled_mm: the bias is {bias.dtype} {tuple(bias.shape)}; it has one element a column of b, here {columns}, "
            f"of {', '.join(map(str, WORDS))}"
        )
    if scale_result is not None and out_dtype not in FP8:
        raise InvalidArgument(f"autotune.torch.scaled_mm: scale_result is the factor of a result in fp8, but out_dtype is {out_dtype}; leave it out")
    for name, tensor in (("scale_result", scale_result), ("amax", amax)):
        if tensor is not None and (tensor.dtype != torch.float32 or tensor.numel() != 1):
            raise InvalidArgument(f"autotune.torch.scaled_mm: {name} is {tensor.dtype} {tuple(tensor.shape)}; it is one element of torch.float32")


def _scaling(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str:
    if scale_a.numel() == scale_b.numel() == 1:
        return "tensor"
    if scale_a.numel() == a.shape[0] and scale_b.numel() == b.shape[1]:
        return "row"
    raise InvalidArgument(
        f"autotune.torch.scaled_mm: scales of {scale_a.numel()} and {scale_b.numel()} elements; give one and one, or {a.shape[0]} and {b.shape[1]}: "
        "one a row of a and one a column of b"
    )


Operands = Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _check_all(operands: Operands, out_dtype: torch.dtype, epilogue: Epilogue) -> str:
    """Returns how the product is scaled. Raises for invalid arguments."""
    a, b, scale_a, scale_b = operands
    _check_devices([*operands, *epilogue])
    _check(a, b, scale_a, scale_b, out_dtype)
    _check_epilogue(b.shape[1], out_dtype, epilogue)
    return _scaling(a, b, scale_a, scale_b)


def _make_plan(
    operands: Operands, out_dtype: torch.dtype, use_fast_accum: bool, epilogue: Epilogue
) -> Described:
    a, b, _, _ = operands
    scaling = _check_all(operands, out_dtype, epilogue)
    lengths = {"tensor": ((1,), (1,)), "row": ((a.shape[0],), (b.shape[1],))}[scaling]
    tensors = {"a": tensor_of(a), "b": tensor_of(b), "c": Tensor(OUT[out_dtype], (a.shape[0], b.shape[1]))}
    tensors.update({name: Tensor("f32", shape, align=4) for name, shape in zip(("scale_a", "scale_b"), lengths)})
    bias, scale_result, amax = epilogue
    if bias is not None:
        tensors["bias"] = Tensor(bias.dtype, bias.shape, align=bias.element_size())
    tensors.update({name: Tensor("f32", (1,), align=4) for name, given in (("scale_d", scale_result), ("amax_d", amax)) if given is not None})
    attributes = {"beta": "zero", "acc": "f32fast" if use_fast_accum else "f32", "scale": scaling}
    return Described(plan_of(Problem("gemm", tensors, attributes), a.get_device()), a.get_device(), 8, (1.0, 0.0))


def _scaled_cuda(
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
    scale_a, scale_b = scale_a.contiguous(), scale_b.contiguous()
    bias = None if bias is None else bias.contiguous()
    epilogue = (bias, scale_result, amax)
    key = (
        a.shape,
        b.shape,
        a.stride(),
        b.stride(),
        a.dtype,
        b.dtype,
        a.get_device(),
        b.get_device(),
        out_dtype,
        use_fast_accum,
        scale_a.numel(),
        scale_b.numel(),
        scale_a.dtype,
        scale_b.dtype,
        scale_a.get_device(),
        scale_b.get_device(),
        a.data_ptr() & 15,
        b.data_ptr() & 15,
        *(None if each is None else (each.shape, each.dtype, each.get_device()) for each in epilogue),
    )
    if amax is not None:
        torch.autograd.graph.increment_version(amax)
    operands = a, b, scale_a, scale_b
    # There are no elements, or a tensor of zeros has no memory
    if any(each is not None and each.data_ptr() == 0 for each in (*operands, *epilogue)):
        _check_all(operands, out_dtype, epilogue)
        return _by_torch.scaled_mm(*operands, out_dtype, use_fast_accum, *epilogue)
    plan = _plans.get(key) or _plans.during_capture(key, a.get_device())
    if plan is None:
        plan = _plans.keep(key, _make_plan(operands, out_dtype, use_fast_accum, epilogue))
    refuse_nondeterministic("scaled_mm", plan)
    c = a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)
    last = (0 if each is None else each.data_ptr() for each in epilogue)
    plan.launch(a.data_ptr(), b.data_ptr(), c.data_ptr(), scale_a.data_ptr(), scale_b.data_ptr(), *last)
    return c


def _scaled_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out_dtype: torch.dtype,
    use_fast_accum: bool,
    *epilogue: Optional[torch.Tensor],
) -> torch.Tensor:
    torch._check(a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0], lambda: f"shapes {a.shape} and {b.shape} cannot be multiplied")
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype)


def _scaled_cpu(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out_dtype: torch.dtype,
    use_fast_accum: bool,
    *epilogue: Optional[torch.Tensor],
) -> None:
    _check_devices([a, b, scale_a, scale_b, *epilogue])


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    pass


def _backward(ctx: Any, gradient: torch.Tensor) -> NoReturn:
    raise RuntimeError(
        "autotune.torch.scaled_mm has no gradients; compute it under torch.no_grad(), on detached tensors, or give it gradients of your own "
        "by a torch.autograd.Function"
    )


register(
    "scaled_mm",
    "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, ScalarType out_dtype, bool use_fast_accum, Tensor? bias=None, "
    "Tensor? scale_result=None, Tensor(x!)? amax=None) -> Tensor",
    cuda=_scaled_cuda,
    fake=_scaled_fake,
    by_torch=_by_torch.scaled_mm,
    backward=_backward,
    save=_save,
    host=_scaled_cpu,
)


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out_dtype: Optional[torch.dtype] = None,
    use_fast_accum: bool = False,
    *,
    bias: Optional[torch.Tensor] = None,
    scale_result: Optional[torch.Tensor] = None,
    amax: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """(scale_a a) (scale_b b) + bias of fp8, as torch._scaled_mm: a [m, k] by rows, b [k, n] by columns, that is a weight [n, k] transposed.

    scale_a, scale_b: f32 on the device, one element each, or one a row of a [m] and one a column of b [n], in any shape. out_dtype: bf16 (if left
    out), f16, f32, or fp8, which saturates. use_fast_accum: sums stay in the tensor cores, which keep about 13 bits of them. bias: [n], bf16, f16 or
    f32. scale_result: one f32 on the device, with which a result in fp8 is multiplied before it is rounded. amax: one f32 on the device, raised to
    the largest magnitude of the result before scale_result; zero it first. Without gradients. Raises as `mm` does.
    """
    out_dtype = torch.bfloat16 if out_dtype is None else out_dtype
    arguments = a, b, scale_a, scale_b, out_dtype, use_fast_accum, bias, scale_result, amax
    if is_plain(a, b) and is_plain(scale_a, scale_b) and all(each is None or is_plain(each, each) for each in (bias, scale_result, amax)):
        return _scaled_cuda(*arguments)
    if not is_compiling() and is_torchs(*(each for each in arguments if isinstance(each, torch.Tensor))):
        return _by_torch.scaled_mm(*arguments)
    result: torch.Tensor = torch.ops.autotune.scaled_mm(*arguments)
    return result
