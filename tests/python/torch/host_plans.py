"""Plans that compute on the host, for tests without a GPU: from addresses and a problem alone."""

import contextlib
import ctypes
from unittest import mock

import torch

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ORDERS = {
    "gemm": ("a", "b", "c"),
    "softmax": ("x", "y", "lse"),
    "attention": ("q", "k", "v", "o", "lse"),
    "attention_bwd": ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"),
}


def memory(address, tensor):
    """The array at an address as the problem describes it."""
    dtype = DTYPES[tensor.dtype]
    count = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.strides))
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).as_strided(tensor.shape, tensor.strides)


def scores_of(q, k, mask, scale):
    """Masked scores in f64; keys are repeated for the heads of queries that share them."""
    scores = q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    if mask != "none":
        offset = k.shape[2] - q.shape[2] if mask == "causal_bottom_right" else 0
        scores = scores.masked_fill(~torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(offset), -torch.inf)
    return scores


class HostPlan:
    """Replaces a plan and the object that launches it."""

    deterministic = in_stream = in_graphs = True

    def __init__(self, problem, scale=1.0):
        self.problem, self.scale = problem, scale
        self.launches = 0
        if problem.op == "gemm":
            self.shape, self.strides = problem.tensors["c"].shape, problem.tensors["c"].strides

    def launch(self, *addresses):
        self.launches += 1
        names = ORDERS[self.problem.op]
        assert len(addresses) == len(names)
        arrays = {name: memory(at, self.problem.tensors[name]) for name, at in zip(names, addresses) if name in self.problem.tensors}
        assert all(at == 0 for name, at in zip(names, addresses) if name not in self.problem.tensors)
        with torch.no_grad():
            getattr(self, f"_{self.problem.op}")(**arrays)

    def _gemm(self, a, b, c):
        c.copy_(a.double() @ b.double())

    def _softmax(self, x, y):
        y.copy_(torch.softmax(x.double() * self.problem.attributes["scale"], -1))

    def _attention(self, q, k, v, o, lse=None):
        scores = scores_of(q, k, self.problem.attributes["mask"], self.scale)
        o.copy_(torch.softmax(scores, -1).nan_to_num(0.0) @ v.double().repeat_interleave(q.shape[1] // k.shape[1], 1))
        if lse is not None:
            lse.copy_(scores.logsumexp(-1))

    def _attention_bwd(self, q, k, v, o, lse, do, dq, dk, dv):
        group = q.shape[1] // k.shape[1]
        scores = scores_of(q, k, self.problem.attributes["mask"], self.scale)
        weights = torch.exp(scores - lse.double().unsqueeze(-1)).nan_to_num(0.0)
        of_weights = do.double() @ v.double().repeat_interleave(group, 1).mT
        of_scores = weights * (of_weights - (do.double() * o.double()).sum(-1, keepdim=True)) * self.scale
        dq.copy_(of_scores @ k.double().repeat_interleave(group, 1))
        for place, wide in ((dk, of_scores.mT @ q.double()), (dv, weights.mT @ do.double())):
            place.copy_(wide.unflatten(1, (k.shape[1], group)).sum(2))


@contextlib.contextmanager
def operators_on_host():
    """The operators with plans that compute on the host; returns the list of plans that were made. Tensors on the host claim
    to be on CUDA, so that direct calls are taken too.
    """
    from autotune.torch import _attention, _attention_bwd, _engine, _ops, _register

    plans = []

    def made(problem, index, count=0, scalars=()):
        plans.append(HostPlan(problem, *scalars))
        return plans[-1]

    library = torch.library.Library("autotune", "IMPL")
    kernels = {
        "mm": _ops._mm_cuda,
        "bmm": _ops._bmm_cuda,
        "softmax": _ops._softmax_cuda,
        "attention": _attention._attention_cuda,
        "attention_bwd": _attention_bwd._attention_bwd_cuda,
    }
    with contextlib.ExitStack() as stack:
        stack.callback(library._destroy)
        for name, kernel in kernels.items():
            library.impl(name, kernel, "CPU", allow_override=True)
        for cache in (_ops._products, _ops._softmaxes, _attention._plans, _attention_bwd._plans):
            cache.clear()
            stack.callback(cache.clear)
        replaced = [(_engine, "is_capturing", lambda index: False), (torch.Tensor, "is_cuda", property(lambda self: True))]
        for module in (_ops, _attention, _attention_bwd):
            replaced += [(module, "plan_of", lambda problem, index: problem), (module, "Described", made)]
        replaced += [(_ops, "Gemm", made), (_ops, "refuse_inputs", refuse), (_attention, "refuse_inputs", refuse)]
        replaced += [(_register, "refuse_inputs", refuse)]
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield plans


def refuse(name, *tensors):
    """Replaces refuse_inputs, because there is no GPU here."""
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.dtype not in DTYPES.values():
            raise TypeError(f"autotune.torch.{name}: {tensor.dtype} {tensor.layout}")
