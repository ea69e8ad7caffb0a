"""What torch does to tensors and calls: views with another sign, transforms, forward-mode gradients, subclasses. Answers are torch's own."""

import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

import autotune.torch as at
from autotune.torch import _by_torch, _guards, _register
from host_plans import operators_on_host


def attend(q, k, v, is_causal=False, scale=8**-0.5):
    """Attention from plain operations, all of which torch can differentiate in every way."""
    k, v = (each.unsqueeze(2).expand(2, 2, 2, k.shape[2], 8).reshape(2, 4, k.shape[2], 8) for each in (k, v))
    scores = q @ k.mT * scale
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return torch.softmax(scores, -1) @ v


def tensors(*shapes, seed=1, **options):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator).requires_grad_(options.get("requires_grad", False)) for shape in shapes]


# For each name: our function, torch's function, shapes of the arguments.
CALLS = {
    "mm": (at.mm, torch.mm, ((4, 6), (6, 5))),
    "mm of a transposed one": (lambda a, b: at.mm(a, b.t()), lambda a, b: a @ b.t(), ((4, 6), (5, 6))),
    "bmm": (at.bmm, torch.bmm, ((3, 4, 6), (3, 6, 5))),
    "linear": (at.linear, F.linear, ((2, 3, 6), (5, 6), (5,))),
    "addmm": (
        lambda c, a, b: at.addmm(c, a, b, beta=0.5, alpha=2),
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        ((5,), (4, 6), (6, 5)),
    ),
    "softmax": (lambda x: at.softmax(x, scale=0.5), lambda x: torch.softmax(x * 0.5, -1), ((3, 7),)),
    "softmax of columns": (lambda x: at.softmax(x, 0), lambda x: torch.softmax(x, 0), ((3, 7),)),
    "attention": (at.attention, attend, ((2, 4, 6, 8), (2, 2, 7, 8), (2, 2, 7, 8))),
    "causal attention": (
        lambda q, k, v: at.attention(q, k, v, is_causal=True, scale=0.3),
        lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3),
        ((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8)),
    ),
    "the operator mm": (torch.ops.autotune.mm, torch.mm, ((4, 6), (6, 5))),
    "the operator bmm": (torch.ops.autotune.bmm, torch.bmm, ((3, 4, 6), (3, 6, 5))),
    "the operator linear": (torch.ops.autotune.linear, F.linear, ((2, 3, 6), (5, 6), (5,))),
    "the operator softmax": (lambda x: torch.ops.autotune.softmax(x, 0.5), lambda x: torch.softmax(x * 0.5, -1), ((3, 7),)),
    "the operator attention": (
        lambda q, k, v: torch.ops.autotune.attention(q, k, v, "none", 0.3)[0],
        lambda q, k, v: attend(q, k, v, scale=0.3),
        ((2, 4, 6, 8), (2, 2, 7, 8), (2, 2, 7, 8)),
    ),
}


class OnHost(unittest.TestCase):
    def setUp(self):
        context = operators_on_host()
        self.plans = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        self.addCleanup(warnings.resetwarnings)
        warnings.simplefilter("ignore")

    def close(self, ours, theirs):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)

    def each_call(self, check):
        for name, (ours, theirs, shapes) in CALLS.items():
            with self.subTest(name):
                check(ours, theirs, tensors(*shapes))

    def compare(self, transform):
        """Compares both results for each call, transformed in the same way."""
        self.each_call(lambda ours, theirs, arguments: self.close(transform(ours, arguments), transform(theirs, arguments)))


class Views(OnHost):
    def test_plain_tensors_run_our_kernels(self):
        for name, count in (("mm", 1), ("bmm", 1), ("linear", 1), ("addmm", 0), ("softmax", 1), ("attention", 1)):
            ours, theirs, shapes = CALLS[name]
            self.plans.clear()
            self.close(ours(*tensors(*shapes)), theirs(*tensors(*shapes)))
            self.assertEqual([plan.launches for plan in self.plans], [1] * count, name)  # addmm uses the plan of mm

    def test_negative_views(self):
        self.compare(lambda call, arguments: call(*(torch._neg_view(each) for each in arguments)))

    def test_imaginary_parts_of_conjugates(self):
        self.compare(lambda call, arguments: call(*(torch.complex(each, each).conj().imag for each in arguments)))

    def test_one_negative_view(self):
        self.compare(lambda call, arguments: call(*arguments[:-1], torch._neg_view(arguments[-1])))

    def test_zero_tensors(self):
        self.compare(lambda call, arguments: call(torch._efficientzerotensor(arguments[0].shape), *arguments[1:]))
        self.compare(lambda call, arguments: call(*arguments[:-1], torch._efficientzerotensor(arguments[-1].shape)))

    def test_expanded_and_strided_ones(self):
        self.compare(lambda call, arguments: call(*(each[..., :1].expand(each.shape) for each in arguments)))
        self.compare(lambda call, arguments: call(*(torch.stack([each, -each], -1)[..., 0] for each in arguments)))

    def test_one_element_that_is_repeated(self):
        """All strides are 0, which the C interface would treat as dense."""
        self.compare(lambda call, arguments: call(*(each.flatten()[0].expand(each.shape) for each in arguments)))
        self.compare(lambda call, arguments: call(*arguments[:-1], arguments[-1].flatten()[0].expand(arguments[-1].shape)))
        one = torch.tensor(0.5)
        for rows, inner, cols in ((4, 1, 5), (1, 6, 1), (4, 6, 1), (1, 1, 5), (1, 1, 1)):
            a, b = one.expand(rows, inner), one.expand(inner, cols)
            self.close(at.mm(a, b), a @ b)
            self.close(at.bmm(a.expand(3, rows, inner), b.expand(3, inner, cols)), (a @ b).expand(3, rows, cols))
        for shape in ((3,), (3, 1), (1, 3), (2, 3, 4)):
            self.close(at.softmax(one.expand(shape)), torch.softmax(one.expand(shape), -1))
        self.assertTrue(self.plans)

    def test_lazy_copies(self):
        self.compare(lambda call, arguments: call(*(torch._lazy_clone(each) for each in arguments)))


class Transforms(OnHost):
    def test_vmap(self):
        for many in (0, -1):
            self.compare(
                lambda call, arguments: torch.vmap(call, in_dims=many)(*(torch.stack([each, 2 * each, -each], many) for each in arguments))
            )

    def test_vmap_of_one_argument(self):
        self.compare(
            lambda call, arguments: torch.vmap(lambda each: call(each, *arguments[1:]))(torch.stack([arguments[0], 2 * arguments[0]]))
        )

    def test_grad_and_vjp(self):
        self.compare(lambda call, arguments: torch.func.grad(lambda *given: call(*given).sin().sum(), tuple(range(len(arguments))))(*arguments))
        self.compare(lambda call, arguments: torch.func.vjp(call, *arguments)[1](torch.ones_like(call(*arguments))))

    def test_jvp(self):
        self.compare(lambda call, arguments: torch.func.jvp(call, tuple(arguments), tuple(each.cos() for each in arguments)))

    def test_linearize(self):
        self.compare(lambda call, arguments: torch.func.linearize(call, *arguments)[1](*(each.cos() for each in arguments)))

    def test_jacobians_and_hessians(self):
        self.compare(lambda call, arguments: torch.func.jacrev(call)(*arguments))
        self.compare(lambda call, arguments: torch.func.jacfwd(call)(*arguments))
        self.compare(lambda call, arguments: torch.func.hessian(lambda *given: (call(*given) ** 2).sum())(*arguments))

    def test_functionalize(self):
        self.compare(lambda call, arguments: torch.func.functionalize(call)(*arguments))

    def test_grad_for_each_sample(self):
        self.compare(
            lambda call, arguments: torch.vmap(torch.func.grad(lambda each: call(each, *arguments[1:]).sum()))(
                torch.stack([arguments[0], 2 * arguments[0]])
            )
        )

    def test_forward_mode(self):
        def run(call, arguments):
            with forward_ad.dual_level():
                result = call(*(forward_ad.make_dual(each, each.cos()) for each in arguments))
                return tuple(forward_ad.unpack_dual(result))

        self.compare(run)

    def test_forward_mode_of_one_argument(self):
        def run(call, arguments):
            with forward_ad.dual_level():
                result = call(*arguments[:-1], forward_ad.make_dual(arguments[-1], torch.ones_like(arguments[-1])))
                return tuple(forward_ad.unpack_dual(result))

        self.compare(run)

    def test_forward_over_reverse(self):
        def run(call, arguments):
            given = [each.clone().requires_grad_() for each in arguments]
            with forward_ad.dual_level():
                first = forward_ad.make_dual(given[0], torch.ones_like(given[0]))
                (gradient,) = torch.autograd.grad((call(first, *given[1:]) ** 2).sum(), given[:1], create_graph=True)
                return forward_ad.unpack_dual(gradient).tangent

        self.compare(run)

    def test_without_tangents_a_dual_level_changes_nothing(self):
        a, b = tensors((4, 6), (6, 5))
        with forward_ad.dual_level():
            self.close(at.mm(a, b), a @ b)
        self.assertEqual(len(self.plans), 1)

    def test_compiled(self):
        for name in ("mm", "softmax", "attention"):
            ours, theirs, shapes = CALLS[name]
            arguments = tuple(tensors(*shapes))
            for transform in (
                lambda call: torch.func.jvp(call, arguments, arguments)[1],
                lambda call: torch.func.grad(lambda each: call(each, *arguments[1:]).sum())(arguments[0]),
                lambda call: torch.vmap(call)(*(torch.stack([each, -each]) for each in arguments)),
            ):
                torch._dynamo.reset()
                with self.subTest(name):
                    self.close(torch.compile(lambda: transform(ours), backend="aot_eager", fullgraph=True)(), transform(theirs))


class Traced(OnHost):
    def test_a_trace_has_the_operator_and_answers_for_other_tensors(self):
        for name in ("mm", "bmm", "linear", "softmax", "attention"):
            ours, theirs, shapes = CALLS[name]
            with self.subTest(name):
                traced = torch.jit.trace(ours, tuple(tensors(*shapes)), check_trace=False)
                others = tensors(*shapes, seed=7)
                self.close(traced(*others), theirs(*others))
                self.assertIn("autotune::", str(traced.graph))

    def test_a_symbolic_trace_has_the_operator(self):
        graph = torch.fx.symbolic_trace(lambda a, b: at.mm(a, b))
        self.assertIn("autotune.mm", str(graph.graph))
        a, b = tensors((4, 6), (6, 5))
        self.close(graph(a, b), a @ b)


class Gradients(OnHost):
    def test_gradients_and_second_ones(self):
        def check(ours, theirs, arguments):
            given = [each.requires_grad_() for each in arguments]
            found = []
            for call in (ours, theirs):
                first = torch.autograd.grad((call(*given) ** 2).sum(), given, create_graph=True)
                found.append((first, torch.autograd.grad(sum(each.sin().sum() for each in first), given)))
            torch.testing.assert_close(*found, atol=1e-4, rtol=1e-3)

        self.each_call(check)

    def test_gradients_of_sums(self):
        """The incoming gradient is one element that is repeated."""

        def check(ours, theirs, arguments):
            given = [each.requires_grad_() for each in arguments]
            self.close(*(torch.autograd.grad(call(*given).sum(), given) for call in (ours, theirs)))

        self.each_call(check)

    def test_gradients_of_logarithms(self):
        q, k, v = tensors((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8), requires_grad=True)
        o, lse = at.attention(q, k, v, scale=0.3, return_lse=True)
        scores = q @ k.repeat_interleave(2, 1).mT * 0.3
        exact = (scores.softmax(-1) @ v.repeat_interleave(2, 1)), scores.logsumexp(-1)
        for weights in ((1, 0), (0, 1), (1, 1)):
            totals = [sum(weight * (each.cos()).sum() for weight, each in zip(weights, pair) if weight) for pair in ((o, lse), exact)]
            of_inputs = (q, k, v) if weights[0] else (q, k)
            self.close(*(torch.autograd.grad(total, of_inputs, retain_graph=True) for total in totals))

    def test_rows_without_keys(self):
        q, k, v = tensors((1, 2, 9, 8), (1, 2, 4, 8), (1, 2, 4, 8), requires_grad=True)
        o, lse = at.attention(q, k, v, mask="causal_bottom_right", return_lse=True)
        self.assertTrue(torch.equal(o[:, :, :5], torch.zeros(1, 2, 5, 8)))
        self.assertTrue((lse[:, :, :5] == -torch.inf).all())
        for gradient in torch.autograd.grad(o.sum(), (q, k, v), retain_graph=True):
            self.assertTrue(gradient.isfinite().all())
        by_torch = _by_torch.attention(q, k, v, "causal_bottom_right", 8**-0.5)
        self.close((o, lse), by_torch)
        for gradient in torch.autograd.grad(by_torch[0].sum(), (q, k, v)):
            self.assertTrue(gradient.isfinite().all())

    def test_a_scaled_product_has_no_gradients_and_says_so(self):
        a, b = (each.to(torch.float8_e4m3fn) for each in tensors((4, 32), (32, 8)))
        one = torch.ones(1, requires_grad=True)
        library = torch.library.Library("autotune", "IMPL")
        self.addCleanup(library._destroy)
        library.impl("scaled_mm", _by_torch.scaled_mm, "CPU", allow_override=True)
        result = at.scaled_mm(a, b, one, one)
        with self.assertRaisesRegex(RuntimeError, "scaled_mm has no gradients; compute it under torch.no_grad"):
            result.float().sum().backward()

    def test_a_scaled_product_under_a_transform(self):
        a, b = (each.to(torch.float8_e4m3fn) for each in tensors((3, 4, 32), (32, 8)))
        scale, rows, columns = torch.tensor([0.5]), torch.rand(4, 1) + 1, torch.rand(1, 8) + 1
        run = lambda one: at.scaled_mm(one, b, rows, columns, torch.float32)
        self.close(torch.vmap(run)(a), (a.float() * rows) @ (b.float() * columns))
        by_scale = lambda s: at.scaled_mm(a[0], b, s, scale, torch.float32).sum()
        self.close(torch.func.jacfwd(by_scale)(scale), torch.func.jacrev(lambda s: ((a[0].float() @ b.float()) * s * scale).sum())(scale))
        amax = torch.zeros(1)
        got = _by_torch.scaled_mm(a[0], b, scale, scale, torch.float8_e4m3fn, False, torch.ones(8), torch.tensor([1000.0]), amax)
        self.assertEqual(got.float().abs().max(), 448)
        self.close(amax, ((a[0].float() @ b.float()) / 4 + 1).abs().max().reshape(1))


class Table(torch.Tensor):
    """A subclass that handles torch's functions, but not ours."""

    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function)
        if "autotune" in repr(function):
            return NotImplemented
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """A tensor whose values are elsewhere, like DTensor and quantised weights. It only handles aten's operators."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if not str(function).startswith("aten."):
            raise NotImplementedError(f"no rule for {function}")
        inner = lambda each: each.inner if isinstance(each, Wrapper) else each
        result = function(*torch.utils._pytree.tree_map(inner, args), **torch.utils._pytree.tree_map(inner, kwargs or {}))
        return torch.utils._pytree.tree_map(lambda each: Wrapper(each) if isinstance(each, torch.Tensor) else each, result)


class Plain(torch.Tensor):
    """A subclass without operations of its own."""


class Duck:
    """Not a tensor, but takes part in torch's functions."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__


class Subclasses(OnHost):
    def of(self, kind, arguments):
        return [kind(each) if kind is Wrapper else each.as_subclass(kind) for each in arguments]

    def test_that_know_torchs_functions_see_these(self):
        def check(ours, theirs, arguments):
            result = ours(*self.of(Table, arguments))
            self.assertIsInstance(result, Table)
            self.close(result.as_subclass(torch.Tensor), theirs(*arguments))

        for name, (ours, theirs, shapes) in CALLS.items():
            if not name.startswith("the operator"):
                with self.subTest(name):
                    check(ours, theirs, tensors(*shapes))

    def test_that_know_atens_operators_see_these(self):
        def check(ours, theirs, arguments):
            for given in (self.of(Wrapper, arguments), [*arguments[:-1], Wrapper(arguments[-1])]):
                result = ours(*given)
                self.assertIsInstance(result, Wrapper)
                self.close(result.inner, theirs(*arguments))

        self.each_call(check)

    def test_without_operations_of_their_own_run_our_kernel(self):
        a, b = tensors((4, 6), (6, 5))
        result = at.mm(a.as_subclass(Plain), b)
        self.assertIsInstance(result, Plain)
        self.close(result.as_subclass(torch.Tensor), a @ b)
        self.assertEqual(len(self.plans), 1)

    def test_that_are_no_tensors(self):
        a, b = tensors((4, 6), (6, 5))
        self.assertEqual([at.mm(Duck(), b), at.mm(a, Duck()), at.linear(Duck(), b), at.softmax(Duck())], ["mm", "mm", "linear", "softmax"])

    def test_nested_tensors(self):
        for layout in (torch.strided, torch.jagged):
            ragged = torch.nested.nested_tensor(tensors((2, 6), (3, 6)), layout=layout)
            (weight,) = tensors((5, 6))
            for ours, theirs in zip(at.linear(ragged, weight).unbind(), F.linear(ragged, weight).unbind()):
                self.close(ours, theirs)
        with self.assertRaises(RuntimeError):  # torch itself has no such product either
            at.mm(torch.nested.nested_tensor(tensors((2, 6), (3, 6))), weight.t())

    def test_distributed_tensors(self):
        import torch.distributed as dist
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        mesh = init_device_mesh("cpu", (1,))
        for name in ("mm", "bmm", "linear", "softmax"):
            ours, theirs, shapes = CALLS[name]
            arguments = tensors(*shapes)
            given = [distribute_tensor(each, mesh, [Shard(0) if i == 0 else Replicate()]) for i, each in enumerate(arguments)]
            with self.subTest(name):
                result = ours(*given)
                self.assertIsInstance(result, DTensor)
                self.close(result.to_local(), theirs(*arguments))

    def test_quantised_and_sparse_ones_are_refused_by_name(self):
        a, b = tensors((4, 6), (6, 5))
        for given in (torch.quantize_per_tensor(a, 0.1, 0, torch.qint8), a.to_sparse(), a.to_sparse_csr(), a.to(torch.complex64).conj()):
            with self.assertRaises((TypeError, NotImplementedError)):
                at.mm(given, b)


class Autocast(unittest.TestCase):
    def test_what_torch_casts_is_cast(self):
        seen = []
        operator = lambda *arguments: seen.append([each.dtype if isinstance(each, torch.Tensor) else each for each in arguments])
        given = [torch.ones(1, dtype=dtype) for dtype in (torch.float32, torch.float16, torch.float64, torch.int32)]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            _register.lower_precision(operator)(*given, 0.5)
            _register.full_precision(operator)(*given, 0.5)
        self.assertEqual(seen[0], [torch.bfloat16, torch.bfloat16, torch.float64, torch.int32, 0.5])
        self.assertEqual(seen[1], [torch.float32, torch.float32, torch.float64, torch.int32, 0.5])


class Guards(unittest.TestCase):
    def test_machinery_of_torch_traces_our_operators(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            self.assertFalse(_guards.is_torchs(torch.empty(2)))
        self.assertFalse(_guards.is_torchs(torch.nn.Parameter(torch.ones(2)), torch.ones(2), 1.0, None))


if __name__ == "__main__":
    unittest.main()
