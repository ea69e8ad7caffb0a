"""What tune() hears of the products that run, on the CPU's kernels in the place of a GPU's."""

import collections
import dataclasses
import unittest
from unittest import mock

import torch

from autotune.torch._collect import collect, listening


class Listening(unittest.TestCase):
    def heard(self, step):
        found = []
        with listening(lambda name, args, options: found.append((name, *(tuple(each.shape) for each in args[:2]))), key="CPU"):
            result = step()
        return found, result

    def test_hears_products_and_gives_torchs_result(self):
        a, b = torch.randn(3, 4), torch.randn(4, 5)
        wanted = a @ b
        found, result = self.heard(lambda: a @ b)
        self.assertEqual(found, [("aten::mm", (3, 4), (4, 5))])
        self.assertTrue(torch.equal(result, wanted))
        self.assertTrue(torch.equal(a @ b, wanted))  # torch uses its own kernels again

    def test_hears_gradients(self):
        a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
        found, _ = self.heard(lambda: (a @ b).sum().backward())
        self.assertEqual([name for name, *_ in found], ["aten::mm"] * 3)
        self.assertEqual(a.grad.shape, a.shape)

    def test_hears_what_compiled_code_runs(self):
        def both(x, weight):  # torch.compile makes one product of both, because they are the same
            return torch.relu(x @ weight) + (x @ weight)

        code = torch.compile(both)
        x, weight = torch.randn(8, 16), torch.randn(16, 24)
        wanted = code(x, weight)
        eager, _ = self.heard(lambda: both(x, weight))
        found, result = self.heard(lambda: code(x, weight))
        self.assertEqual(len(eager), 2)
        self.assertEqual(found, [("aten::mm.out", (8, 16), (16, 24))])
        self.assertTrue(torch.equal(result, wanted))

    def test_inputs_and_results_of_every_form(self):
        import autotune.torch._tune as tuning

        @dataclasses.dataclass
        class Output:
            ids: torch.Tensor
            states: tuple

        class Model(torch.nn.Module):
            def __init__(self, form):
                super().__init__()
                self.layer, self.form = torch.nn.Linear(4, 3), form

            def forward(self, x, other=None):
                return self.form(self.layer(x if other is None else x + other))

        x, counts = torch.randn(2, 4), torch.ones(2, dtype=torch.long)
        forms = (lambda y: y, lambda y: (counts, y), lambda y: {"ids": counts, "y": [None, y]}, lambda y: Output(counts, (y,)))
        inputs = ((x,), x, {"x": x}, [x, x], collections.UserDict(x=x, other=x))

        def run_once(step):
            step()
            return {}

        with mock.patch.object(tuning, "need_gpu", lambda: None), mock.patch.object(tuning, "collect", run_once), mock.patch.object(
            tuning, "sweep", lambda *_, **__: None
        ), mock.patch.object(torch.cuda, "current_device", lambda: 0), mock.patch.object(tuning._verdicts, "device_of", lambda _: "a card"), mock.patch.object(
            tuning._verdicts, "store", lambda *_: None
        ):
            for form in forms:
                for each in inputs:
                    model = Model(form)
                    mine = model.layer.weight.grad = torch.ones(3, 4)
                    runs = []
                    model.layer.weight.register_post_accumulate_grad_hook(lambda _: runs.append(1))
                    tuning.tune(model, each, backward=True)
                    self.assertEqual(len(runs), 1)  # a backward pass has run
                    self.assertIs(model.layer.weight.grad, mine)
                    self.assertTrue(torch.equal(mine, torch.ones(3, 4)))
                    self.assertIsNone(model.layer.bias.grad)
            with self.assertRaisesRegex(ValueError, "no result of the model has a gradient"):
                tuning.tune(Model(lambda y: y.detach()), x, backward=True)

    def test_compiled_code_still_runs_afterwards(self):
        runs = []

        def backend(graph, inputs):
            return lambda *arguments: runs.append(1) or graph.forward(*arguments)

        model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
        code = torch.compile(model, backend=backend)
        with torch.no_grad(), mock.patch.object(torch.cuda, "synchronize"):
            code(x)
            collect(lambda: code(x))
            runs.clear()
            code(x)
        self.assertEqual(runs, [1])

    def test_an_error_gives_torch_its_kernels_back(self):
        a = torch.randn(3, 4)
        for _ in range(2):
            with self.assertRaises(RuntimeError):
                self.heard(lambda: a @ a)
        self.assertEqual((a @ a.t()).shape, (3, 3))


if __name__ == "__main__":
    unittest.main()
