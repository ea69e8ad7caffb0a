"""Plans that compute on the host, for tests without a GPU: attention and its gradients, from addresses and a problem alone."""

import ctypes

import torch

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ORDERS = {"attention": ("q", "k", "v", "o", "lse"), "attention_bwd": ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv")}


def memory(address, tensor):
    """The array at an address as the problem describes it."""
    dtype = DTYPES[tensor.dtype]
    count = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.strides))
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).as_strided(tensor.shape, tensor.strides)


def scores_of(q, k, mask, scale):
    """Masked scores in f64, keys repeated for the heads of queries that share them."""
    scores = q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], 1).mT * scale
    if mask != "none":
        offset = k.shape[2] - q.shape[2] if mask == "causal_bottom_right" else 0
        scores = scores.masked_fill(~torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(offset), -torch.inf)
    return scores


class HostPlan:
    """Stands for a plan and for what launches it."""

    deterministic = in_stream = in_graphs = True

    def __init__(self, problem, scale):
        self.problem, self.scale = problem, scale
        self.launches = 0

    def launch(self, *addresses):
        self.launches += 1
        names = ORDERS[self.problem.op]
        assert len(addresses) == len(names)
        arrays = {name: memory(at, self.problem.tensors[name]) for name, at in zip(names, addresses) if name in self.problem.tensors}
        assert all(at == 0 for name, at in zip(names, addresses) if name not in self.problem.tensors)
        with torch.no_grad():
            (self._forward if self.problem.op == "attention" else self._backward)(**arrays)

    def _forward(self, q, k, v, o, lse=None):
        scores = scores_of(q, k, self.problem.attributes["mask"], self.scale)
        o.copy_(torch.softmax(scores, -1).nan_to_num(0.0) @ v.double().repeat_interleave(q.shape[1] // k.shape[1], 1))
        if lse is not None:
            lse.copy_(scores.logsumexp(-1))

    def _backward(self, q, k, v, o, lse, do, dq, dk, dv):
        group = q.shape[1] // k.shape[1]
        scores = scores_of(q, k, self.problem.attributes["mask"], self.scale)
        weights = torch.exp(scores - lse.double().unsqueeze(-1)).nan_to_num(0.0)
        of_weights = do.double() @ v.double().repeat_interleave(group, 1).mT
        of_scores = weights * (of_weights - (do.double() * o.double()).sum(-1, keepdim=True)) * self.scale
        dq.copy_(of_scores @ k.double().repeat_interleave(group, 1))
        for place, wide in ((dk, of_scores.mT @ q.double()), (dv, weights.mT @ do.double())):
            place.copy_(wide.unflatten(1, (k.shape[1], group)).sum(2))
