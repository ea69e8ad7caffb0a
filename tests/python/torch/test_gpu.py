"""The operators and the patch on a GPU: right answers beside f64, gradients, opcheck, compilation, CUDA graphs, streams, threads."""

import os
import subprocess
import sys
import threading
import unittest
import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import autotune
import autotune.torch as at
from autotune.torch import _verdicts
from autotune.torch._race import gains_over

SHIPPED = (16, 4096, 4096)  # m, n, k of a bf16 nt winner that comes with the package for an H200


def matrix(*shape, dtype=torch.bfloat16, seed=0, **options):
    generator = torch.Generator(device="cuda").manual_seed(seed + sum(shape))
    return torch.randn(*shape, device="cuda", generator=generator).to(dtype).requires_grad_(options.get("requires_grad", False))


def error(result, exact):
    return ((result.double() - exact).norm() / exact.norm()).item()


def with_layout(rows, cols, turned, dtype, pad=0, seed=0):
    """A [rows, cols] tensor, stored transposed or not, with `pad` elements between its lines."""
    lines, length = (cols, rows) if turned else (rows, cols)
    stored = matrix(lines, length + pad, dtype=dtype, seed=seed)[:, :length]
    return stored.t() if turned else stored


def has_f32():
    """Whether this version has families for f32 products."""
    a = autotune.Tensor("f32", (64, 64))
    return at.handle().supports(at._engine.gemm_problem(a, a, a))


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Gpu(unittest.TestCase):
    def setUp(self):
        torch.backends.cuda.matmul.allow_tf32 = False

    def assert_product(self, ours, a, b, theirs):
        """Ours may be no worse than torch's if the rounding of the result decides; in f32 no worse than k products added one
        after the other.
        """
        exact = a.double() @ b.double()
        if a.dtype == torch.float32:
            self.assertLessEqual(error(ours, exact), 2**-24 * a.shape[-1] ** 0.5)
        else:
            self.assert_as_good(ours, theirs, exact, 1.05)

    def assert_as_good(self, ours, theirs, exact, slack=1.02):
        self.assertEqual(ours.shape, exact.shape)
        self.assertLessEqual(error(ours, exact), slack * error(theirs, exact) + 1e-12)


class Products(Gpu):
    def test_every_layout_type_and_gap(self):
        for dtype in (torch.float16, torch.bfloat16, *([torch.float32] if has_f32() else [])):
            for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
                for m, n, k, pad in ((64, 96, 128, 0), (33, 65, 130, 8), (1, 256, 512, 0), (200, 1, 64, 0), (7, 9, 11, 3)):
                    with self.subTest(dtype=dtype, ta=ta, tb=tb, shape=(m, n, k), pad=pad):
                        a, b = with_layout(m, k, ta, dtype, pad, 1), with_layout(k, n, tb, dtype, pad, 2)
                        self.assert_product(at.mm(a, b), a, b, torch.mm(a, b))

    def test_a_decode_product_is_no_less_exact_than_torchs(self):
        m, n, k = SHIPPED
        a, w = matrix(m, k), matrix(n, k, seed=1)
        self.assert_as_good(at.linear(a, w), F.linear(a, w), a.double() @ w.double().t())

    def test_the_result_is_contiguous_and_new(self):
        a = matrix(32, 64)
        first, second = at.mm(a, a.t()), at.mm(a, a.t())
        self.assertEqual(first.stride(), (32, 1))
        self.assertNotEqual(first.data_ptr(), second.data_ptr())
        self.assertTrue(torch.equal(first, second))

    def test_batches(self):
        a, b = matrix(5, 33, 64), matrix(5, 48, 64, seed=1)
        self.assert_as_good(at.bmm(a, b.mT), torch.bmm(a, b.mT), a.double() @ b.double().mT, 1.05)
        shared = b[:1].expand(5, 48, 64)
        self.assert_as_good(at.bmm(a, shared.mT), torch.bmm(a, shared.mT), a.double() @ shared.double().mT, 1.05)

    def test_nothing_to_multiply(self):
        self.assertEqual(at.mm(matrix(0, 8), matrix(8, 4)).shape, (0, 4))
        self.assertTrue(torch.equal(at.mm(matrix(3, 8)[:, :0], matrix(8, 4)[:0]), torch.zeros(3, 4, device="cuda", dtype=torch.bfloat16)))

    def test_expanded_operands_are_copied(self):
        row = matrix(1, 64).expand(32, 64)
        self.assertTrue(torch.equal(at.mm(row, matrix(64, 16)), at.mm(row.contiguous(), matrix(64, 16))))

    def test_one_element_that_is_repeated(self):
        one = matrix(1)
        for a, b in ((one.expand(32, 64), matrix(64, 48)), (matrix(32, 64), one.expand(64, 48)), (one.expand(32, 64), one.expand(64, 48))):
            self.assertLess(error(at.mm(a, b), a.double() @ b.double()), 6e-3)
        x, w = matrix(32, 64).requires_grad_(), matrix(48, 64, seed=1).requires_grad_()
        of_x, of_w = torch.autograd.grad(at.linear(x, w).sum(), (x, w))
        ones = torch.ones(32, 48, dtype=torch.float64, device=x.device)
        self.assertLess(error(of_x, ones @ w.double()), 6e-3)
        self.assertLess(error(of_w, ones.t() @ x.double()), 6e-3)

    def test_linear_and_addmm(self):
        x, w, bias = matrix(2, 17, 64), matrix(48, 64, seed=1), matrix(48, seed=2)
        exact = x.double() @ w.double().t() + bias.double()
        self.assertLess(error(at.linear(x, w, bias), exact), 6e-3)
        c = matrix(17, 48)
        exact = 0.5 * c.double() + 2 * (x[0].double() @ w.double().t())
        self.assertLess(error(at.addmm(c, x[0], w.t(), beta=0.5, alpha=2), exact), 6e-3)


class Softmax(Gpu):
    def test_rows_of_every_type(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            for shape in ((4, 1000), (2, 3, 128), (77, 333), (2, 2, 2, 2, 3, 64)):
                with self.subTest(dtype=dtype, shape=shape):
                    x = matrix(*shape, dtype=dtype)
                    self.assert_as_good(
                        at.softmax(x), torch.softmax(x, -1), torch.softmax(x.double(), -1), 2.0 if dtype == torch.float32 else 1.1
                    )

    def test_another_dimension_and_a_scale(self):
        x = matrix(8, 16, 32, dtype=torch.float32)
        self.assertTrue(torch.allclose(at.softmax(x, 1), torch.softmax(x, 1), atol=1e-6))
        self.assertTrue(torch.allclose(at.softmax(x, scale=0.125), torch.softmax(x * 0.125, -1), atol=1e-6))


class Scaled(Gpu):
    def test_scales_and_accumulation(self):
        a, w = (matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn) for seed, shape in enumerate(((48, 256), (80, 256))))
        one = torch.tensor([0.5], device="cuda")
        rows, columns = torch.rand(48, 1, device="cuda") + 0.5, torch.rand(1, 80, device="cuda") + 0.5
        for scale_a, scale_b in ((one, one), (rows, columns)):
            for fast in (False, True):
                exact = (a.double() * scale_a.double()) @ (w.double().t() * scale_b.double())
                self.assertLess(error(at.scaled_mm(a, w.t(), scale_a, scale_b, torch.bfloat16, fast), exact), 4e-3)
        with self.assertRaisesRegex(Exception, "one and one, or 48 and 80"):
            at.scaled_mm(a, w.t(), rows, one)
        with self.assertRaisesRegex(Exception, "layout nt alone.*store B transposed"):
            at.scaled_mm(a, w.t().contiguous(), one, one)
        with self.assertRaisesRegex(Exception, "one of them must be e4m3"):
            at.scaled_mm(*(each.to(torch.float32).to(torch.float8_e5m2) for each in (a, w.t())), one, one)
        # Leaves out test_schema, because it compares the inputs by a function that torch lacks for fp8.
        checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(torch.ops.autotune.scaled_mm.default, (a, w.t(), one, one, torch.bfloat16, False), test_utils=checks)

    def test_nan_and_zero_in_scales_and_operands(self):
        for family, (m, n, k) in (("wgmma_fp8", (48, 80, 256)), ("wgmma_fp8", (513, 264, 1000)), ("wgmma_fp8_plain", (48, 80, 256)), ("mma_fp8", (48, 80, 256))):
            for fast in (False, True):
                with self.subTest(family=family, m=m, fast=fast), mock.patch.object(at._engine, "_handle", autotune.Handle(pin=f"gemm/{family}")):
                    at._scaled._plans.clear()
                    self.addCleanup(at._scaled._plans.clear)
                    self.assert_specials(m, n, k, fast)

    def assert_specials(self, m, n, k, fast):
        a, w = (matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn) for seed, shape in enumerate(((m, k), (n, k))))
        rows, columns = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")
        rows[3], columns[0, 5] = float("nan"), 0
        a.view(torch.uint8)[7, 11] = 0x7F  # NaN
        got = at.scaled_mm(a, w.t(), rows, columns, torch.float32, fast)
        spoilt = torch.zeros(m, dtype=torch.bool, device="cuda")
        spoilt[3] = spoilt[7] = True
        self.assertTrue(torch.equal(got.isnan(), spoilt[:, None].expand(m, n)))
        self.assertTrue((got[~spoilt, 5] == 0).all())

    def test_bias_output_in_fp8_and_amax(self):
        a, w = (matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn) for seed, shape in enumerate(((48, 256), (80, 256))))
        rows, columns = torch.rand(48, 1, device="cuda") + 0.5, torch.rand(1, 80, device="cuda") + 0.5
        factor = torch.tensor([4.0], device="cuda")
        for fast in (False, True):
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                bias = matrix(80, dtype=dtype, seed=2)
                exact = (a.double() * rows.double()) @ (w.double().t() * columns.double()) + bias.double()
                self.assertLess(error(at.scaled_mm(a, w.t(), rows, columns, torch.bfloat16, fast, bias=bias), exact), 4e-3)
                amax = torch.zeros(1, device="cuda")
                got = at.scaled_mm(a, w.t(), rows, columns, torch.float8_e4m3fn, fast, bias=bias, scale_result=factor, amax=amax)
                self.assertEqual(got.dtype, torch.float8_e4m3fn)
                self.assertLess(error(got.double(), (exact * 4).clamp(-448, 448)), 4e-2)
                self.assertLess(abs(amax.item() / exact.abs().max().item() - 1), 1e-2)
        with self.assertRaisesRegex(Exception, "a column of b, here 80"):
            at.scaled_mm(a, w.t(), rows, columns, bias=bias[:79])

    def test_amax_is_seen_by_compiled_code(self):
        a, w = (matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn) for seed, shape in enumerate(((48, 256), (80, 256))))
        one = torch.ones(1, device="cuda")

        def step(amax):
            return at.scaled_mm(a, w.t(), one, one, torch.float8_e4m3fn, amax=amax), amax + 0

        expected, got = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda")
        step(expected)
        seen = torch.compile(step, backend="aot_eager", fullgraph=True)(got)[1]
        self.assertEqual((got.item(), seen.item()), (expected.item(), expected.item()))


class Attention(Gpu):
    def exact(self, q, k, v, mask):
        group = q.shape[1] // k.shape[1]
        k, v = (each.double().repeat_interleave(group, 1) for each in (k, v))
        offset = k.shape[2] - q.shape[2] if mask == "causal_bottom_right" else 0
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda")
        return F.scaled_dot_product_attention(q.double(), k, v, attn_mask=None if mask == "none" else seen.tril(offset))

    def test_masks_heads_and_types(self):
        for dtype, allowed in ((torch.bfloat16, 8e-3), (torch.float16, 2e-3), (torch.float32, 2e-6)):
            for mask in ("none", "causal", "causal_bottom_right"):
                with self.subTest(dtype=dtype, mask=mask):
                    q, k, v = (
                        matrix(2, 4, 96, 64, dtype=dtype),
                        matrix(2, 2, 128, 64, dtype=dtype, seed=1),
                        matrix(2, 2, 128, 64, dtype=dtype, seed=2),
                    )
                    self.assertLess(error(at.attention(q, k, v, mask=mask), self.exact(q, k, v, mask)), allowed)

    def test_gradients(self):
        for mask, keys in (("none", 96), ("causal", 96), ("causal_bottom_right", 128)):
            with self.subTest(mask=mask):
                q, k, v = (
                    matrix(1, 4, 96, 64, requires_grad=True),
                    matrix(1, 2, keys, 64, seed=1, requires_grad=True),
                    matrix(1, 2, keys, 64, seed=2, requires_grad=True),
                )
                grad = matrix(1, 4, 96, 64, seed=3)
                ours = torch.autograd.grad(at.attention(q, k, v, mask=mask), (q, k, v), grad)
                wide = [each.detach().double().requires_grad_() for each in (q, k, v)]
                for mine, exact in zip(ours, torch.autograd.grad(self.exact(*wide, mask), wide, grad.double())):
                    self.assertLess(error(mine, exact), 1.5e-2)

    def pin(self, family):
        """Until the test ends, every problem of the family's op runs with its default config."""
        pinned = mock.patch.object(at._engine, "_handle", autotune.Handle(pin=family))
        pinned.start()
        self.forget()
        self.addCleanup(self.forget)
        self.addCleanup(pinned.stop)

    def forget(self):
        at._attention._plans.clear()
        at._attention_bwd._plans.clear()

    def test_every_family(self):
        for family, queries in (("mma", 200), ("wgmma", 200), ("split", 1), ("simt", 200)):
            for mask in ("none",) if queries == 1 else ("none", "causal", "causal_bottom_right"):
                with self.subTest(family=family, mask=mask):
                    self.pin(f"attention/{family}")
                    q = matrix(2, queries, 8, 128).transpose(1, 2)
                    k, v = matrix(2, 2, 333, 128, seed=1), matrix(2, 2, 333, 128, seed=2)
                    exact = self.exact(q, k, v, mask)
                    o, lse = at.attention(q, k, v, mask=mask, return_lse=True)
                    (plan,) = at._attention._plans.values()
                    self.assertTrue(plan.plan.candidate.startswith(f"attention/{family} "), plan.plan.candidate)
                    self.assertLess(error(o, exact), 8e-3)
                    self.assertLess(error(at.attention(q, k, v, mask=mask), exact), 8e-3)
                    if mask == "none":
                        scores = q.double() @ k.double().repeat_interleave(4, 1).mT / 128**0.5
                        self.assertLess(error(lse, scores.logsumexp(-1)), 1e-4)

    def test_gradients_by_every_family(self):
        for family in ("one_pass", "wgmma", "two_pass", "simt"):
            for mask in ("none", "causal"):
                with self.subTest(family=family, mask=mask):
                    self.pin(f"attention_bwd/{family}")
                    q, k, v = (matrix(1, heads, 256, 128, seed=seed, requires_grad=True) for seed, heads in enumerate((8, 2, 2)))
                    grad = matrix(1, 8, 256, 128, seed=3)
                    ours = torch.autograd.grad(at.attention(q, k, v, mask=mask), (q, k, v), grad)
                    (plan,) = at._attention_bwd._plans.values()
                    self.assertTrue(plan.plan.candidate.startswith(f"attention_bwd/{family} "), plan.plan.candidate)
                    wide = [each.detach().double().requires_grad_() for each in (q, k, v)]
                    for mine, exact in zip(ours, torch.autograd.grad(self.exact(*wide, mask), wide, grad.double())):
                        self.assertLess(error(mine, exact), 1.5e-2)
                    # The weights of a row sum to 1.
                    self.assertLess(error(ours[2].double().sum(2), grad.double().sum(2).unflatten(1, (2, 4)).sum(2)), 1.5e-2)
                    # Gradients of a row's scores sum to 0. If all keys are equal, so do the gradients of queries.
                    alike = k.detach()[:, :, :1].expand(-1, -1, 256, -1).contiguous().requires_grad_()
                    dq, dk = torch.autograd.grad(at.attention(q, alike, v, mask=mask), (q, alike), grad)
                    self.assertLess((dq.double().norm() / ours[0].double().norm()).item(), 1.5e-2)
                    self.assertLess((dk.double().sum(2).norm() / dk.double().norm()).item(), 3e-2)

    def test_gradients_are_attention_bwds(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with self.subTest(dtype=dtype):
                q, k = matrix(1, 4, 128, 64, dtype=dtype, requires_grad=True), matrix(1, 2, 128, 64, dtype=dtype, seed=1)
                at.attention(q, k, k, is_causal=True).sum().backward()
                self.assertTrue(any(at._attention_bwd._plans.values()), "no family has a kernel")

    def test_gradients_repeat_bit_for_bit(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        q, k = matrix(2, 8, 300, 64, requires_grad=True), matrix(2, 2, 300, 64, seed=1, requires_grad=True)
        grad = matrix(2, 8, 300, 64, seed=2)
        first = torch.autograd.grad(at.attention(q, k, k, is_causal=True), (q, k), grad)
        for _ in range(3):
            for again, before in zip(torch.autograd.grad(at.attention(q, k, k, is_causal=True), (q, k), grad), first):
                self.assertTrue(torch.equal(again, before))

    def test_compiled_with_gradients(self):
        q, k = matrix(1, 4, 128, 64, requires_grad=True), matrix(1, 2, 128, 64, seed=1, requires_grad=True)
        run = torch.compile(lambda q, k: at.attention(q, k, k, is_causal=True) * 2, fullgraph=True)
        expected = at.attention(q, k, k, is_causal=True) * 2
        for ours, eager in zip(torch.autograd.grad(run(q, k).sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k))):
            self.assertLess(error(ours, eager.double()), 1e-2)

    def test_opcheck(self):
        q = matrix(1, 4, 32, 64, dtype=torch.float16, requires_grad=True)
        k = matrix(1, 2, 32, 64, dtype=torch.float16)
        torch.library.opcheck(torch.ops.autotune.attention.default, (q, k, k, "causal", 0.125))
        o, lse = at.attention(q.detach(), k, k, is_causal=True, return_lse=True)
        torch.library.opcheck(torch.ops.autotune.attention_bwd.default, (o, q.detach(), k, k, o, lse, "causal", 0.125))


class Gradients(Gpu):
    def test_linear(self):
        x, w, bias = (
            matrix(4, 32, 64, requires_grad=True),
            matrix(48, 64, seed=1, requires_grad=True),
            matrix(48, seed=2, requires_grad=True),
        )
        grad = matrix(4, 32, 48, seed=3)
        ours = torch.autograd.grad(at.linear(x, w, bias), (x, w, bias), grad)
        theirs = torch.autograd.grad(F.linear(x, w, bias), (x, w, bias), grad)
        dx, dw = grad.double() @ w.double(), grad.double().flatten(0, 1).t() @ x.double().flatten(0, 1)
        self.assert_as_good(ours[0], theirs[0], dx)
        self.assert_as_good(ours[1], theirs[1], dw)
        self.assertTrue(torch.equal(ours[2], theirs[2]))

    def test_a_sum_has_gradients_without_strides(self):
        a, b = matrix(16, 32, requires_grad=True), matrix(32, 8, seed=1, requires_grad=True)
        at.mm(a, b).sum().backward()
        self.assertTrue(torch.allclose(a.grad.float(), b.float().sum(1).expand(16, 32), rtol=2e-2, atol=2e-2))

    def test_gradcheck_in_f32(self):
        if has_f32():
            a, b = matrix(3, 5, dtype=torch.float32, requires_grad=True), matrix(5, 4, dtype=torch.float32, requires_grad=True)
            torch.autograd.gradcheck(at.mm, (a, b), eps=1e-2, atol=1e-2, rtol=1e-2, nondet_tol=0)
        x = matrix(3, 8, dtype=torch.float32, requires_grad=True)
        torch.autograd.gradcheck(lambda each: at.softmax(each, scale=0.5), (x,), eps=1e-2, atol=1e-2, rtol=1e-2)

    def test_autocast(self):
        a, b = matrix(16, 32, dtype=torch.float32, requires_grad=True), matrix(32, 8, dtype=torch.float32, requires_grad=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = at.mm(a, b)
            self.assertEqual(at.linear(a, b.t(), b[0]).dtype, torch.bfloat16)
            self.assertEqual(at.addmm(b[0], a, b).dtype, torch.bfloat16)
        self.assertEqual(out.dtype, torch.bfloat16)
        out.sum().backward()
        self.assertEqual((a.grad.dtype, b.grad.dtype), (torch.float32, torch.float32))


class Machinery(Gpu):
    def test_opcheck(self):
        a, b = matrix(8, 16, requires_grad=True), matrix(16, 4, requires_grad=True)
        torch.library.opcheck(torch.ops.autotune.mm.default, (a, b))
        torch.library.opcheck(torch.ops.autotune.mm.default, (a, matrix(4, 16).t()))
        batch = matrix(3, 8, 16, requires_grad=True)
        torch.library.opcheck(torch.ops.autotune.bmm.default, (batch, matrix(3, 16, 4)))
        torch.library.opcheck(torch.ops.autotune.softmax.default, (matrix(8, 16, dtype=torch.float32, requires_grad=True), 0.5))
        torch.library.opcheck(torch.ops.autotune.linear.default, (batch, matrix(4, 16), None))
        torch.library.opcheck(torch.ops.autotune.addmm.default, (matrix(4), a, b))

    def compiled(self, **options):
        def layer(x, w, v):
            return at.softmax(at.linear(F.silu(at.linear(x, w)), v).float())

        x, w, v = matrix(32, 64, requires_grad=True), matrix(96, 64, seed=1, requires_grad=True), matrix(48, 96, seed=2, requires_grad=True)
        grad = torch.randn(32, 48, device="cuda")
        run = torch.compile(layer, fullgraph=True, **options)
        expected = layer(x, w, v)
        got = run(x, w, v)
        self.assertTrue(torch.allclose(got, expected, atol=1e-3))
        for ours, theirs in zip(torch.autograd.grad(got, (x, w, v), grad), torch.autograd.grad(expected, (x, w, v), grad)):
            self.assertLess(error(ours, theirs.double()), 2e-2)
        with torch.no_grad():
            for _ in range(4):
                self.assertTrue(torch.allclose(run(x, w, v), expected, atol=1e-3))

    def test_compile_without_a_graph_break(self):
        self.compiled()

    def test_compile_with_cuda_graphs(self):
        self.compiled(mode="reduce-overhead")

    def test_inductors_max_autotune_may_choose_us(self):
        at.enable_inductor()
        self.addCleanup(at.disable_inductor)
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k, seed=1)
        run = torch.compile(lambda x, w: torch.mm(x, w.t()) + 1, mode="max-autotune-no-cudagraphs", fullgraph=True)
        self.assertLess(error(run(x, w), x.double() @ w.double().t() + 1), 6e-3)

    def test_a_graph_replays_with_new_inputs(self):
        for m, n, k in (SHIPPED, (64, 64, 8192), (300, 200, 100)):
            with self.subTest(shape=(m, n, k)):
                a, w = matrix(m, k), matrix(n, k, seed=1)
                at.linear(a, w)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(3):
                        out = at.linear(a, w)
                for seed in (5, 6):
                    a.copy_(matrix(m, k, seed=seed))
                    graph.replay()
                    self.assertTrue(torch.equal(out, at.linear(a, w)))

    def test_two_graphs_of_one_plan_run_at_the_same_time(self):
        m, n, k = 64, 64, 16384  # K is split, so there are counters in the workspace
        a, w = matrix(m, k), matrix(n, k, seed=1)
        expected = at.linear(a, w)
        graphs = []
        for _ in range(2):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outs = [at.linear(a, w) for _ in range(20)]
            graphs.append((graph, outs, torch.cuda.Stream()))
        for _ in range(20):
            for graph, _, stream in graphs:
                with torch.cuda.stream(stream):
                    graph.replay()
        torch.cuda.synchronize()
        for _, outs, _ in graphs:
            for out in outs:
                self.assertTrue(torch.equal(out, expected))

    def test_a_capture_compiles_nothing(self):
        a, w = matrix(24, 40), matrix(56, 40)
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(autotune.NotPlanned, "run the model once before the capture"):
            with torch.cuda.graph(graph):
                at.linear(a, w)
        torch.cuda.synchronize()
        at.linear(a, w)

    def test_threads_and_streams(self):
        failures = []

        def work(seed):
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    a, w = matrix(16, 4096, seed=seed), matrix(64, 4096, seed=seed + 1)
                    expected = a.double() @ w.double().t()
                    for _ in range(50):
                        out = at.linear(a, w)
                    if error(out, expected) > 6e-3:
                        failures.append(seed)
            except Exception as failure:
                failures.append(repr(failure))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_determinism_is_honoured(self):
        a, w = matrix(64, 16384), matrix(64, 16384, seed=1)
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        first = at.linear(a, w)
        for _ in range(5):
            self.assertTrue(torch.equal(at.linear(a, w), first))


class Refusals(Gpu):
    def test_one_exception_each_that_says_what_to_do(self):
        a = matrix(8, 8)
        for message, call in (
            (r"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", lambda: at.mm(a, torch.ones(8, 8, dtype=torch.bfloat16))),
            (r"dtypes are torch.bfloat16 and torch.float16; cast one", lambda: at.mm(a, a.half())),
            (r"dtype torch.float64 has no kernels", lambda: at.mm(a.double(), a.double())),
            (r"cannot be multiplied", lambda: at.mm(a, matrix(9, 8))),
            (r"dimensions; it takes 2", lambda: at.mm(matrix(2, 8, 8), matrix(2, 8, 8))),
            (r"\.to_dense\(\)|strides", lambda: at.mm(a.to_sparse(), a)),
        ):
            with self.subTest(message), self.assertRaisesRegex(Exception, message):
                call()


def believe(problems):
    """Stores verdicts that our kernels are as fast as aten's, whatever a race on the test's GPU would show."""
    _verdicts.store([_verdicts.Verdict(problem, 1.0, 1.0) for problem in problems], _verdicts.device_of(0))


class Patched(Gpu):
    """REQUIRES: an H200, for which the winner of SHIPPED comes with the package; or an earlier tune of it."""

    ANY = 0.01  # a shipped winner may be slower than aten's on the GPU of a test

    @classmethod
    def setUpClass(cls):
        if not torch.cuda.is_available():
            raise unittest.SkipTest("no GPU")
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k)
        origin = at.handle().plan(at._engine.gemm_problem(*(at._engine.tensor_of(each) for each in (x, w.t(), x[:, :n])))).origin
        if origin not in ("exact", "shipped"):
            autotune.tune("bgemm", f"{m}x{n}x{k}", layout="nt", budget="10s")
            at.refresh()
        believe([at._engine.gemm_problem(*(at._engine.tensor_of(each) for each in (x, w.t())), autotune.Tensor("bf16", (m, n)))])

    def launches(self, function):
        """The names of the kernels that ran."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            function()
            torch.cuda.synchronize()
        return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]

    def ours(self, function):
        function()
        return any(name.startswith("gemm_") for name in self.launches(function))

    def test_torchs_functions_run_our_kernel_within(self):
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k, seed=1)
        exact, theirs = x.double() @ w.double().t(), F.linear(x, w)
        self.assertFalse(self.ours(lambda: F.linear(x, w)))
        with at.patch(wait=True, least_gain=self.ANY):
            self.assertTrue(self.ours(lambda: F.linear(x, w)))
            self.assertTrue(self.ours(lambda: x @ w.t()))
            out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            self.assertTrue(self.ours(lambda: torch.mm(x, w.t(), out=out)))
            self.assert_as_good(out, theirs, exact)
            self.assert_as_good(F.linear(x, w), theirs, exact)
        self.assertFalse(self.ours(lambda: F.linear(x, w)))

    def test_what_has_no_winner_is_atens_and_a_miss(self):
        at.clear_misses()
        a = matrix(37, 41)
        with at.patch(wait=True, note_misses=True):
            self.assertTrue(torch.equal(a @ a.t(), torch.mm(a, a.t())))
            self.assertFalse(self.ours(lambda: a @ a.t()))
            with self.assertRaises(RuntimeError):
                torch.mm(a, a)
            torch.mm(a.double(), a.double().t())
            torch.addmm(matrix(37), a, a.t())
        self.assertEqual([problem.tensors["c"].shape for problem in at.misses()], [(37, 37)])

    def test_a_race_finds_the_faster_one(self):
        x, w, large = matrix(64, 4096), matrix(4096, 4096, seed=1), matrix(4096, 4096)
        once, twice = (lambda: F.linear(x, w)), (lambda: (F.linear(x, w), F.linear(x, w)))
        for gain in gains_over(once, twice):
            self.assertLess(gain, 0.8)
        for gain in gains_over(twice, once):
            self.assertGreater(gain, 1.25)
        for gain in gains_over(lambda: large @ w, lambda: (large @ w, large @ w)):
            self.assertAlmostEqual(gain, 0.5, delta=0.05)

    def test_a_record_that_lost_is_not_taken(self):
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k, seed=1)
        with at.patch(wait=True, least_gain=100.0):
            self.assertFalse(self.ours(lambda: F.linear(x, w)))

    def test_a_capture_in_a_patch_compiles_nothing_and_falls_back(self):
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k, seed=1)
        with at.patch(wait=True):
            graph = torch.cuda.CUDAGraph()
            F.linear(matrix(3, 8), matrix(8, 8))
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                first = F.linear(x, w)
            graph.replay()
            F.linear(x, w)
            again = torch.cuda.CUDAGraph()
            with torch.cuda.graph(again):
                second = F.linear(x, w)
            again.replay()
            torch.cuda.synchronize()
        exact = x.double() @ w.double().t()
        self.assertLess(error(first, exact), 6e-3)
        self.assertLess(error(second, exact), 6e-3)

    def test_compiled_code_is_patched(self):
        m, n, k = SHIPPED
        x, w = matrix(m, k), matrix(n, k, seed=1)
        run = torch.compile(lambda x, w: F.linear(x, w) * 2, fullgraph=True)
        with torch.no_grad(), at.patch(wait=True, least_gain=self.ANY):
            self.assertTrue(self.ours(lambda: run(x, w)))

    def test_gradients_go_through(self):
        m, n, k = SHIPPED
        x, w = matrix(m, k, requires_grad=True), matrix(n, k, seed=1, requires_grad=True)
        with at.patch(wait=True):
            F.linear(x, w).sum().backward()
        self.assertLess(error(w.grad, x.detach().double().sum(0).expand(n, k)), 6e-3)


class PatchedAttention(Gpu):
    """scaled_dot_product_attention under the patch, with winners that the tests tune for each of aten's kernels and for
    gradients.
    """

    ANY = 0.01  # a winner of a short search may be slower than aten's
    BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)

    def inputs(self, requires_grad=False):
        return [matrix(1, heads, 256, 64, seed=seed, requires_grad=requires_grad) for seed, heads in enumerate((8, 2, 2))]

    def attend(self, q, k, v, **options):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, **options)

    def step(self):
        tensors = self.inputs(requires_grad=True)
        return torch.autograd.grad(self.attend(*tensors).sum(), tensors)

    def tune(self):
        """Tunes winners for the problems that the tests run, found as a user finds them: from the misses of a patched run."""
        at.clear_misses()
        with at.patch(wait=True, least_gain=self.ANY, note_misses=True):
            for backend in self.BACKENDS:
                with sdpa_kernel(backend):
                    self.attend(*self.inputs())
                    self.attend(*self.inputs(requires_grad=True))
        wanted = [problem for problem in at.misses() if problem.op.startswith("attention")]
        if wanted:
            swept = autotune.sweep(wanted, budget="3s,6t")
            self.assertLessEqual({item.state for item in swept.items}, {"tuned", "fresh"}, swept.items)
            believe(wanted)
            at.refresh()
        at.clear_misses()

    def kernels(self, function):
        function()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            function()
            torch.cuda.synchronize()
        return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]

    def is_ours(self, function):
        return any(name.startswith("attention_") for name in self.kernels(function))

    def exact(self, q, k, v):
        wide = [each.double().repeat_interleave(4, 1) for each in (k, v)]
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q.double(), *wide, is_causal=True)

    def test_a_winner_is_taken_and_nothing_else(self):
        self.tune()
        q, k, v = self.inputs()
        for backend in self.BACKENDS:
            with self.subTest(backend=backend), sdpa_kernel(backend):
                theirs = self.attend(q, k, v)
                self.assertFalse(self.is_ours(lambda: self.attend(q, k, v)))
                with at.patch(wait=True, least_gain=self.ANY):
                    self.assertTrue(self.is_ours(lambda: self.attend(q, k, v)))
                    ours = self.attend(q, k, v)
                    shorter = [each[:, :, :200] for each in (q, k, v)]
                    self.assertFalse(self.is_ours(lambda: self.attend(*shorter)))
                with at.patch(wait=True, attention=False):
                    self.assertFalse(self.is_ours(lambda: self.attend(q, k, v)))
                self.assertEqual(ours.stride(), theirs.stride())
                self.assert_as_good(ours, theirs, self.exact(q, k, v), 1.2)

    def test_a_winner_that_is_slower_here_is_not_taken(self):
        self.tune()
        q, k, v = self.inputs()
        with at.patch(wait=True, least_gain=1000.0), sdpa_kernel(self.BACKENDS[0]):
            self.assertFalse(self.is_ours(lambda: self.attend(q, k, v)))

    def test_what_is_taken_over_can_be_chosen(self):
        self.tune()
        q, k, v = self.inputs()
        for wanted in (False, True):
            with at.patch(wait=True, least_gain=self.ANY, only=lambda problem: wanted), sdpa_kernel(self.BACKENDS[0]):
                self.assertEqual(self.is_ours(lambda: self.attend(q, k, v)), wanted)

    def test_masks_and_dropout_are_atens(self):
        self.tune()
        q, k, v = self.inputs()
        mask = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16)
        wide = [each.repeat_interleave(4, 1) for each in (k, v)]
        with at.patch(wait=True, least_gain=self.ANY):
            self.assertFalse(self.is_ours(lambda: F.scaled_dot_product_attention(q, *wide, attn_mask=mask)))
            self.assertFalse(self.is_ours(lambda: F.scaled_dot_product_attention(q, *wide, dropout_p=0.5)))

    def test_a_factor_that_is_not_above_0_is_atens(self):
        self.tune()
        q, k, v = self.inputs()
        for scale in (0.0, -0.125):
            with sdpa_kernel(self.BACKENDS[0]), at.patch(wait=True, least_gain=self.ANY):
                self.assertFalse(self.is_ours(lambda: self.attend(q, k, v, scale=scale)))

    def test_a_full_device_is_torchs_own_error(self):
        """Programs look for it, and try again with smaller batches."""
        q = matrix(8, 16, 4096, 64)
        try:
            for backend in (*self.BACKENDS, SDPBackend.EFFICIENT_ATTENTION):
                with self.subTest(backend=backend), sdpa_kernel(backend), at.patch(wait=True, note_misses=True):
                    F.scaled_dot_product_attention(q, q, q)
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
                    _, whole = torch.cuda.mem_get_info()
                    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 20)) / whole)
                    with self.assertRaises(torch.OutOfMemoryError):
                        F.scaled_dot_product_attention(q, q, q)
                    torch.cuda.set_per_process_memory_fraction(1.0)
                    F.scaled_dot_product_attention(q, q, q)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
            at.clear_misses()

    def test_compiled_and_captured(self):
        self.tune()
        q, k, v = self.inputs()
        compiled = torch.compile(lambda *tensors: self.attend(*tensors) * 2, fullgraph=True)
        with torch.no_grad(), at.patch(wait=True, least_gain=self.ANY):
            self.assertTrue(self.is_ours(lambda: compiled(q, k, v)))
            self.attend(q, k, v)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.attend(q, k, v)
            q.copy_(matrix(1, 8, 256, 64, seed=9))
            graph.replay()
            self.assertTrue(torch.equal(out, self.attend(q, k, v)))


class Tuning(Gpu):
    def test_a_models_products_are_found_and_tuned(self):
        model = (
            torch.nn.Sequential(torch.nn.Linear(256, 512, bias=False), torch.nn.ReLU(), torch.nn.Linear(512, 256, bias=False))
            .cuda()
            .bfloat16()
        )
        x = matrix(48, 256)
        report = at.tune(model, (x,), backward=True, budget="2s,12t", rounds=3)
        self.assertEqual(sum(each.calls for each in report.problems), 5)  # the input needs no gradient
        self.assertEqual({item.state for item in report.sweep.items}, {"tuned"})
        self.assertIn("expected gain of a step", str(report))
        self.assertEqual(len(report.records()), len(report.problems))
        for each in report.problems:
            self.assertEqual(at.handle().plan(each.problem).origin, "exact")


    def test_a_models_attention_is_found_and_tuned(self):
        q, k = matrix(1, 8, 256, 64, requires_grad=True), matrix(1, 2, 256, 64, seed=1, requires_grad=True)
        step = lambda: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
        report = at.tune(step, backward=True, budget="5s,12t", rounds=3)
        self.assertEqual(sorted(each.problem.op for each in report.problems), ["attention", "attention_bwd"])
        self.assertLessEqual({item.state for item in report.sweep.items}, {"tuned", "fresh"})
        for each in report.problems:
            self.assertGreater(min(each.torch_us, each.before_us, each.after_us), 0)


SECOND_CONTEXT = """
import ctypes, torch, autotune
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)
a, b = (torch.randn(64, 64, device="cuda", dtype=torch.float16) for _ in range(2))
c = torch.empty_like(a)
expected = (a.double() @ b.double()).cpu()
def is_right(made):
    return ((made.double() - expected).norm() / expected.norm()).item() < 1e-3
problem = autotune.Problem("gemm", dict(a=a, b=b, c=c), dict(beta="zero"))
handle = autotune.Handle()
first = handle.plan(problem)
first.run(a, b, c, scalars=(1.0, 0.0))
assert is_right(c.cpu())
host = [each.cpu() for each in (a, b)]
torch.cuda.synchronize()

device, context, arrays = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(3)]
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
for array in arrays:
    call("cuMemAlloc_v2", ctypes.byref(array), ctypes.c_size_t(64 * 64 * 2))
for array, values in zip(arrays, host):
    call("cuMemcpyHtoD_v2", array, ctypes.c_void_p(values.data_ptr()), ctypes.c_size_t(64 * 64 * 2))
addresses, back = [array.value for array in arrays], torch.zeros(64, 64, dtype=torch.float16)
def run(plan):
    call("cuMemsetD8_v2", arrays[2], 0, ctypes.c_size_t(64 * 64 * 2))
    plan.run(*addresses, scalars=(1.0, 0.0), stream=0)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(back.data_ptr()), arrays[2], ctypes.c_size_t(64 * 64 * 2))
second = handle.plan(problem)
run(second)
assert is_right(back), "a plan of the second context"
try:
    run(first)
    print("a plan of the first context, run in the second: right" if is_right(back) else "wrong")
except autotune.Error as error:
    print("a plan of the first context, run in the second:", type(error).__name__, error)
run(second)
assert is_right(back), "the second context afterwards"
call("cuCtxDestroy_v2", context)
first.run(a, b, c.zero_(), scalars=(1.0, 0.0))
assert is_right(c.cpu()), "the first context afterwards"
print("fine")
"""


class Fresh(unittest.TestCase):
    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_two_contexts_of_one_device(self):
        ended = subprocess.run([sys.executable, "-c", SECOND_CONTEXT], capture_output=True, text=True, env=dict(os.environ))
        self.assertIn("fine", ended.stdout, ended.stderr)
        self.assertNotIn("wrong", ended.stdout)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_a_backward_thread_and_a_new_thread_have_contexts(self):
        code = (
            "import torch, threading, autotune.torch as at\n"
            "a = torch.randn(64, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
            "at.mm(a, a).backward(torch.ones_like(a))\n"
            "b = a.detach()\nout = []\n"
            "t = threading.Thread(target=lambda: out.append(at.mm(b, b.t())))\nt.start(); t.join()\n"
            "assert out and torch.isfinite(out[0]).all() and torch.isfinite(a.grad).all()\nprint('fine')"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
        self.assertIn("fine", ended.stdout, ended.stderr)


warnings.filterwarnings("ignore", message=".*online softmax is disabled.*")

if __name__ == "__main__":
    unittest.main()
