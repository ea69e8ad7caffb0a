"""What torch sees of the operators without a GPU: shapes, strides, gradients' graphs, compilation on fake tensors, refusals."""

import contextlib
import dataclasses
import importlib.util
import io
import os
import pathlib
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import autotune
import autotune.torch as at
from autotune import Problem, Tensor
from autotune.handle import PlanInfo
from autotune.torch import _engine
from autotune.torch._engine import refuse_inputs
from autotune.torch._scaled import _check_epilogue


class Fake(unittest.TestCase):
    def setUp(self):
        mode = FakeTensorMode()
        mode.__enter__()
        self.addCleanup(mode.__exit__, None, None, None)

    def cuda(self, *shape, dtype=torch.bfloat16, **options):
        return torch.empty(*shape, dtype=dtype, device="cuda", **options)

    def test_shapes_and_strides(self):
        a, b = self.cuda(4, 8), self.cuda(16, 8).t()
        for got, expected in (
            (at.mm(a, b), torch.mm(a, b)),
            (at.bmm(self.cuda(3, 4, 8), self.cuda(3, 8, 5)), torch.bmm(self.cuda(3, 4, 8), self.cuda(3, 8, 5))),
            (at.linear(self.cuda(2, 3, 8), self.cuda(16, 8)), torch.nn.functional.linear(self.cuda(2, 3, 8), self.cuda(16, 8))),
            (at.linear(self.cuda(2, 3, 8), self.cuda(16, 8), self.cuda(16)), torch.empty(2, 3, 16, dtype=torch.bfloat16, device="cuda")),
            (at.addmm(self.cuda(16), a, b), torch.addmm(self.cuda(16), a, b)),
            (at.softmax(self.cuda(2, 3, 8)), torch.softmax(self.cuda(2, 3, 8), -1)),
            (at.softmax(self.cuda(2, 3, 8), 1), torch.softmax(self.cuda(2, 3, 8), 1)),
        ):
            self.assertEqual((got.shape, got.dtype, got.device), (expected.shape, expected.dtype, expected.device))
        self.assertEqual(at.mm(a, b).stride(), (16, 1))

    def test_scaled_products_have_the_type_asked_for(self):
        a, b = self.cuda(4, 32, dtype=torch.float8_e4m3fn), self.cuda(8, 32, dtype=torch.float8_e4m3fn).t()
        one = self.cuda(1, dtype=torch.float32)
        self.assertEqual(at.scaled_mm(a, b, one, one).dtype, torch.bfloat16)
        got = at.scaled_mm(a, b, self.cuda(4, 1, dtype=torch.float32), self.cuda(1, 8, dtype=torch.float32), torch.float16)
        self.assertEqual((tuple(got.shape), got.dtype), ((4, 8), torch.float16))
        amax, bias = self.cuda(1, dtype=torch.float32), self.cuda(8)
        got = at.scaled_mm(a, b, one, one, torch.float8_e4m3fn, bias=bias, scale_result=one, amax=amax)
        self.assertEqual((tuple(got.shape), got.dtype), ((4, 8), torch.float8_e4m3fn))

    def test_epilogues_of_scaled_products_that_do_not_fit(self):
        one, two = self.cuda(1, dtype=torch.float32), self.cuda(2, dtype=torch.float32)
        for out, epilogue, message in (
            (torch.bfloat16, (self.cuda(7), None, None), "one element a column of b, here 8"),
            (torch.bfloat16, (self.cuda(8, dtype=torch.float8_e5m2), None, None), "the bias is torch.float8_e5m2"),
            (torch.bfloat16, (None, one, None), "out_dtype is torch.bfloat16; leave it out"),
            (torch.float8_e4m3fn, (None, two, None), "scale_result is"),
            (torch.bfloat16, (None, None, two), "amax is"),
            (torch.bfloat16, (None, None, self.cuda(1)), "one element of torch.float32"),
        ):
            with self.assertRaisesRegex(autotune.InvalidArgument, message):
                _check_epilogue(8, out, epilogue)

    def test_attention_lies_as_its_queries_do(self):
        q = self.cuda(2, 128, 8, 64).transpose(1, 2)
        k, v = self.cuda(2, 2, 96, 64), self.cuda(2, 2, 96, 64)
        o, lse = at.attention(q, k, v, return_lse=True)
        self.assertEqual((o.shape, o.stride()), (q.shape, q.stride()))
        self.assertEqual((tuple(lse.shape), lse.dtype), ((2, 8, 128), torch.float32))

    def test_gradients_have_their_inputs_shapes(self):
        x, w, bias = (torch.empty(*shape, device="meta", requires_grad=True) for shape in ((2, 3, 8), (16, 8), (16,)))
        at.linear(x, w, bias).sum().backward()
        self.assertEqual((x.grad.shape, w.grad.shape, bias.grad.shape), (x.shape, w.shape, bias.shape))

    def test_gradients_of_products_lie_as_their_inputs(self):
        stored = [torch.empty(*shape, device="meta", requires_grad=True) for shape in ((4, 8), (16, 8), (2, 4, 8), (2, 16, 8))]
        x, w, batch, weights = stored
        total = at.linear(x, w).sum() + at.mm(x, w.t()).sum() + at.mm(w, x.t()).sum() + at.bmm(batch, weights.mT).sum()
        seen = []
        for each in stored:
            each.register_hook(lambda gradient: seen.append(gradient.is_contiguous()))
        total.backward()
        self.assertEqual(seen, [True] * len(stored))

    def test_shapes_that_do_not_fit(self):
        with self.assertRaisesRegex(Exception, "cannot be multiplied"):
            at.mm(self.cuda(4, 8), self.cuda(9, 4))

    def test_mixed_dtypes(self):
        with self.assertRaisesRegex(Exception, "dtypes are"):
            at.mm(self.cuda(4, 8), self.cuda(8, 4, dtype=torch.float16))


class Traced(unittest.TestCase):
    def test_a_layer_and_its_gradients_are_our_products(self):
        def step(x, w):
            return torch.autograd.grad(at.linear(x, w).float().sum(), (x, w))

        x = torch.empty(4, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
        w = torch.empty(16, 8, dtype=torch.bfloat16, device="meta", requires_grad=True)
        graph = make_fx(step)(x, w)
        targets = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        self.assertEqual(targets.count("autotune.mm.default"), 3, targets)
        layouts = [
            "".join("t" if operand.meta["val"].stride(0) == 1 else "n" for operand in node.args)
            for node in graph.graph.nodes
            if str(node.target) == "autotune.mm.default"
        ]
        self.assertEqual(sorted(layouts), ["nn", "nt", "tn"])
        self.assertFalse([target for target in targets if target.startswith("aten.mm")])

    def test_compile_finds_no_graph_break(self):
        seen = []

        def backend(graph, inputs):
            seen.append([str(node.target) for node in graph.graph.nodes])
            return graph.forward

        def layer(x, w):
            return at.softmax(at.linear(x, w).relu())

        with FakeTensorMode(), torch.no_grad():
            x = torch.empty(4, 8, dtype=torch.bfloat16, device="cuda")
            w = torch.empty(16, 8, dtype=torch.bfloat16, device="cuda")
            out = torch.compile(layer, backend=backend, fullgraph=True)(x, w)
        self.assertEqual(tuple(out.shape), (4, 16))
        self.assertEqual(len(seen), 1)


    def test_attention_is_one_operator_forward_and_one_backward(self):
        graphs = []

        def keep(graph, inputs):
            graphs.append([str(node.target) for node in graph.graph.nodes if str(node.target).startswith("autotune.")])
            return make_boxed_func(graph.forward)

        q, k = (torch.empty(2, heads, 96, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for heads in (8, 2))
        backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
        out = torch.compile(lambda q, k: at.attention(q, k, k, is_causal=True), backend=backend, fullgraph=True)(q, k)
        out.sum().backward()
        self.assertEqual((q.grad.stride(), k.grad.stride()), (q.stride(), k.stride()))
        self.assertEqual(graphs, [["autotune.attention.default"], ["autotune.attention_bwd.default"]])


class Recomputed(unittest.TestCase):
    def test_gradients_of_attention_are_autograds(self):
        from autotune.torch._by_torch import attention_bwd as recomputed_backward

        for mask, offset in (("none", 99), ("causal", 0), ("causal_bottom_right", 4)):
            with self.subTest(mask=mask):
                q, k, v = (torch.randn(2, heads, length, 8, requires_grad=True) for heads, length in ((4, 6), (2, 10), (2, 10)))
                grad = torch.randn(2, 4, 6, 8)
                wide = [each.repeat_interleave(2, 1) for each in (k, v)]
                seen = torch.ones(6, 10, dtype=torch.bool).tril(offset)
                out = torch.nn.functional.scaled_dot_product_attention(q, *wide, attn_mask=seen, scale=0.3)
                for mine, exact in zip(recomputed_backward(grad, (q, k, v), mask, 0.3), torch.autograd.grad(out, (q, k, v), grad)):
                    torch.testing.assert_close(mine, exact, atol=1e-5, rtol=1e-4)


class Example(unittest.TestCase):
    """llama_block.py on tensors without data: its steps run without computing."""

    def block(self):
        path = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "llama_block.py"
        spec = importlib.util.spec_from_file_location("llama_block", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def time_us(self, run):
        run()
        return 1.0

    def test_a_training_step_runs_in_every_round(self):
        block, results = self.block(), []
        with (
            FakeTensorMode(),
            mock.patch.object(at, "time_us", self.time_us),
            mock.patch.object(torch.Tensor, "backward"),  # autograd needs a device
            contextlib.redirect_stdout(io.StringIO()),
        ):
            block.training(mock.Mock(tune=None, apart=True, compile=False, rounds=4), results, tokens=64)
        case = "training 64, 4 blocks"
        self.assertEqual([(each["case"], each["gain"]) for each in results], [(case, 1.0), (f"{case}, products", 1.0), (f"{case}, attention", 1.0)])


class Refusals(unittest.TestCase):
    def test_tensors_of_the_host(self):
        for call in (
            lambda: at.mm(torch.ones(2, 2), torch.ones(2, 2)),
            lambda: at.softmax(torch.ones(2, 2)),
            lambda: at.linear(torch.ones(2, 2), torch.ones(2, 2)),
            lambda: at.bmm(torch.ones(2, 2, 2), torch.ones(2, 2, 2)),
            lambda: at.addmm(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2)),
            lambda: at.attention(*[torch.ones(1, 2, 8, 8)] * 3),
        ):
            with self.assertRaisesRegex(TypeError, r"a tensor is on cpu; move it to a GPU: \.cuda\(\)"):
                call()

    def test_tensors_of_two_devices(self):
        tensors = [mock.Mock(layout=torch.strided, dtype=torch.float16, device=torch.device("cuda", index)) for index in (0, 1)]
        with self.assertRaisesRegex(TypeError, "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1! .*move them to one device"):
            refuse_inputs("mm", *tensors)

    def test_an_old_torch(self):
        import subprocess
        import sys

        code = "import torch; torch.__version__ = '2.4.1'\ntry: import autotune.torch\nexcept ImportError as e: print(e)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("needs PyTorch 2.8 or newer; this is 2.4.1", said.stdout, said.stderr)

    def test_inductor_without_its_setting(self):
        import torch._inductor.config as config

        with (
            mock.patch.object(config, "external_matmul", None),
            self.assertRaisesRegex(RuntimeError, "has no torch._inductor.config.external_matmul"),
        ):
            at.enable_inductor()
        at.enable_inductor()
        at.enable_inductor()
        self.assertEqual(config.external_matmul.count(at.autotune_mm), 1)
        at.disable_inductor()
        self.assertEqual(config.external_matmul, [])

    def test_an_outdated_plan_is_made_again_outside_of_captures(self):
        class Planned:
            def __init__(self, is_outdated):
                self.plan = mock.Mock(is_outdated=is_outdated)

        cache = _engine.Cache()
        self.addCleanup(_engine._caches.remove, cache)
        old, good = cache.keep(("old",), Planned(True)), cache.keep(("good",), Planned(False))
        cache.keep(("none",), None)
        cache.set_outdated_aside()
        self.assertEqual(dict(cache), {("good",): good, ("none",): None})
        with mock.patch.object(_engine, "is_capturing", return_value=False):
            self.assertIsNone(cache.during_capture(("old",), 0))
        with mock.patch.object(_engine, "is_capturing", return_value=True):
            self.assertIs(cache.during_capture(("old",), 0), old)
            self.assertIsNone(cache.during_capture(("good",), 0))
            new = cache.keep(("old",), Planned(False))
            self.assertIsNone(cache.during_capture(("old",), 0))
        self.assertIs(cache[("old",)], new)


if __name__ == "__main__":
    unittest.main()
