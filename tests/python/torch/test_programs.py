"""What programs do with models while a patch is active, on the host: every product of theirs runs a kernel of ours, and nothing else changes."""

import contextlib
import copy
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import torch
import torch.nn.functional as F

from autotune.torch import _shims
from test_shims import CPU, Plan, install

HERE = os.path.dirname(os.path.abspath(__file__))


class Served(Plan):
    """The plan of a problem that was a miss."""

    def __init__(self, problem):
        self.problem, self.number = problem, len(Plan.every) + 1
        self.launches, self.status, self.workspaces = 0, 0, []
        Plan.every[self.number] = self


@contextlib.contextmanager
def patched(*steps):
    """Our kernels for all products that the steps run on plain memory. Returns a function that counts the calls they took
    since.
    """
    missing = install()
    assert not missing, missing
    try:
        _shims.set_table({})
        _shims.clear_misses()
        _shims.note_misses(True)
        for step in steps:
            step()
        entries = {}
        for problem, index in _shims.missed_problems():
            if problem.op == "gemm" and index == CPU:
                plan = Served(problem)
                entries.update({each: _shims.Entry(plan.number) for each in _shims.keys_of(problem, CPU)})
        _shims.note_misses(False)
        _shims.set_table(entries)
        before = _shims.counts()[0]
        yield lambda: _shims.counts()[0] - before
    finally:
        _shims.note_misses(False)
        _shims.remove()


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 8, bias=False))


class Programs(unittest.TestCase):
    def check(self, step, least_taken=1, **tolerance):
        """Checks that results are the same as without a patch, and that calls were taken."""
        wanted = step()
        with patched(step) as taken:
            found = step()
            self.assertGreaterEqual(taken(), least_taken)
        torch.testing.assert_close(found, wanted, **tolerance)
        torch.testing.assert_close(step(), wanted)

    def test_a_training_step_with_an_optimizer(self):
        model, x = layers(), torch.randn(5, 16)

        def step():
            trained = copy.deepcopy(model)
            optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                trained(x).square().mean().backward()
                optimizer.step()
            return [each.detach() for each in trained.parameters()]

        self.check(step, least_taken=3 * 5)

    def test_tied_weights_that_are_replaced_afterwards(self):
        table, head, tokens = torch.nn.Embedding(40, 16), torch.nn.Linear(16, 40, bias=False), torch.tensor([3, 5, 7])
        head.weight = table.weight
        run = lambda: [*torch.autograd.grad(head(table(tokens)).square().sum(), [table.weight])]
        self.check(run, least_taken=3)
        with patched(run) as taken:
            head.weight = torch.nn.Parameter(torch.randn(40, 16))
            torch.testing.assert_close(head(table(tokens)), table(tokens).double().matmul(head.weight.double().t()).float())
            self.assertEqual(taken(), 1)

    def test_autocast(self):
        model, x = layers(), torch.randn(5, 16)

        def step():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = model(x)
            return y, *torch.autograd.grad(y.float().square().sum(), list(model.parameters()))

        self.assertEqual(step()[0].dtype, torch.bfloat16)
        self.check(step, least_taken=5, rtol=2e-2, atol=2e-2)

    def test_deterministic_algorithms(self):
        model, x = layers(), torch.randn(5, 16)
        torch.use_deterministic_algorithms(True)
        try:
            self.check(lambda: model(x), least_taken=2)
        finally:
            torch.use_deterministic_algorithms(False)

    def test_hooks_checkpoints_and_inference_mode(self):
        from torch.utils.checkpoint import checkpoint

        model, x, seen = layers(), torch.randn(5, 16, requires_grad=True), []
        model[0].register_forward_hook(lambda module, args, output: seen.append(output.shape))
        self.check(lambda: torch.autograd.grad(checkpoint(model, x, use_reentrant=False).sum(), x)[0], least_taken=4)
        self.assertTrue(seen)
        with torch.inference_mode():
            self.check(lambda: model(x) + 0, least_taken=2)

    def test_64_threads_that_share_a_model(self):
        model, x = layers(), torch.randn(5, 16)
        step = lambda: torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        wanted, found, errors = step(), [], []

        def work():
            try:
                for _ in range(10):
                    found.append(step())
            except Exception as error:
                errors.append(error)

        with patched(step) as taken:
            threads = [threading.Thread(target=work) for _ in range(64)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertGreaterEqual(taken(), 64 * 10 * 5)
        self.assertEqual((errors, len(found)), ([], 640))
        for each in found:
            torch.testing.assert_close(each, wanted)

    def test_lora_of_peft(self):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import peft
        except ImportError:
            self.skipTest("needs peft")
        model = peft.get_peft_model(layers(), peft.LoraConfig(r=4, target_modules=["0", "2"], init_lora_weights=False)).eval()
        x = torch.randn(5, 16)
        trained = [each for each in model.parameters() if each.requires_grad]
        self.check(lambda: torch.autograd.grad(model(x).square().sum(), trained), least_taken=6)
        merged = model.merge_and_unload()
        self.check(lambda: merged(x).detach(), least_taken=2)

    def test_compiled_before_and_within(self):
        model, x = layers(), torch.randn(5, 16)
        before = torch.compile(model, backend="aot_eager")
        with torch.no_grad():
            self.check(lambda: before(x), least_taken=2)
            with patched(lambda: model(x)):
                torch._dynamo.reset()
                torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x), model(x))

    def test_export_and_a_program_that_ends_within_a_patch(self):
        model, x = layers(), torch.randn(5, 16)
        with patched(lambda: model(x)), torch.no_grad():
            torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))
        code = "import test_programs as p, torch; m = p.layers(); x = torch.randn(5, 16); context = p.patched(lambda: m(x)); context.__enter__(); m(x).sum().backward()"
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=HERE, capture_output=True, text=True, timeout=300)
        self.assertEqual(ended.returncode, 0, ended.stderr)


# ---- several processes ----


def train_sharded(rank, folder, taken):
    """One of two processes: runs the same steps of a model that FSDP2 shards, without and with a patch."""
    import torch.distributed as distributed
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    try:
        x = torch.randn(5, 16, generator=torch.Generator().manual_seed(rank))

        def step():
            model = layers()
            for each in (model[0], model[2], model):
                fully_shard(each, mesh=distributed.init_device_mesh("cpu", (2,)))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            return [each.full_tensor().detach() for each in model.parameters()]

        wanted = step()
        with patched(step) as count:
            found = step()
            taken[rank] = count()
        torch.testing.assert_close(found, wanted)
    finally:
        distributed.destroy_process_group()


def multiply(rank, wanted):
    model = layers()
    x = torch.ones(5, 16)
    with patched(lambda: model(x)) as taken, torch.no_grad():
        torch.testing.assert_close(model(x), wanted)
        assert taken() == 2


class Processes(unittest.TestCase):
    @unittest.skipUnless(torch.distributed.is_available() and hasattr(torch.distributed, "init_device_mesh"), "needs torch.distributed")
    def test_fsdp2(self):
        with tempfile.TemporaryDirectory() as folder:
            taken = torch.zeros(2, dtype=torch.int64).share_memory_()
            torch.multiprocessing.spawn(train_sharded, (folder, taken), nprocs=2)
        self.assertGreaterEqual(taken.tolist(), [2 * 5] * 2)

    def test_spawned_within_a_patch(self):
        model, x = layers(), torch.ones(5, 16)
        with patched(lambda: model(x)), torch.no_grad():
            torch.multiprocessing.spawn(multiply, (model(x),), nprocs=2)

    def test_tensors_that_processes_share(self):
        model = layers().share_memory()
        with torch.no_grad():
            wanted = model(torch.ones(5, 16))
        with patched(lambda: model(torch.ones(5, 16))), torch.no_grad():
            torch.testing.assert_close(F.linear(F.relu(F.linear(torch.ones(5, 16), model[0].weight)), model[2].weight), wanted)


if __name__ == "__main__":
    unittest.main()
