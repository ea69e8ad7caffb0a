"""FlashAttention-3 by the libraries that fa3_library.cu and fa3_backward_library.cu make, as functions of torch tensors."""

import ctypes

import torch

MOST_CALLS = 4096  # calls that are possible between two calls of begin()


class Extents(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("batch", "heads", "kv_heads", "queries", "keys", "size", "causal")]


class FlashAttention3:
    """Calls after begin() have separate counters, because the kernels need counters that are not cleared between calls."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.fa3_forward.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.library.fa3_splits.argtypes = [ctypes.c_void_p]
        self.counters = torch.zeros(MOST_CALLS, dtype=torch.int32, device="cuda")
        self.calls = 0

    def begin(self):
        self.counters.zero_()
        self.calls = 0

    def __call__(self, q, k, v, causal):
        batch, heads, queries, size = q.shape
        extents = Extents(batch, heads, k.shape[1], queries, k.shape[2], size, int(causal))
        splits = self.library.fa3_splits(ctypes.byref(extents))
        o = torch.empty_like(q)
        lse = torch.empty((batch, heads, queries), dtype=torch.float32, device="cuda")
        kept = splits if splits > 1 else 0
        parts = [torch.empty((kept, *shape), dtype=torch.float32, device="cuda") for shape in (q.shape, lse.shape)]
        tensors = (ctypes.c_void_p * 7)(*(tensor.data_ptr() for tensor in (q, k, v, o, lse, *parts)))
        counter = self.counters.data_ptr() + 4 * (self.calls % MOST_CALLS)
        self.calls += 1
        stream = torch.cuda.current_stream().cuda_stream
        if self.library.fa3_forward(ctypes.byref(extents), splits, tensors, counter, stream) != 0:
            raise RuntimeError("the library of FlashAttention-3 lacks a kernel for this problem")
        return o


class BackwardExtents(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("batch", "heads", "length", "size", "causal", "deterministic")]


class FlashAttention3Backward:
    """FlashAttention-3's backward pass, by the library that fa3_backward_library.cu makes."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.fa3_backward.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.library.fa3_padded_rows.argtypes = [ctypes.c_void_p]

    def scratch(self, q, causal, deterministic):
        """The memory that a call with `q`'s shape needs besides its tensors."""
        batch, heads, length, size = q.shape
        extents = BackwardExtents(batch, heads, length, size, int(causal), int(deterministic))
        rows = self.library.fa3_padded_rows(ctypes.byref(extents))
        sums = torch.empty((batch, heads, rows, size), dtype=torch.float32, device="cuda")
        vectors = [torch.empty((batch, heads, rows), dtype=torch.float32, device="cuda") for _ in range(2)]
        turns = torch.zeros((batch, heads, rows), dtype=torch.int32, device="cuda")
        return extents, (sums, *vectors, turns)

    def __call__(self, tensors, scratch):
        """`tensors`: q, k, v, o, lse, dO, and then dQ, dK, dV, which it writes."""
        extents, room = scratch
        addresses = (ctypes.c_void_p * 13)(*(tensor.data_ptr() for tensor in (*tensors, *room)))
        if self.library.fa3_backward(ctypes.byref(extents), addresses, torch.cuda.current_stream().cuda_stream) != 0:
            raise RuntimeError("the library of FlashAttention-3 lacks a kernel for this problem")
