"""patch() at the host's dispatch key: which calls it takes by the verdicts on record, and what it leaves behind. Plans compute on the host."""

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from types import SimpleNamespace
from unittest import mock

import torch

import autotune
import autotune.torch as at
from autotune.torch import _patch, _shims, _verdicts
from test_shims import CPU, Plan, address, launch, run

HERE = "this machine"


class Patched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.database = pathlib.Path(folder.name) / "autotune.db"
        install = _shims.install
        self.status_of_plans, self.made = {}, []
        for owner, name, made in (
            (_shims, "install", lambda names, gemm, described, key: install(names, address(launch), address(run), key)),
            (_patch, "_used_devices", lambda: [CPU]),
            (_verdicts, "device_of", lambda index: HERE),
            (_patch._engine, "plan_of", self.plan_of),
        ):
            replaced = mock.patch.object(owner, name, made)
            replaced.start()
            self.addCleanup(replaced.stop)
        variables = mock.patch.dict(os.environ, AUTOTUNE_DB=str(self.database))
        variables.start()
        self.addCleanup(variables.stop)
        self.addCleanup(_shims.clear_misses)
        _patch._plans.clear()
        looks = mock.patch.object(_patch, "_LOOK_SECONDS", 0.01)
        looks.start()
        self.addCleanup(looks.stop)
        self.a, self.b = torch.randn(5, 8).bfloat16(), torch.randn(8, 4).bfloat16()
        Plan.every.clear()
        self.plan = Plan(self.a, self.b)
        self.info = SimpleNamespace(origin="exact", deterministic=True)

    def plan_of(self, problem, index):
        self.made.append(problem)
        found = next((each for each in Plan.every.values() if each.problem == problem), None)
        if found is None:
            raise autotune.NoKernel("no family")
        return SimpleNamespace(_address=found.number, workspace_bytes=0, workspace_zero_bytes=0, info=self.info)

    def won(self, in_stream=1.2, in_graphs=1.2, plan=None, device=HERE):
        _verdicts.store([_verdicts.Verdict((plan or self.plan).problem, in_stream, in_graphs)], device)

    @contextlib.contextmanager
    def patch(self, **options):
        names = options.pop("names", ["mm", "bmm", "softmax"])
        with _patch.Patch(names, key="CPU", wait=True, **options) as made:
            yield made

    def is_taken(self):
        before = self.plan.launches
        found = torch.mm(self.a, self.b)
        torch.testing.assert_close(found, (self.a.double() @ self.b.double()).to(found.dtype))
        return self.plan.launches > before

    def test_takes_what_has_won_and_gives_it_back(self):
        self.won()
        with self.patch():
            self.assertTrue(self.is_taken())
        self.assertFalse(self.is_taken())

    def test_leaves_what_has_lost_or_was_never_tuned(self):
        with self.patch(note_misses=True):
            self.assertFalse(self.is_taken())
            self.assertEqual(list(at.misses()), [self.plan.problem])
        self.won(0.99, 0.99)
        at.clear_misses()
        with self.patch(note_misses=True):
            self.assertFalse(self.is_taken())
            self.assertEqual(at.misses(), {})  # the verdict says that our kernel loses
        with self.patch(least_gain=0.9):
            self.assertTrue(self.is_taken())

    def test_a_later_verdict_replaces_an_earlier_one(self):
        self.won()
        self.won(0.5, 0.5)
        with self.patch():
            self.assertFalse(self.is_taken())

    def test_what_won_in_graphs_alone_is_atens_in_a_stream(self):
        self.won(0.9, 1.5)
        with self.patch() as made:
            self.assertFalse(self.is_taken())
            self.assertEqual(made.entries, 2)  # one with its own output and one with the caller's

    def test_verdicts_of_another_device_or_torch_do_not_count(self):
        self.won(device="another")
        with mock.patch.object(_verdicts, "against", lambda: "torch 1.0 cublas 1"):
            self.won()
        with self.patch():
            self.assertFalse(self.is_taken())

    def test_names_and_only_leave_calls_alone(self):
        self.won()
        with self.patch(names=["softmax"]):
            self.assertFalse(self.is_taken())
        with self.patch(only=lambda problem: False):
            self.assertFalse(self.is_taken())
        self.assertEqual(self.made, [])

    def test_a_plan_that_is_no_winner_any_more_or_not_deterministic_is_not_taken(self):
        self.won()
        for self.info in (SimpleNamespace(origin="default", deterministic=True), SimpleNamespace(origin="exact", deterministic=False)):
            with self.patch():
                self.assertFalse(self.is_taken())

    def test_a_plan_that_cannot_be_had_is_one_warning(self):
        self.won()
        self.won(plan=SimpleNamespace(problem=Plan(self.a[:3], self.b).problem))
        del Plan.every[max(Plan.every)]
        with self.assertWarnsRegex(RuntimeWarning, "though it has won: no family"), self.patch():
            self.assertTrue(self.is_taken())  # now the other verdict is used

    def test_patches_in_each_other_and_restored_in_the_wrong_order(self):
        self.won()
        outer = _patch.Patch(["mm"], key="CPU", wait=True)
        inner = _patch.Patch(["softmax"], key="CPU", wait=True)
        self.assertFalse(self.is_taken())
        outer.restore()
        self.assertFalse(self.is_taken())
        inner.restore()
        inner.restore()
        self.assertFalse(at.status()["active"])
        outer = _patch.Patch(["mm"], key="CPU", wait=True)
        with self.patch(names=["softmax"]):
            self.assertFalse(self.is_taken())
        self.assertTrue(self.is_taken())
        outer.restore()

    def test_a_call_waits_for_no_plan(self):
        self.won()
        may_go, plan_of = threading.Event(), self.plan_of

        def slow(problem, index):
            may_go.wait(30)
            return plan_of(problem, index)

        with mock.patch.object(_patch._engine, "plan_of", slow), _patch.Patch(["mm"], key="CPU") as made:
            self.assertFalse(self.is_taken())
            self.assertFalse(at.status()["ready"])
            may_go.set()
            made._is_made.wait(30)
            self.assertTrue(self.is_taken())
            self.assertTrue(at.status()["ready"])

    def test_a_device_that_the_process_uses_later_is_served(self):
        self.won()
        with mock.patch.object(_patch, "_used_devices", lambda: []), self.patch():
            self.assertFalse(self.is_taken())
            with mock.patch.object(_patch, "_used_devices", lambda: [CPU]):
                for _ in range(200):
                    time.sleep(0.01)
                    if self.is_taken():
                        break
                self.assertTrue(self.is_taken())

    def test_plans_are_made_once(self):
        self.won()
        for _ in range(3):
            with self.patch():
                self.assertTrue(self.is_taken())
        self.assertEqual(len(self.made), 1)

    def test_refresh_reads_verdicts_that_were_stored_since(self):
        with self.patch() as made:
            self.assertFalse(self.is_taken())
            self.won()
            _patch._rebuild()
            made._is_made.wait(30)
            self.assertTrue(self.is_taken())

    def test_status_tells_what_is_served(self):
        self.won()
        with self.patch():
            before = at.status()["taken"]
            self.is_taken()
            told = at.status()
        self.assertEqual(told["operators"], {"mm": "ours", "bmm": _patch._NOT_TUNED, "softmax": "torch's: tune() races no softmax"})
        self.assertEqual((told["verdicts"], told["entries"], told["taken"] - before, told["active"]), (1, 2, 1, True))

    def test_a_torch_that_lacks_a_shim_keeps_the_operator_with_one_warning(self):
        _patch._warned.clear()
        self.addCleanup(_patch._warned.clear)
        self.won(plan=Plan(self.a[None], self.b[None]))
        with mock.patch.object(_shims, "install", lambda *_: {"bmm": "torch 2.9.0 lacks aoti_torch_cuda_bmm_out"}):
            with self.assertWarnsRegex(RuntimeWarning, r"leaves bmm to torch: torch 2.9.0 lacks aoti_torch_cuda_bmm_out"):
                made = _patch.Patch(["mm", "bmm"], key="CPU", wait=True)
            self.assertIn("lacks", at.status()["operators"]["bmm"])
            made.restore()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                _patch.Patch(["mm", "bmm"], key="CPU", wait=True).restore()

    def test_status_tells_why_an_operator_is_torchs(self):
        def state(**options):
            with self.patch(**options):
                return at.status()["operators"]["mm"]

        self.assertIn("run autotune.torch.tune(model, inputs)", state())
        self.assertIn("run autotune.torch.tune(model, inputs)", state(note_misses=True))  # its kernel is registered all the same
        self.won(0.9, 0.9)
        for each in (state(), state(note_misses=True)):
            self.assertEqual(each, "torch's: tune() has found no call here that ours wins")

    def test_reasons_that_operators_share_are_one_warning(self):
        _patch._warned.clear()
        self.addCleanup(_patch._warned.clear)
        refused = {name: _shims._reason(b"libcuda.so.1") for name in _shims.KERNELS}
        with mock.patch.object(_shims, "install", lambda *_: refused), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _patch.Patch(["mm", "bmm", "softmax", "attention"], key="CPU", wait=True, note_misses=True).restore()
        self.assertEqual(len(caught), 1)
        self.assertIn("leaves mm, bmm, softmax, attention to torch: no NVIDIA driver", str(caught[0].message))
        self.assertIn("is without CUDA", _shims._reason(b"libtorch_cuda.so"))

    def test_misses_leave_out_what_is_no_problem(self):
        at.clear_misses()
        with self.patch(note_misses=True):
            torch.mm(torch.ones(()).expand(5, 8), self.b.float())
            self.is_taken()
            self.assertEqual(list(at.misses()), [self.plan.problem])

    def test_an_operator_of_which_nothing_has_won_is_not_touched(self):
        self.won(0.9, 0.9)
        self.won(plan=Plan(self.a[None], self.b[None]))
        with mock.patch.object(_patch, "_has_noted", False), self.patch():
            self.assertEqual(_patch._served, {"bmm", "bmm.out"})
            self.assertNotIn("torch_calls", kernel_of("aten::mm"))
            self.assertIn("torch_calls", kernel_of("aten::bmm"))
            with self.assertRaisesRegex(RuntimeError, r"under autotune.torch.patch\(note_misses=True\)"):
                at.misses()
            self.won()
            _patch._rebuild()  # tune() does the same
            self.assertIn("torch_calls", kernel_of("aten::mm"))
        for name in ("aten::mm", "aten::bmm"):
            self.assertNotIn("torch_calls", kernel_of(name))

    def test_a_file_of_lines_from_before_is_taken_into_the_database_once(self):
        file = pathlib.Path(f"{self.database}.torch.jsonl")
        tensors = {name: [each.dtype, list(each.shape), list(each.strides), each.align] for name, each in self.plan.problem.tensors.items()}
        line = {"op": "gemm", "tensors": tensors, "attributes": {"beta": "zero"}, "device": HERE, "in_stream": 0.5, "in_graphs": 1.5}
        lines = [json.dumps({**line, "against": each}) for each in (_verdicts.against(), "another torch")]
        file.write_text("\n".join(['{"op": "gemm"}', "[1]", "nothing", *lines, '{"cut']))
        for _ in range(2):
            self.assertEqual(_verdicts.load(HERE), [_verdicts.Verdict(self.plan.problem, 0.5, 1.5)])
        self.assertEqual([each.name for each in sorted(self.database.parent.glob("*jsonl*"))], ["autotune.db.torch.jsonl.imported"])
        self.won()
        self.assertEqual(_verdicts.load(HERE)[0].in_stream, 1.2)

    def test_with_a_label_its_verdicts_alone_decide(self):
        self.won()
        text = _verdicts.text_of(self.plan.problem)
        row = {"problem": text, "device": HERE, "rival": _verdicts.against(), "in_stream": 0.5, "in_graphs": 1.5, "date": "2026-11-23T18:51:56Z"}
        line = json.dumps({"autotune_label": "verdict", **row}, separators=(",", ":")) + "\n"
        label = self.database.with_name("one.jsonl")
        head = {"autotune_label": 1, "name": "one", "digest": hashlib.sha256(line.encode()).hexdigest(), "rows": 1}
        label.write_text(json.dumps(head, separators=(",", ":")) + "\n" + line)
        with mock.patch.dict(os.environ, AUTOTUNE_LABEL=str(label)):
            self.assertEqual(_verdicts.load(HERE), [_verdicts.Verdict(self.plan.problem, 0.5, 1.5)])
            label.write_text("another")
            with self.assertWarnsRegex(RuntimeWarning, "leaves all calls to torch: label .*one.jsonl is not used: its first line"):
                self.assertEqual(_verdicts.load(HERE), [])
        self.assertEqual(_verdicts.load(HERE)[0].in_stream, 1.2)

    def test_a_database_without_verdicts_is_no_error(self):
        self.assertEqual(_verdicts.load(HERE), [])
        self.assertFalse(self.database.exists())

    def test_a_database_that_cannot_be_read_is_one_warning(self):
        self.database.write_text("this is no database" * 100)
        with self.assertWarnsRegex(RuntimeWarning, "leaves all calls to torch: .*autotune.db"), self.patch():
            self.assertFalse(self.is_taken())
        with self.assertRaises(autotune.Error):
            self.won()

    def test_verdicts_of_other_programs_are_left_out(self):
        self.won()
        _verdicts._put([(text, HERE, _verdicts.against(), 2.0, 2.0) for text in ("x", "gemm a:bf16:2xq:1:16", "gemm a=", "gemm a:b", 'gemm a:bf16:-1:1:16')])
        self.assertEqual([each.problem for each in _verdicts.load(HERE)], [self.plan.problem])

    def test_texts_of_problems_come_back(self):
        q = autotune.Tensor("bf16", (2, 4, 16, 64), (4096, 64, 256, 1), 8)
        for problem in (
            self.plan.problem,
            autotune.Problem("attention", {**dict.fromkeys("qkvo", q), "lse": autotune.Tensor("f32", (2, 4, 16))}, {"mask": "causal", "compute": "tf32"}),
            autotune.Problem("softmax", {"x": autotune.Tensor("f32", (5,)), "y": autotune.Tensor("f32", (5,))}, {"scale": 0.125, "note": "a b=c:d"}),
        ):
            text = _verdicts.text_of(problem)
            self.assertEqual(_verdicts.problem_of(text), problem, text)
        self.assertEqual(
            _verdicts.text_of(self.plan.problem), 'gemm beta="zero" a:bf16:5x8:8x1:16 b:bf16:8x4:4x1:16 c:bf16:5x4:4x1:16'
        )

    def test_processes_store_at_the_same_time(self):
        code = (
            "import sys; from autotune.torch import _verdicts; import autotune\n"
            "t = autotune.Tensor('bf16', (int(sys.argv[1]), 4))\n"
            "for i in range(20): _verdicts.store([_verdicts.Verdict(autotune.Problem('softmax', {'x': t, 'y': t}, {'scale': float(i)}), 2.0, 2.0)], 'here')"
        )
        children = [subprocess.Popen([sys.executable, "-c", code, str(each)]) for each in (3, 5)]
        self.assertEqual([child.wait(120) for child in children], [0, 0])
        self.assertEqual(len(_verdicts.load("here")), 40)

    def test_models_copies_and_pickles(self):
        import copy
        import pickle

        model = torch.nn.Linear(8, 4, bias=False).bfloat16()
        rows = torch.randn(5, 8).bfloat16()
        plan = Plan(rows, model.weight.t())
        self.won(plan=plan)
        with self.patch(), torch.no_grad():
            wanted = model(rows)
            self.assertEqual(plan.launches, 1)
            for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                self.assertTrue(torch.equal(made(rows), wanted))

    def test_loader_processes_multiply(self):
        self.won()
        with self.patch(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = torch.utils.data.DataLoader(Products(), num_workers=2, multiprocessing_context="fork")
            self.assertEqual([float(each) for each in loader], [64.0] * 4)


def kernel_of(name):
    """The place where the kernel of an operator was registered at the host's dispatch key."""
    table = torch._C._dispatch_dump_table(name)
    return next(line for line in table.splitlines() if line.startswith("CPU:"))


class Products(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.mm(torch.ones(1, 64), torch.ones(64, 1)).item()


class Keys(unittest.TestCase):
    """Keys from problems, and problems from keys."""

    def test_every_problem_comes_back_from_its_key(self):
        for problem in (
            Plan(torch.empty(5, 8).half(), torch.empty(8, 4).half()).problem,
            Plan(torch.empty(5, 8), torch.empty(8, 4), compute="tf32").problem,
            Plan(torch.empty(2, 5, 8).bfloat16(), torch.empty(2, 4, 8).bfloat16().mT).problem,
            autotune.Problem("softmax", {"x": autotune.Tensor("f32", (3, 4)), "y": autotune.Tensor("f32", (3, 4))}),
        ):
            key = _shims.keys_of(problem, 1)[0]
            self.assertEqual(_shims.problem_of(key), (problem, 1))

    def test_attention_is_of_the_operators_whose_output_lies_so(self):
        q = autotune.Tensor("bf16", (2, 4, 16, 64), (4096, 64, 256, 1))
        for lse, names in ((True, ["flash", "cudnn"]), (False, ["cudnn", "efficient"])):
            tensors = {"q": q, "k": q, "v": q, "o": q, **({"lse": autotune.Tensor("f32", (2, 4, 16))} if lse else {})}
            problem = autotune.Problem("attention", tensors, {"mask": "causal"})
            keys = _shims.keys_of(problem, 0)
            self.assertEqual([_shims._NAMES[key[0]] for key in keys], names)
            for key in keys:
                self.assertEqual(_shims.problem_of(key)[0], problem)
        dense = autotune.Tensor("bf16", (2, 4, 16, 64))
        problem = autotune.Problem("attention", {"q": dense, "k": dense, "v": dense, "o": dense}, {"mask": "none"})
        self.assertEqual([_shims._NAMES[key[0]] for key in _shims.keys_of(problem, 0)], ["cudnn"])

    def test_what_no_kernel_of_c_may_serve_has_no_key(self):
        q = autotune.Tensor("bf16", (2, 4, 16, 64))
        problem = autotune.Problem("attention", dict.fromkeys("qkvo", q), {"mask": "causal_bottom_right"})
        self.assertEqual(_shims.keys_of(problem, 0), [])
        x, y = autotune.Tensor("bf16", (4, 16), (1, 4)), autotune.Tensor("bf16", (4, 16))
        lse = autotune.Tensor("f32", (4,))
        for tensors, attributes in (({"x": x, "y": y}, {}), ({"x": y, "y": y}, {"scale": 0.5}), ({"x": y, "y": y, "lse": lse}, {})):
            self.assertEqual(_shims.keys_of(autotune.Problem("softmax", tensors, attributes), 0), [])


if __name__ == "__main__":
    unittest.main()
