"""Attention without a GPU: gradients of the operator, and which calls the patch takes over, with plans that compute on the host."""

import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

import autotune.torch as at
from autotune.torch import _attention, _attention_bwd, _contenders, _engine, _sdpa
from autotune.torch._collect import Collector
from host_plans import HostPlan


def inputs(q_len=6, kv_len=6, heads=4, kv_heads=2, size=8, dtype=torch.float32, **options):
    """Queries, keys and values of [batch, heads, length, size]; queries have the layout [batch, length, heads, size]."""
    torch.manual_seed(1)
    q = torch.randn(2, q_len, heads, size, dtype=dtype).transpose(1, 2)
    k, v = (torch.randn(2, kv_heads, kv_len, size, dtype=dtype) for _ in range(2))
    return [each.requires_grad_(options.get("requires_grad", False)) for each in (q, k, v)]


def exact(q, k, v, mask="none", scale=None):
    group = q.shape[1] // k.shape[1]
    offset = {"none": 99, "causal": 0, "causal_bottom_right": k.shape[2] - q.shape[2]}[mask]
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(offset)
    return F.scaled_dot_product_attention(q, *(each.repeat_interleave(group, 1) for each in (k, v)), attn_mask=seen, scale=scale)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


class OnHost(unittest.TestCase):
    """REQUIRES: nothing from CUDA."""

    def setUp(self):
        self.replace(_engine, "is_capturing", lambda index: False)

    def replace(self, *arguments):
        patcher = mock.patch.object(*arguments)
        patcher.start()
        self.addCleanup(patcher.stop)


class Operator(OnHost):
    """autotune::attention, whose CUDA kernels are called for tensors on the host, with plans that compute there."""

    def setUp(self):
        super().setUp()
        self.plans = []
        library = torch.library.Library("autotune", "IMPL")
        self.addCleanup(library._destroy)
        library.impl("attention", _attention._attention_cuda, "CPU", allow_override=True)
        library.impl("attention_bwd", _attention_bwd._attention_bwd_cuda, "CPU", allow_override=True)
        for module in (_attention, _attention_bwd):
            module._plans.clear()
            self.replace(module, "plan_of", lambda problem, index: problem)
            self.replace(module, "Described", self.made)
        self.replace(_attention, "_check", lambda *_: None)

    def made(self, problem, index, count, scalars):
        self.plans.append(HostPlan(problem, scalars[0]))
        return self.plans[-1]

    def test_gradients_come_from_attention_bwd(self):
        for mask, kv_len in (("none", 10), ("causal", 6), ("causal_bottom_right", 10)):
            with self.subTest(mask=mask):
                self.plans.clear()
                tensors = inputs(kv_len=kv_len, requires_grad=True)
                grad = torch.randn(2, 4, 6, 8)
                out = at.attention(*tensors, mask=mask, scale=0.3)
                expected = exact(*tensors, mask, 0.3)
                close(out, expected)
                for mine, theirs in zip(torch.autograd.grad(out, tensors, grad), torch.autograd.grad(expected, tensors, grad)):
                    close(mine, theirs)
                self.assertEqual([plan.problem.op for plan in self.plans], ["attention", "attention_bwd"])
                self.assertEqual([plan.problem.attributes["mask"] for plan in self.plans], [mask, mask])

    def test_gradients_lie_as_their_inputs(self):
        tensors = inputs(requires_grad=True)
        out = at.attention(*tensors)
        self.assertEqual(out.stride(), tensors[0].stride())
        for gradient, tensor in zip(torch.autograd.grad(out.sum(), tensors), tensors):
            self.assertEqual(gradient.stride(), tensor.stride())

    def test_logarithms_are_made_where_they_are_used(self):
        q, k, v = inputs()
        at.attention(q, k, v)
        self.assertNotIn("lse", self.plans[-1].problem.tensors)
        _, lse = at.attention(q, k, v, return_lse=True)
        self.assertIn("lse", self.plans[-1].problem.tensors)
        close(lse, torch.logsumexp(q @ k.repeat_interleave(2, 1).mT / 8**0.5, -1))
        at.attention(*inputs(requires_grad=True))
        self.assertIn("lse", self.plans[-1].problem.tensors)

    def test_the_same_shapes_are_planned_once(self):
        for _ in range(3):
            at.attention(*inputs())
        self.assertEqual([plan.launches for plan in self.plans], [3])

    def test_gradients_without_a_kernel_are_recomputed(self):
        def none(problem, index):
            raise at._attention_bwd.NoKernel("no family")

        self.replace(_attention_bwd, "plan_of", none)
        tensors = inputs(requires_grad=True)
        ours = torch.autograd.grad(at.attention(*tensors).sum(), tensors)
        for mine, theirs in zip(ours, torch.autograd.grad(exact(*tensors).sum(), tensors)):
            close(mine, theirs)
        for gradient, tensor in zip(ours, tensors):
            self.assertEqual(gradient.stride(), tensor.stride())

    def test_a_collector_counts_the_operators(self):
        self.replace(_engine, "handle", lambda: mock.Mock(supports=lambda problem: True))
        tensors = inputs(dtype=torch.bfloat16, requires_grad=True)
        with Collector() as collector:
            at.attention(*tensors, is_causal=True).sum().backward()
            with torch.no_grad():
                at.attention(*tensors)
        counted = [(problem.op, problem.attributes["mask"], "lse" in problem.tensors) for problem in collector.problems]
        self.assertEqual(counted, [("attention", "causal", True), ("attention_bwd", "causal", True), ("attention", "none", False)])
        self.assertEqual(set(collector.problems), {plan.problem for plan in self.plans})

    def test_opcheck(self):
        q, k, v = inputs(requires_grad=True)
        checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(torch.ops.autotune.attention.default, (q, k, v, "causal", 0.125), test_utils=checks)
        o, lse = (each.detach() for each in torch.ops.autotune.attention(q, k, v, "causal", 0.125))
        plain = tuple(each.detach() for each in (q, k, v))
        torch.library.opcheck(torch.ops.autotune.attention_bwd.default, (o, *plain, o, lse, "causal", 0.125), test_utils=checks)

    def test_gradients_have_the_same_bits_where_that_is_asked(self):
        self.addCleanup(torch.use_deterministic_algorithms, False)
        tensors = inputs(requires_grad=True)
        for asked, word in ((False, "any"), (True, "yes")):
            torch.use_deterministic_algorithms(asked)
            at.attention(*tensors).sum().backward()
            self.assertEqual(self.plans[-1].problem.attributes["deterministic"], word)

    def test_a_kernel_that_is_not_deterministic_is_refused_where_that_is_asked(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        at.attention(*inputs())
        self.plans[-1].deterministic = False
        with self.assertRaisesRegex(RuntimeError, "not deterministic"):
            at.attention(*inputs())


class Taken:
    """Replaces the listener of attention: problems of `winners` get plans on the host, and misses are kept."""

    def __init__(self, winners=("attention", "attention_bwd")):
        self.winners, self.plans, self.missed, self.is_faster = winners, [], [], True
        self.least_gain, self._entries, self._lock = 1.0, ({}, {}), mock.MagicMock()

    def entry(self, key, index, make):
        entries, _ = self._entries
        if key not in entries:
            entries[key] = make()
        return entries[key]

    def fall_back(self, name, key, error):
        raise error

    def winner(self, make, ours, theirs):
        entry = make()
        return entry if self.is_faster else None

    def plan(self, make, index):
        problem = make()
        if problem.op not in self.winners:
            self.missed.append(problem)
            return None
        return problem

    def made(self, problem, index, count, scalars):
        self.plans.append(HostPlan(problem, scalars[0]))
        return self.plans[-1]


class Patched(OnHost):
    def setUp(self):
        super().setUp()
        self.patch = Taken()
        self.replace(_sdpa, "Described", lambda *arguments: self.patch.made(*arguments))
        self.original = mock.Mock(return_value="aten")

    def run_override(self, name, *arguments, **options):
        return _sdpa.OVERRIDES[f"_scaled_dot_product_{name}"](self.patch, self.original)("keys", *arguments, **options)

    def assert_atens(self, name, *arguments, **options):
        self.original.reset_mock()
        self.assertEqual(self.run_override(name, *arguments, **options), "aten")
        self.assertEqual(self.original.call_args.args[: 1 + len(arguments)], ("keys", *arguments))
        self.assertEqual(self.patch.plans, [])

    def test_each_of_atens_kernels_is_ours(self):
        q, k, v = inputs()
        for name, arguments in (("flash_attention", ()), ("cudnn_attention", (None, True)), ("efficient_attention", (None, False))):
            for is_causal, mask in ((False, "none"), (True, "causal")):
                with self.subTest(name=name, mask=mask):
                    o, lse, *_ = self.run_override(name, q, k, v, *arguments, 0.0, is_causal)
                    close(o, exact(q, k, v, mask))
                    if lse.numel():
                        wide = k.repeat_interleave(2, 1)
                        scores = q @ wide.mT / 8**0.5
                        seen = torch.ones(6, 6, dtype=torch.bool).tril(0 if is_causal else 99)
                        close(lse.reshape(2, 4, 6), scores.masked_fill(~seen, -torch.inf).logsumexp(-1))
        self.original.assert_not_called()

    def test_results_are_what_atens_fake_kernels_promise(self):
        layouts = {
            "heads outside": lambda: torch.empty(2, 4, 6, 8, device="cuda"),
            "rows outside": lambda: torch.empty(2, 6, 4, 8, device="cuda").transpose(1, 2),
            "part of a fused projection": lambda: torch.empty(2, 6, 12, 8, device="cuda")[:, :, :4].transpose(1, 2),
        }
        calls = (
            ("flash", _sdpa.flash_outputs, ()),
            ("cudnn", _sdpa.cudnn_outputs, (None, True)),
            ("cudnn", _sdpa.cudnn_outputs_without_lse, (None, False)),
            ("efficient", _sdpa.efficient_outputs, (None, False)),
        )
        with FakeTensorMode():
            for layout, make in layouts.items():
                for name, outputs, arguments in calls:
                    for columns in (8, 16) if name == "cudnn" else (8,):
                        with self.subTest(layout=layout, name=name, columns=columns):
                            q, v = make(), torch.empty(2, 4, 6, columns, device="cuda")
                            promised = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")(q, q, v, *arguments)
                            for ours, theirs in zip(outputs(q, v), promised[:2]):
                                self.assertEqual((ours.shape, ours.stride(), ours.dtype), (theirs.shape, theirs.stride(), theirs.dtype))

    def test_calls_that_are_atens(self):
        q, k, v = inputs()
        long = inputs(kv_len=10)
        bias = torch.zeros(6, 6)
        for name, arguments in (
            ("flash_attention", (q, k, v, 0.1)),
            ("flash_attention", (q, k, v, 0.0, False, True)),
            ("flash_attention", (*long, 0.0, True)),
            ("flash_attention", (q.double(), k.double(), v.double())),
            ("flash_attention", (q, k.half(), v)),
            ("flash_attention", (q[..., ::2], k[..., ::2], v[..., ::2])),
            ("flash_attention", (q[:, :3], k, v)),
            ("cudnn_attention", (q, k, v, bias, False)),
            ("cudnn_attention", (q, k, v, None, False, 0.1)),
            ("efficient_attention", (q, k, v, bias, False)),
            ("efficient_attention", (q, k, v, None, True)),
        ):
            with self.subTest(name=name, arguments=[getattr(each, "shape", each) for each in arguments]):
                self.assert_atens(name, *arguments)
        self.assertEqual(self.patch.missed, [])

    def test_is_causal_of_unequal_lengths_is_aligned_at_the_top_left(self):
        q, k, v = inputs(kv_len=10)
        close(self.run_override("cudnn_attention", q, k, v, None, False, 0.0, True)[0], exact(q, k, v, "causal"))

    def test_a_problem_without_a_winner_is_a_miss_and_atens(self):
        self.patch = Taken(winners=())
        self.assert_atens("flash_attention", *inputs())
        self.assertEqual([problem.op for problem in self.patch.missed], ["attention"])
        self.assert_atens("flash_attention", *inputs())
        self.assertEqual(len(self.patch.missed), 1)

    def test_a_winner_that_is_slower_than_atens_kernel_is_not_taken(self):
        self.patch.is_faster = False
        self.assertEqual(self.run_override("flash_attention", *inputs()), "aten")
        self.assertEqual(len(self.patch.plans), 1)
        self.assertEqual(self.run_override("flash_attention", *inputs()), "aten")
        self.assertEqual(len(self.patch.plans), 1)

    def test_a_winner_for_a_scale_serves_that_scale(self):
        q, k, v = inputs()
        for scale in (0.5, 0.25):
            close(self.run_override("flash_attention", q, k, v, scale=scale)[0], exact(q, k, v, scale=scale))

    def backward_arguments(self, name, q, k, v, grad, is_causal=False, dropout=0.0):
        forward = ("flash_attention", ()) if name == "flash" else ("cudnn_attention", (None, True))
        o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = self.run_override(forward[0], q, k, v, *forward[1], 0.0, is_causal)
        if name == "flash":
            return grad, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, dropout, is_causal, seed, offset
        return grad, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, dropout, is_causal

    def test_gradients_are_ours(self):
        tensors = inputs(requires_grad=True)
        plain = [each.detach() for each in tensors]
        grad = torch.randn(2, 4, 6, 8)
        for name in ("flash", "cudnn"):
            for is_causal, mask in ((False, "none"), (True, "causal")):
                with self.subTest(name=name, mask=mask):
                    ours = self.run_override(f"{name}_attention_backward", *self.backward_arguments(name, *plain, grad, is_causal))
                    for mine, theirs in zip(ours, torch.autograd.grad(exact(*tensors, mask), tensors, grad)):
                        close(mine, theirs)
                    for gradient, tensor in zip(ours, plain):
                        self.assertEqual(gradient.stride(), tensor.stride())
        self.original.assert_not_called()

    def test_gradients_without_a_winner_are_atens(self):
        self.patch = Taken(winners=("attention",))
        plain, grad = inputs(), torch.randn(2, 4, 6, 8)
        for name in ("flash", "cudnn"):
            arguments = self.backward_arguments(name, *plain, grad)
            self.assertEqual(self.run_override(f"{name}_attention_backward", *arguments), "aten")
            self.assertEqual(self.original.call_args.args, ("keys", *arguments))
        self.assertEqual([problem.op for problem in self.patch.missed], ["attention_bwd"])


class Dispatched(OnHost):
    """The overrides, registered as kernels for tensors on the host and called by torch's dispatcher and by aten's own formulas
    for gradients.
    """

    def setUp(self):
        super().setUp()
        self.patch = Taken()
        self.replace(_sdpa, "Described", lambda *arguments: self.patch.made(*arguments))
        library = torch.library.Library("aten", "IMPL")
        self.addCleanup(library._destroy)
        for name, make in _sdpa.OVERRIDES.items():
            library.impl(name, make(self.patch, mock.Mock(side_effect=AssertionError("not taken over"))), "CPU", with_keyset=True)

    def test_gradients_by_atens_formulas(self):
        tensors = inputs(requires_grad=True)
        grad = torch.randn(2, 4, 6, 8)
        for name, arguments in (("flash", ()), ("cudnn", (None, True))):
            for is_causal, mask in ((False, "none"), (True, "causal")):
                with self.subTest(name=name, mask=mask):
                    out = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")(*tensors, *arguments, is_causal=is_causal)
                    self.assertEqual(out[4:6], (6, 6))
                    expected = exact(*tensors, mask)
                    close(out[0], expected)
                    for mine, theirs in zip(torch.autograd.grad(out[0], tensors, grad), torch.autograd.grad(expected, tensors, grad)):
                        close(mine, theirs)
        self.assertEqual({plan.problem.op for plan in self.patch.plans}, {"attention", "attention_bwd"})

    def test_a_collector_counts_what_runs(self):
        self.replace(_engine, "handle", lambda: mock.Mock(supports=lambda problem: True))
        tensors = inputs(dtype=torch.bfloat16, requires_grad=True)
        with Collector() as collector:
            for _ in range(2):
                torch.ops.aten._scaled_dot_product_flash_attention(*tensors)[0].sum().backward()
        self.assertEqual([(problem.op, count) for problem, count in collector.problems.items()], [("attention", 2), ("attention_bwd", 2)])
        self.assertEqual(set(collector.problems), {plan.problem for plan in self.patch.plans})

    def test_torchs_function_and_ours_run_the_same_problem(self):
        self.replace(_contenders, "plan_of", lambda problem, index: problem)
        self.replace(_contenders, "Described", lambda *arguments: self.patch.made(*arguments))
        for mask in ("none", "causal", "causal_bottom_right"):
            for with_lse in (False, True):
                with self.subTest(mask=mask, with_lse=with_lse):
                    runs = _contenders.contenders(_attention.problem_of(*inputs(kv_len=10), mask, with_lse), torch.device("cpu"))
                    close(runs["ours"](), runs["torch"]())
        q, k, v = inputs(dtype=torch.bfloat16)
        problem = _attention_bwd.backward_problem(q, k, v, q, q, "causal")
        self.assertTrue(_contenders.has_rival(problem))
        runs = _contenders.contenders(problem, torch.device("cpu"))
        for ours, theirs in zip(runs["ours"](), runs["torch"]()):
            self.assertTrue(torch.equal(ours, theirs))

    def test_inference_by_each_kernel(self):
        q, k, v = inputs()
        for name, arguments in (("flash", ()), ("cudnn", (None, False)), ("efficient", (None, False))):
            with torch.inference_mode(), self.subTest(name=name):
                out = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")(q, k, v, *arguments, scale=0.3)
                close(out[0], exact(q, k, v, scale=0.3))


if __name__ == "__main__":
    unittest.main()
