"""The C kernels of the patch, registered at the host's dispatch key in the place of a GPU's; a launch computes on the host."""

import ctypes
import gc
import multiprocessing
import os
import threading
import unittest
import warnings

import torch

from autotune.problem import Problem, Tensor
from autotune import _library
from autotune.torch import _shims
from autotune.torch._engine import tensor_of
from host_plans import HostPlan, scores_of

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_void_p] * 6, ctypes.c_size_t, ctypes.c_void_p
)
CPU = -1  # the index of the host's device


class Plan:
    """Computes a product from its addresses; counts its launches."""

    every = {}

    def __init__(self, a, b, c=None, compute="f32"):
        made = Tensor(tensor_of(a).dtype, (*a.shape[:-1], b.shape[-1])) if c is None else tensor_of(c)
        self.problem = Problem("gemm", {"a": tensor_of(a), "b": tensor_of(b), "c": made}, {"beta": "zero", **({"compute": compute} if made.dtype == "f32" else {})})
        self.number = len(Plan.every) + 1
        self.launches, self.status, self.workspaces = 0, 0, []
        Plan.every[self.number] = self

    def keys(self):
        return _shims.keys_of(self.problem, CPU)

    def run(self, a, b, c, workspace, size):
        self.launches += 1
        self.workspaces.append((workspace or 0, size))
        if self.status == 0:
            arrays = [view(address, self.problem.tensors[name]) for address, name in zip((a, b, c), "abc")]
            with torch.no_grad():
                arrays[2].copy_(arrays[0].double().matmul(arrays[1].double()).to(arrays[2].dtype) + 0)
        return self.status


def view(address, tensor):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[tensor.dtype]
    count = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.strides))
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype).as_strided(tensor.shape, tensor.strides)


@LAUNCH
def launch(plan, alpha, a, b, beta, c, workspace, size, stream):
    assert ctypes.c_float.from_address(alpha).value == 1 and ctypes.c_float.from_address(beta).value == 0
    return Plan.every[plan].run(a, b, c, workspace, size)


RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@RUN
def run(plan, call, stream):
    given = _library.CallStruct.from_address(call)
    scales = [given.scalars[i].value.f32 for i in range(given.scalar_count)]
    return Plan.every[plan].run_described([given.tensors[i] for i in range(given.tensor_count)], *scales)


class Described:
    """The plan of another operation, which host_plans.py computes."""

    def __init__(self, problem):
        self.problem, self.number, self.launches, self.scale = problem, len(Plan.every) + 1, 0, None
        Plan.every[self.number] = self

    def keys(self):
        return _shims.keys_of(self.problem, CPU)

    def run_described(self, addresses, scale=1.0):
        self.launches += 1
        self.scale = scale
        HostPlan(self.problem, scale).launch(*(each or 0 for each in addresses))
        return 0


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def install(*names):
    """Installs the kernels at the host's key, for which aten has no attention operators of these names."""
    return _shims.install(names or _shims.KERNELS, address(launch), address(run), "CPU")


class Shims(unittest.TestCase):
    def setUp(self):
        self.assertEqual(install(), {})
        self.addCleanup(_shims.remove)
        _shims.set_table({})
        _shims.clear_misses()

    def note_misses(self):
        _shims.note_misses(True)
        self.addCleanup(_shims.note_misses, False)

    def serve(self, *plans, **options):
        _shims.set_table({key: _shims.Entry(plan.number, **options) for plan in plans for key in plan.keys()})

    def product(self, batched=False, dtype=torch.bfloat16):
        shape = (3,) if batched else ()
        return torch.randn(*shape, 5, 7, dtype=dtype), torch.randn(*shape, 7, 4, dtype=dtype)


class Left(Shims):
    """Calls that are not in the table."""

    def both(self, call):
        """Returns the results of torch alone and of torch with our kernels."""
        found = call()
        _shims.remove()
        wanted = call()
        install()
        _shims.set_table({})
        return found, wanted

    def check(self, call):
        found, wanted = self.both(call)
        for a, b in zip(found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,)):
            self.assertTrue(torch.equal(a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()))
            self.assertEqual((a.dtype, a.stride(), a.requires_grad), (b.dtype, b.stride(), b.requires_grad))

    def test_layouts_types_and_views(self):
        a, b = self.product(dtype=torch.float32)
        wide = torch.randn(16, 16)
        for x, y in (
            (a, b), (a.t().contiguous().t(), b), (wide[::2, ::2], wide[::2, ::2]), (torch.randn(1, 7).expand(5, 7), b), (a, torch.randn(7, 1).expand(7, 4)),
            (torch.randn(36)[1:].view(5, 7), b), (wide[:5, 3:10], b), (torch.randn(0, 7), b), (a[:, :0], b[:0]), (a[:, :1], b[:1, :1]),
        ):
            self.check(lambda: torch.mm(x, y))
            self.check(lambda: torch.bmm(x[None], y[None]))
        for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.complex64, torch.complex128):
            x, y = (each.to(dtype) for each in self.product())
            self.check(lambda: torch.mm(x, y))

    def test_negative_and_conjugate_views(self):
        x, y = torch.randn(5, 5, dtype=torch.complex64), torch.randn(5, 5)
        negative = x.conj().imag
        self.assertTrue(negative.is_neg())
        self.check(lambda: torch.mm(negative, y))
        self.check(lambda: torch.bmm(y[None], negative[None]))
        self.check(lambda: torch.mm(x.conj(), x.mH))
        self.check(lambda: torch.mm(y, negative, out=torch.empty(5, 5)))

    def test_softmax(self):
        x = torch.randn(3, 5, 7)
        for each in (x, x.bfloat16(), x.mT, x[..., ::2], x[:0], x.expand(2, 3, 5, 7), torch.tensor(1.0), x.double()):
            for dim in (-1, 0):
                self.check(lambda: torch.softmax(each, dim))
        self.check(lambda: torch.softmax(x.bfloat16(), -1, dtype=torch.float32))

    def test_outputs_that_the_caller_has(self):
        a, b = self.product(dtype=torch.float32)
        for make in (lambda: torch.empty(5, 4), lambda: torch.empty(4, 5).t(), lambda: torch.empty(10, 8)[::2, ::2], lambda: torch.empty(21)[1:].view(5, 4)):
            self.check(lambda: torch.mm(a, b, out=make()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check(lambda: torch.mm(a, b, out=torch.empty(0)))
        out = torch.empty(5, 4)
        self.assertIs(torch.mm(a, b, out=out), out)

    def test_errors_are_torchs(self):
        a, b = self.product()
        for call in (
            lambda: torch.mm(a, a), lambda: torch.mm(a, b.double()), lambda: torch.mm(a[None], b), lambda: torch.bmm(a[None], a[None]),
            lambda: torch.bmm(a[None].expand(2, 5, 7), b[None]), lambda: torch.mm(a, b, out=torch.empty(5, 4, dtype=torch.int32)),
            lambda: torch.mm(a, 3), lambda: torch.softmax(a, 5), lambda: torch.softmax(a.int(), 0),
        ):
            messages = []
            for _ in range(2):
                with self.assertRaises((RuntimeError, TypeError, NotImplementedError, IndexError)) as raised:
                    call()
                messages.append((type(raised.exception), str(raised.exception).splitlines()[0]))
                _shims.remove()
            install()
            self.assertEqual(*messages)

    def test_transforms_of_functorch(self):
        a, b = self.product(dtype=torch.float32)
        self.check(lambda: torch.func.vmap(lambda row: torch.mm(row[None], b))(a))
        self.check(lambda: torch.func.grad(lambda x: torch.mm(x, b).sin().sum())(a))
        self.check(lambda: torch.func.jvp(lambda x: torch.mm(x, b), (a,), (torch.ones_like(a),)))
        self.check(lambda: torch.func.hessian(lambda x: torch.mm(x, b).pow(3).sum())(a))
        self.check(lambda: torch.func.functionalize(lambda x: torch.mm(x, b))(a))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, torch.ones_like(a))
            tangent = torch.autograd.forward_ad.unpack_dual(torch.mm(dual, b)).tangent
            self.assertTrue(torch.equal(tangent, torch.ones_like(a) @ b))

    def test_gradients_autocast_inference_and_determinism(self):
        a, b = self.product(dtype=torch.float32)

        def step():
            x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
            z = torch.mm(x, y)
            z.square().sum().backward()
            return z, x.grad, y.grad

        self.check(step)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.check(lambda: torch.mm(a, b))
        with torch.inference_mode():
            self.check(lambda: torch.mm(a, b))
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        self.check(lambda: torch.mm(a, b))

    def test_fake_tensors_subclasses_and_modes(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode

        a, b = self.product(dtype=torch.float32)
        with FakeTensorMode() as mode:
            self.assertEqual(torch.mm(mode.from_tensor(a), mode.from_tensor(b)).shape, (5, 4))
        seen = []

        class Listener(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(function.name())
                return function(*args, **(kwargs or {}))

        with Listener():
            torch.mm(a, b)
        self.assertEqual(seen, ["aten::mm"])

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                seen.append(function.__name__)
                return super().__torch_function__(function, types, args, kwargs or {})

        self.assertIsInstance(torch.mm(a.as_subclass(Own), b), Own)
        self.assertIn("mm", seen)

    def test_compiled_before_and_after(self):
        a, b = self.product(dtype=torch.float32)
        wanted = torch.mm(a, b).relu()
        code = torch.compile(lambda x, y: torch.mm(x, y).relu())
        self.assertTrue(torch.equal(code(a, b), wanted))
        _shims.remove()
        self.assertTrue(torch.equal(code(a, b), wanted))
        install()
        self.assertTrue(torch.equal(code(a, b), wanted))

    def test_misses_are_noted_once_and_are_the_problems(self):
        a, b = self.product(dtype=torch.bfloat16)
        torch.mm(a, b)
        self.assertEqual(_shims.missed_keys(), [])  # nobody asked for missed keys
        self.note_misses()
        for _ in range(3):
            torch.mm(a, b)
            torch.mm(a, b, out=torch.empty(5, 4, dtype=torch.bfloat16))
        torch.bmm(a[None], b[None])
        problems = [_shims.problem_of(key)[0] for key in _shims.missed_keys()]
        self.assertEqual(sorted(problem.tensors["c"].shape for problem in problems), [(1, 5, 4), (5, 4), (5, 4)])
        self.assertEqual(problems[0].tensors["a"].dtype, "bf16")
        _shims.clear_misses()
        self.assertEqual(_shims.missed_keys(), [])

    def test_a_flood_of_shapes_is_bounded(self):
        b = torch.randn(8, 2).bfloat16()
        self.note_misses()
        for rows in range(1, 3000):
            torch.mm(torch.empty(rows, 8, dtype=b.dtype), b)
        self.assertLessEqual(len(_shims.missed_keys()), 2048)
        self.assertGreater(len(_shims.missed_keys()), 1500)

    def test_a_second_installation_adds_kernels(self):
        _shims.remove()
        a, b = self.product()
        plan = Plan(a, b)
        self.assertEqual(install("bmm"), {})
        self.serve(plan)
        torch.mm(a, b)
        self.assertEqual(plan.launches, 0)
        for _ in range(2):
            self.assertEqual(install("mm"), {})
        torch.mm(a, b)
        self.assertEqual(plan.launches, 1)
        self.assertIn("dispatch key", _shims.install(["softmax"], 0, 0, "CUDA")["softmax"])

    def test_sizes_of_the_filter_that_no_entry_has(self):
        a, b = self.product()
        plan = Plan(a, b)
        self.serve(plan)
        for rows in range(1, 200):  # some of these share a bit of the filter with the entry
            x = torch.randn(rows, 7).bfloat16()
            torch.testing.assert_close(torch.mm(x, b), (x.double() @ b.double()).bfloat16())
        self.assertEqual(plan.launches, 1)


class Taken(Shims):
    """Calls that are in the table."""

    def test_products_of_every_layout(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            for batched in (False, True):
                a, b = self.product(batched, dtype)
                for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT)):
                    plan = Plan(x, y)
                    self.serve(plan)
                    call = torch.bmm if batched else torch.mm
                    found = call(x, y)
                    self.assertEqual(plan.launches, 1)
                    torch.testing.assert_close(found, (x.double() @ y.double()).to(dtype))
                    out = torch.empty_like(found)
                    self.assertIs(call(x, y, out=out), out)
                    self.assertEqual(plan.launches, 2)
                    self.assertTrue(torch.equal(out, found))
        self.assertEqual(_shims.missed_keys(), [])

    def test_linear_gradients_and_compiled_code(self):
        x, w = torch.randn(6, 8).bfloat16(), torch.randn(10, 8).bfloat16()
        plan = Plan(x, w.t())
        self.serve(plan)
        torch.nn.functional.linear(x, w)
        self.assertEqual(plan.launches, 1)
        x.requires_grad_()
        torch.nn.functional.linear(x, w).sum().backward()
        self.assertTrue(torch.allclose(x.grad, w.sum(0).expand(6, 8), rtol=2e-2, atol=5e-2))

    def test_other_shapes_strides_types_and_alignments_are_atens(self):
        a, b = self.product()
        plan = Plan(a, b)
        self.serve(plan)
        misaligned = torch.empty(36, dtype=a.dtype)[1:].view(5, 7).copy_(a)
        for x, y in ((a[:4], b), (a.t().contiguous().t(), b), (a.double(), b.double()), (misaligned, b), (a[:, :6], b[:6])):
            torch.testing.assert_close(torch.mm(x, y), (x.double() @ y.double()).to(x.dtype))
        self.assertEqual(plan.launches, 0)
        torch.mm(a, b, out=torch.empty(4, 5, dtype=a.dtype).t())  # an output with another layout
        torch.mm(a, b, out=torch.empty(21, dtype=a.dtype)[1:].view(5, 4))
        self.assertEqual(plan.launches, 0)

    def test_f32_goes_by_torchs_precision(self):
        a, b = self.product(dtype=torch.float32)
        strict, loose = Plan(a, b), Plan(a, b, compute="tf32")
        self.serve(strict, loose)
        self.addCleanup(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        for precision, wanted in (("highest", (1, 0)), ("high", (1, 1))):
            torch.set_float32_matmul_precision(precision)
            torch.mm(a, b)
            self.assertEqual((strict.launches, loose.launches), wanted)

    def test_a_failed_launch_is_atens_and_is_not_tried_again(self):
        a, b = self.product()
        plan = Plan(a, b)
        plan.status = 7
        self.serve(plan)
        before = _shims.counts()[1]
        for _ in range(3):
            torch.testing.assert_close(torch.mm(a, b), (a.double() @ b.double()).to(a.dtype))
        self.assertEqual((plan.launches, _shims.counts()[1] - before), (1, 1))

    def test_what_won_in_graphs_alone_is_atens_in_a_stream(self):
        a, b = self.product()
        plan = Plan(a, b)
        self.serve(plan, in_stream=False)
        torch.mm(a, b)
        self.assertEqual(plan.launches, 0)

    def test_a_workspace_comes_from_torch(self):
        a, b = self.product()
        plan = Plan(a, b)
        self.serve(plan, workspace_bytes=4096)
        torch.mm(a, b)
        ((address, size),) = plan.workspaces
        self.assertEqual(size, 4096)
        self.assertNotEqual(address, 0)

    def test_threads_while_tables_and_kernels_change(self):
        a, b = self.product()
        wanted = (a.double() @ b.double()).to(a.dtype)
        plan, wrong, stop = Plan(a, b), [], threading.Event()

        def work():
            while not stop.is_set():
                if not torch.allclose(torch.mm(a, b), wanted, rtol=2e-2, atol=2e-2):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(64)]
        for each in threads:
            each.start()
        for _ in range(20):
            self.serve(plan)
            _shims.set_table({})
        stop.set()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])

    def test_no_tensor_is_lost(self):
        a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()
        plan = Plan(a, b)
        for serves in (True, False):
            self.serve(*([plan] if serves else []))
            out = torch.empty(64, 64, dtype=a.dtype)
            held = [each._use_count() for each in (a, b, out)]
            for _ in range(50):
                torch.mm(a, b)
                torch.mm(a, b, out=out)
                with self.assertRaises(RuntimeError):
                    torch.mm(a, b[:3])
            self.assertEqual([each._use_count() for each in (a, b, out)], held)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_forked_child_multiplies(self):
        a, b = self.product(dtype=torch.float32)
        wanted = torch.mm(a, b)
        ended = multiprocessing.get_context("fork").Process(target=lambda: os._exit(0 if torch.allclose(torch.mm(a, b), wanted) else 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended.start()
        ended.join(60)
        self.assertEqual(ended.exitcode, 0)


class Others(Shims):
    """Softmax and attention that are in the table."""

    def note_misses(self):
        _shims.note_misses(True)
        self.addCleanup(_shims.note_misses, False)

    def serve(self, *plans):
        strides = {plan: plan.problem.tensors["o"].strides if "o" in plan.problem.tensors else (0, 0, 0, 0) for plan in plans}
        _shims.set_table({key: _shims.Entry(plan.number, strides=strides[plan]) for plan in plans for key in plan.keys()})

    def test_softmax(self):
        for x in (torch.randn(3, 5), torch.randn(2, 3, 4, 5).bfloat16()):
            tensors = {"x": tensor_of(x), "y": Tensor(tensor_of(x).dtype, tuple(x.shape))}
            plan = Described(Problem("softmax", tensors, {"scale": 1.0}))
            self.serve(plan)
            found = torch.softmax(x, -1)
            self.assertEqual(plan.launches, 1)
            torch.testing.assert_close(found, torch.softmax(x.double(), -1).to(x.dtype))
            torch.softmax(x, 0)
            self.assertEqual(plan.launches, 1)

    def attention(self, name, q, k, v, is_causal, with_lse):
        of = _shims._output_strides(name, tensor_of(q), tensor_of(v))
        tensors = {"q": tensor_of(q), "k": tensor_of(k), "v": tensor_of(v), "o": Tensor("bf16", (*q.shape[:3], v.shape[3]), of)}
        if with_lse:
            tensors["lse"] = Tensor("f32", tuple(q.shape[:3]))
        plan = Described(Problem("attention", tensors, {"mask": "causal" if is_causal else "none"}))
        self.serve(plan)
        return plan

    def inputs(self):
        # In memory heads come after the length
        q, k, v = (torch.randn(2, 6, heads, 8).bfloat16().transpose(1, 2) for heads in (4, 2, 2))
        return q, k, v

    def check(self, plan, q, k, v, o, scale, is_causal):
        scores = scores_of(q, k, "causal" if is_causal else "none", scale)
        exact = torch.softmax(scores, -1) @ v.double().repeat_interleave(2, 1)
        torch.testing.assert_close(o.double(), exact, rtol=2e-2, atol=2e-2)
        self.assertEqual(plan.launches, 1)
        self.assertAlmostEqual(plan.scale, scale, places=5)
        return scores

    def test_flash(self):
        for is_causal, scale in ((False, None), (True, 0.25)):
            q, k, v = self.inputs()
            plan = self.attention("flash", q, k, v, is_causal, True)
            found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, False, scale=scale)
            o, lse, cum_q, cum_k, max_q, max_k, state, unused, mask = found
            scores = self.check(plan, q, k, v, o, scale or 8**-0.5, is_causal)
            torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=1e-4, atol=1e-4)
            self.assertEqual((cum_q, cum_k, max_q, max_k), (None, None, 6, 6))
            self.assertEqual((state.dtype, state.shape, unused.shape, mask.shape), (torch.uint64, (2,), (), (0,)))
            self.assertEqual(o.stride(), torch.empty_like(q).stride())

    def test_cudnn(self):
        for with_lse in (False, True):
            q, k, v = self.inputs()
            plan = self.attention("cudnn", q, k, v, True, with_lse)
            found = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, with_lse, 0.0, True, False, scale=0.5)
            scores = self.check(plan, q, k, v, found[0], 0.5, True)
            self.assertEqual((found[1].shape, *found[4:6]), ((2, 4, 6, 1), 6, 6))
            if with_lse:
                torch.testing.assert_close(found[1][..., 0].double(), scores.logsumexp(-1), rtol=1e-4, atol=1e-4)
            self.assertEqual([found[i].dtype for i in (6, 7)], [torch.int64] * 2)

    def test_efficient(self):
        q, k, v = self.inputs()
        plan = self.attention("efficient", q, k, v, False, False)
        o, lse, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False)
        self.check(plan, q, k, v, o, 8**-0.5, False)
        self.assertEqual((lse.shape, seed.dtype, offset.shape), ((2, 4, 0), torch.int64, ()))
        self.assertEqual(o.stride(), (192, 8, 32, 1))

    def test_factors_that_our_kernels_do_not_take_are_atens(self):
        q, k, v = self.inputs()
        flash, cudnn, efficient = (getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention") for name in ("flash", "cudnn", "efficient"))
        for name, with_lse, call in (
            ("flash", True, lambda scale: flash(q, k, v, 0.0, True, False, scale=scale)),
            ("cudnn", True, lambda scale: cudnn(q, k, v, None, True, 0.0, True, False, scale=scale)),
            ("efficient", False, lambda scale: efficient(q, k, v, None, False, 0.0, True, scale=scale)),
        ):
            plan = self.attention(name, q, k, v, True, with_lse)
            for scale in (0.0, -0.5, float("nan"), float("inf"), 1e-60):
                with self.assertRaisesRegex(RuntimeError, "_attention failed"):  # the host has no such kernel
                    call(scale)
            self.assertEqual(plan.launches, 0)
            call(0.5)
            self.assertEqual(plan.launches, 1)

    def test_masks_dropout_and_unequal_lengths_are_atens(self):
        q, k, v = self.inputs()
        plan = self.attention("flash", q, k, v, True, True)
        flash, cudnn = torch.ops.aten._scaled_dot_product_flash_attention, torch.ops.aten._scaled_dot_product_cudnn_attention
        mask = torch.zeros(2, 4, 6, 6).bfloat16()
        for call in (
            lambda: flash(q, k, v, 0.5, True), lambda: flash(q, k, v, 0.0, True, True), lambda: flash(q, k[:, :, :5], v[:, :, :5], 0.0, True),
            lambda: flash(q, k, v, 0.0, False), lambda: cudnn(q, k, v, mask, True, 0.0, True),
        ):
            held = [each._use_count() for each in (q, k, v, mask)]
            with self.assertRaisesRegex(RuntimeError, "_attention failed"):  # the host has no such kernel
                call()
            self.assertEqual([each._use_count() for each in (q, k, v, mask)], held)
        self.assertEqual(plan.launches, 0)


class Missing(unittest.TestCase):
    def test_a_package_without_the_library_says_so(self):
        before, _shims._loaded = _shims._loaded, None
        path, _shims._LIBRARY = _shims._LIBRARY, _shims._LIBRARY.with_name("none.so")
        try:
            self.assertIn("no C kernels", _shims.install(["mm"], 0, 0)["mm"])
        finally:
            _shims._loaded, _shims._LIBRARY = before, path


if __name__ == "__main__":
    unittest.main()
