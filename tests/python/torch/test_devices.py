"""Several GPUs and what goes wrong in a patched call, without a GPU: which device is made current, and who computes instead."""

import contextlib
import unittest
import warnings
from unittest import mock

import torch

import autotune
import autotune.torch as at
from autotune import Problem, Tensor
from autotune.handle import PlanInfo
from autotune.torch import _devices, _engine, _workspace
from host_plans import HostPlan

INFO = PlanInfo("shipped", "gemm/mma", True, 0.0, 10.0, 0, 0, 11.0)
GEMM = Problem("gemm", {name: Tensor("f16", (64, 64)) for name in "abc"})


class Machine:
    """Two devices: the current one, the actions on each, and the contexts of the driver."""

    def __init__(self, test, current=0, context=100):
        self.current, self.context, self.log, self.stack = current, context, [], []
        driver = mock.Mock()
        driver.cuCtxGetCurrent.side_effect = lambda place: self.put(place, self.context)
        driver.cuDeviceGet.side_effect = lambda place, index: self.put(place, index)
        driver.cuDevicePrimaryCtxRetain.side_effect = lambda place, device: self.put(place, 100 + device.value)
        driver.cuCtxSetCurrent.side_effect = lambda context: self.set(context.value)
        driver.cuCtxPushCurrent_v2.side_effect = lambda context: self.push(context.value)
        driver.cuCtxPopCurrent_v2.side_effect = lambda place: self.set(self.stack.pop())
        for owner, name, value in (
            (_devices, "driver", lambda: driver),
            (_devices, "_primary", {}),
            (_devices, "current_device", lambda: self.current),
            (_engine, "_current_device", lambda: self.current),
            (_engine, "_raw_stream", lambda index: 1000 + index),
            (torch.cuda, "device", self.device),
            (torch.cuda, "init", lambda: None),
        ):
            patcher = mock.patch.object(owner, name, value)
            patcher.start()
            test.addCleanup(patcher.stop)

    def put(self, place, value):
        place._obj.value = value
        return 0

    def set(self, context):
        self.context = context
        return 0

    def push(self, context):
        self.stack.append(self.context)
        return self.set(context)

    @contextlib.contextmanager
    def device(self, index):
        before = self.current, self.context
        self.current = index
        if before[0] != index:
            self.context = 100 + index  # the runtime makes the primary context current
        try:
            yield
        finally:
            self.current, self.context = before if before[0] != index else (before[0], self.context)


def plan(workspace_bytes=0):
    made = mock.Mock(problem=GEMM, info=INFO, workspace_bytes=workspace_bytes, workspace_zero_bytes=0)
    made._address = 77
    return made


class Launches(unittest.TestCase):
    def setUp(self):
        self.machine, self.calls, self.answers = Machine(self), [], []

        def gemm(*words):
            self.calls.append((self.machine.current, self.machine.context, words[-1]))
            return self.answers.pop(0) if self.answers else 0

        def run_on(*words):
            self.calls.append((self.machine.current, self.machine.context, words[4]))
            return self.answers.pop(0) if self.answers else 0

        for name, function in (("_gemm", gemm), ("_run_on", run_on)):
            patcher = mock.patch.object(_engine, name, function)
            patcher.start()
            self.addCleanup(patcher.stop)

    def test_run_on_the_tensors_device_and_its_stream(self):
        for entry in (_engine.Gemm(plan(), 1), _engine.Described(plan(), 1, 3)):
            self.calls.clear()
            entry.launch(1, 2, 3)
            self.assertEqual(self.calls, [(1, 101, 1001)])
            self.assertEqual((self.machine.current, self.machine.context), (0, 100))

    def test_the_current_device_needs_no_change(self):
        with mock.patch.object(torch.cuda, "device", mock.Mock(side_effect=AssertionError)):
            _engine.Gemm(plan(), 0).launch(1, 2, 3)
        self.assertEqual(self.calls, [(0, 100, 1000)])

    def test_a_thread_without_a_context_gets_torchs_and_keeps_it(self):
        self.machine.context, self.answers = None, [autotune.NoContext.status] * 2
        _engine.Gemm(plan(), 0).launch(1, 2, 3)
        self.assertEqual(self.calls[-2:], [(0, None, 1000), (0, 100, 1000)])
        self.assertEqual(self.machine.context, 100)

    def test_a_context_of_the_users_own_is_given_back(self):
        self.machine.context, self.answers = 555, [autotune.InvalidArgument.status] * 2
        _engine.Gemm(plan(), 0).launch(1, 2, 3)
        self.assertEqual(self.calls[-2:], [(0, 555, 1000), (0, 100, 1000)])
        self.assertEqual(self.machine.context, 555)

    def test_plans_are_made_on_the_tensors_device(self):
        seen = []
        handle = mock.Mock(plan=lambda problem: seen.append((self.machine.current, self.machine.context)))
        with mock.patch.object(_engine, "handle", lambda: handle), mock.patch.object(_engine, "is_capturing", lambda index: False):
            _engine.plan_of(GEMM, 1)
        self.assertEqual(seen, [(1, 101)])
        self.assertEqual((self.machine.current, self.machine.context), (0, 100))

    def test_captures_are_looked_for_on_the_tensors_device(self):
        with mock.patch.object(_devices, "is_current_stream_capturing", lambda: self.machine.current == 1):
            self.assertEqual([_devices.is_capturing(index) for index in (0, 1)], [False, True])

    def test_an_error_of_another_kind_is_raised(self):
        for status in (autotune.Misaligned.status, autotune.Overlap.status):
            self.calls.clear()
            self.answers = [status, status]
            with self.assertRaises(autotune.Error):
                _engine.Gemm(plan(), 1).launch(1, 2, 3)
            self.assertEqual(len(self.calls), 1)

    def test_tensors_of_two_devices_are_torchs_error(self):
        tensors = [mock.Mock(layout=torch.strided, dtype=torch.float16, device=torch.device(name)) for name in ("cuda:1", "cuda:0", "cpu")]
        for other in tensors[1:]:
            for kind in (RuntimeError, TypeError):
                with self.assertRaisesRegex(
                    kind, f"Expected all tensors to be on the same device, but found at least two devices, cuda:1 and {other.device}!"
                ):
                    _engine.refuse_inputs("mm", tensors[0], other)


class Memory(unittest.TestCase):
    def test_a_workspace_may_have_any_type(self):
        from autotune import arrays

        with mock.patch.object(arrays, "_check_torch", lambda tensor: None):
            self.assertEqual(arrays.placed(torch.zeros(24, dtype=torch.uint8), describes=False).size, 24)
            with self.assertRaisesRegex(TypeError, "unknown dtype 'torch.bool'"):
                arrays.placed(torch.zeros(24, dtype=torch.bool))


class Workspaces(unittest.TestCase):
    """Memory of streams and of captured graphs, with a graph whose end the test announces."""

    def setUp(self):
        self.capture, self.kept, self.made = None, {}, []
        for owner, name, value in (
            (_devices, "is_capturing", lambda index: self.capture is not None),
            (_workspace, "capture_of", lambda stream: (self.capture, 5000 + self.capture)),
            (_workspace, "keep_for_graph", lambda graph, memory: self.kept.setdefault(graph, memory)),
            (_workspace, "_allocate", self.allocate),
        ):
            patcher = mock.patch.object(owner, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)

    def allocate(self, size, zero_bytes, index, stream):
        self.made.append((size, zero_bytes, index, stream))
        return torch.empty(size, dtype=torch.uint8)

    def workspace(self):
        made = plan(workspace_bytes=1 << 20)
        made.workspace_zero_bytes = 4096
        return _workspace.Workspace(made, 1)

    def test_a_stream_has_one(self):
        workspace = self.workspace()
        self.assertEqual(workspace.address(7), workspace.address(7))
        self.assertNotEqual(workspace.address(7), workspace.address(8))
        self.assertEqual(self.made, [(1 << 20, 4096, 1, 7), (1 << 20, 4096, 1, 8)])

    def test_a_capture_has_one_for_each_of_its_streams_which_nothing_but_the_graph_keeps(self):
        import weakref

        workspace = self.workspace()
        gone = []
        for self.capture in range(1, 101):
            addresses = [workspace.address(stream) for stream in (7, 8, 7)]
            self.assertEqual((addresses[0] == addresses[2], addresses[0] == addresses[1]), (True, False))
            gone.append(weakref.ref(self.kept.pop(5000 + self.capture)))
        self.assertEqual([each() for each in gone], [None] * 100)
        self.assertEqual(self.made[0], (1 << 20, 4096, 1, None))
        self.assertLessEqual(len(workspace._of_capture), _workspace._MOST_CAPTURES)


class Allocation(unittest.TestCase):
    """On which stream, thread and device memory is allocated."""

    def setUp(self):
        import threading

        self.log, self.main = [], threading.get_ident()
        driver = mock.Mock()
        driver.cuThreadExchangeStreamCaptureMode.side_effect = lambda mode: self.log.append(("mode", mode._obj.value)) or 0
        driver.cuStreamCreate.side_effect = lambda place, flags: setattr(place._obj, "value", 4321) or 0

        def external(raw, device):
            return mock.Mock(name=f"external {raw}", synchronize=lambda: self.log.append(("synchronized", raw)), raw=raw)

        @contextlib.contextmanager
        def on_device(index):
            self.log.append(("device", index))
            yield

        @contextlib.contextmanager
        def stream(on):
            self.log.append(("stream", on.raw))
            yield

        def empty(size, dtype, device):
            self.assertNotEqual(threading.get_ident(), self.main, "the capturing thread allocates in the graph's pool")
            return torch.full((size,), 7, dtype=torch.uint8)

        for owner, name, value in (
            (_devices, "driver", lambda: driver),
            (_devices, "on_device", on_device),
            (torch.cuda, "stream", stream),
            (torch.cuda, "ExternalStream", external),
            (torch.cuda, "default_stream", lambda index: mock.Mock(raw=f"default of {index}")),
            (_workspace, "_own_streams", {}),
            (_workspace, "torch", mock.Mock(wraps=torch, empty=empty)),
        ):
            patcher = mock.patch.object(owner, name, value)
            patcher.start()
            self.addCleanup(patcher.stop)

    def test_of_streams_and_of_graphs(self):
        for stream, expected in ((0, [("stream", "default of 1")]), (99, [("stream", 99)]), (None, [("stream", 4321), ("synchronized", 4321)])):
            self.log.clear()
            memory = _workspace._allocate(64, 16, 1, stream)
            self.assertEqual(self.log, [("mode", 2), ("device", 1), *expected])
            self.assertEqual(memory.tolist(), [0] * 16 + [7] * 48)

    def test_what_fails_there_is_raised_here(self):
        with mock.patch.object(_workspace.torch, "empty", mock.Mock(side_effect=MemoryError("none left"))), self.assertRaisesRegex(MemoryError, "none left"):
            _workspace._allocate(64, 0, 0, 5)


class Bounds(unittest.TestCase):
    def test_a_cache_of_plans_is_bounded(self):
        cache = _engine.Cache()
        for i in range(20_000):
            cache.keep((i,), i)
        self.assertLessEqual(len(cache), _engine.MOST_PLANS)
        self.assertEqual(cache[19_999,], 19_999)



if __name__ == "__main__":
    unittest.main()
