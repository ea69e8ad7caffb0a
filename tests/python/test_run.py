"""Handles, plans and launches on the scripted driver, whose products of small matrices are right."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref
from unittest import mock

import autotune
from autotune import _dlpack, _library
from machine import EXAMPLES, Array, Driver, MachineTest, integers, product

M, N, K = 48, 40, 32


def gemm_problem(**attributes):
    tensors = {"a": autotune.Tensor("f16", (M, K)), "b": autotune.Tensor("f16", (K, N)), "c": autotune.Tensor("f16", (M, N))}
    return autotune.Problem("gemm", tensors, attributes)


class Product:
    """A, B and C in device memory, and the right values of C."""

    def __init__(self, seed=1):
        values = integers(M * K, seed), integers(K * N, seed + 1)
        self.a, self.b, self.c = Array((M, K), values[0]), Array((K, N), values[1]), Array((M, N))
        self.expected = product(*values, M, N, K)

    def arrays(self):
        return self.a, self.b, self.c


class Protocol:
    """A stream of another package."""

    def __init__(self, handle=0x1234):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


class Run(MachineTest):
    def setUp(self):
        super().setUp()
        self.driver = Driver.only()
        self.driver.make_current()
        self.handle = autotune.Handle()
        self.addCleanup(self.handle.close)

    def test_a_plan_tells_what_it_is(self):
        plan = self.handle.plan(gemm_problem())
        self.assertEqual(plan.origin, "default")
        self.assertTrue(plan.candidate.startswith("gemm/"))
        self.assertGreater(plan.info.predicted_us, 0)
        self.assertEqual(plan.info.recorded_us, 0)
        self.assertEqual((plan.info.candidate_when_zero, plan.info.origin_when_zero), ("", plan.origin))
        self.assertNotEqual(plan.info.expected_regret, 0)
        self.assertGreaterEqual(plan.workspace_bytes, plan.workspace_zero_bytes)

    def workspace_of(self, plan):
        return Array((plan.workspace_bytes // 4,), typestr="<f4") if plan.workspace_bytes else None

    def test_run_computes_the_product(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        plan.run(*data.arrays(), scalars=(1.0, 0.0), workspace=self.workspace_of(plan))
        self.assertEqual(data.c.values(), data.expected)

    def test_a_bound_launch_computes_it_again_and_again(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        launch = plan.bind(*data.arrays(), scalars=(2.0, 0.0), workspace=self.workspace_of(plan))
        stream = self.driver.stream()
        for _ in range(3):
            data.c.upload([7] * (M * N))
            launch(stream)
            self.assertEqual(data.c.values(), [2 * each for each in data.expected])

    def test_a_launch_outlives_its_plan_and_handle(self):
        data, handle = Product(), autotune.Handle()
        plan = handle.plan(gemm_problem())
        launch = plan.bind(*data.arrays(), scalars=(1.0, 0.0), workspace=self.workspace_of(plan))
        handle.close()
        del plan, handle
        gc.collect()
        launch()
        self.assertEqual(data.c.values(), data.expected)

    def without_quick_calls(self):
        """The calls in a Python that cannot load quick_calls.so."""
        return mock.patch.object(_library, "_quick", None)

    def test_a_launch_is_the_same_by_quick_calls_and_by_ctypes(self):
        self.assertIsNotNone(_library._quick, "CPython loads quick_calls.so")
        data, plan = Product(), self.handle.plan(gemm_problem())
        options = {"scalars": (1.0, 0.0), "workspace": self.workspace_of(plan)}
        quick = plan.bind(*data.arrays(), **options)
        with self.without_quick_calls():
            slow = plan.bind(*data.arrays(), **options)
        self.assertIn("Enqueues the plan's kernels", quick.__doc__)
        for launch in (quick, slow):
            for call in (lambda: launch(0), lambda: launch(stream=self.driver.stream()), launch):
                data.c.upload([7] * (M * N))
                self.assertIsNone(call())
                self.assertEqual(data.c.values(), data.expected)
            for wrong in (lambda: launch(0, 0), lambda: launch(queue=0), lambda: launch(0, stream=0)):
                self.assertRaises(TypeError, wrong)
            for wrong, error, message in (
                ("0", TypeError, "str is no stream: give an int or an object with __cuda_stream__"),
                (True, TypeError, "bool is no stream: give an int or an object with __cuda_stream__"),
                (1.0, TypeError, "float is no stream: give an int or an object with __cuda_stream__"),
                (2**64, autotune.InvalidArgument, "the stream is 18446744073709551616; it must be from 0 to 18446744073709551615"),
                (-1, autotune.InvalidArgument, "the stream is -1; it must be from 0 to 18446744073709551615"),
            ):
                with self.assertRaises(error) as said:
                    launch(wrong)
                self.assertEqual(str(said.exception), message)
            for stream in (None, Protocol(self.driver.stream())):
                data.c.upload([7] * (M * N))
                launch(stream)
                self.assertEqual(data.c.values(), data.expected)
            before = sys.getrefcount(None)
            for _ in range(100):
                launch(0)
            self.assertLess(abs(sys.getrefcount(None) - before), 50)

    def test_a_launch_raises_what_the_library_refuses(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        with self.without_quick_calls():
            slow = plan.bind(data.a.address + 2, data.b, data.c, scalars=(1.0, 0.0), workspace=1 << 20)
        for launch in (plan.bind(data.a.address + 2, data.b, data.c, scalars=(1.0, 0.0), workspace=1 << 20), slow):
            with self.assertRaisesRegex(autotune.Misaligned, "a multiple of 16 bytes"):
                launch(0)

    def test_a_launch_keeps_its_arrays_and_lets_them_go(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        launch = plan.bind(*data.arrays(), scalars=(1.0, 0.0), workspace=self.workspace_of(plan))
        kept = weakref.ref(data.c)
        data.c.launch = launch  # a cycle
        del data
        gc.collect()
        self.assertIsNotNone(kept())
        del launch
        gc.collect()
        self.assertIsNone(kept())

    def test_quick_calls_check_what_they_are_given(self):
        for call, count in ((_library.run, 3), (_library.gemm, 9)):
            with self.assertRaisesRegex(TypeError, f"takes {count} integers, not 1"):
                call(0)
            with self.assertRaises(TypeError):
                call(*["0"] * count)
            self.assertEqual(call(*[0] * count), autotune.InvalidArgument.status)

    def test_a_call_on_other_addresses_leaves_the_call_as_it_is(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        call = plan._call((0, 0, 0), (1.0, 0.0), None, 0)
        work, addresses = self.workspace_of(plan), [each.address for each in data.arrays()]
        fixed = plan._address, call.pointer, work.address if work else 0, plan.workspace_bytes, 0
        for run_on in (_library.run_on, _library._run_on_by_ctypes):
            data.c.upload([7] * (M * N))
            self.assertEqual(run_on(*fixed, *addresses), 0)
            self.assertEqual(data.c.values(), data.expected)
            self.assertEqual((list(call.addresses), call.struct.workspace), ([None] * 3, None))
            self.assertEqual(run_on(*fixed, *addresses[:2]), autotune.InvalidArgument.status)
        for wrong in (fixed[:4], fixed + (0,) * 33, (*fixed, "c")):
            self.assertRaises(TypeError, _library.run_on, *wrong)

    def test_one_call_takes_beta_and_strides(self):
        data = Product()
        data.c.upload([1] * (M * N))
        transposed = Array((K, N), integers(K * N, 2), strides=(2, 2 * K))
        transposed.upload([integers(K * N, 2)[p * N + j] for j in range(N) for p in range(K)])
        autotune.gemm(data.a, transposed, data.c, alpha=1, beta=3, handle=self.handle)
        self.assertEqual(data.c.values(), [each + 3 for each in data.expected])

    def test_streams_are_ints_protocols_and_objects(self):
        class Torch:
            cuda_stream = 77

        self.assertEqual(autotune.stream_handle(Protocol()), 0x1234)
        self.assertEqual(autotune.stream_handle(Torch()), 77)
        self.assertEqual(autotune.stream_handle(None), 0)
        self.assertEqual(autotune.stream_handle(5), 5)
        with self.assertRaisesRegex(TypeError, "no stream"):
            autotune.stream_handle("0")

    def test_threads_share_a_handle(self):
        failures = []

        def work(seed):
            try:
                self.driver.make_current()
                stream = self.driver.stream()
                data = Product(seed)
                for _ in range(20):
                    autotune.gemm(*data.arrays(), handle=self.handle, stream=stream)
                if data.c.values() != data.expected:
                    failures.append(f"seed {seed}: wrong")
            except Exception as failure:
                failures.append(repr(failure))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_child_after_fork_is_told(self):
        plan = self.handle.plan(gemm_problem())
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            said = "nothing"
            try:
                self.handle.plan(gemm_problem())
            except autotune.Forked as error:
                said = str(error)
            try:
                plan.run(1 << 20, 1 << 20, 1 << 20, scalars=(1.0, 0.0))
            except autotune.Forked:
                said += "; the plan too"
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)
        said = os.read(reading, 1000).decode()
        os.close(reading)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn("CUDA does not survive a fork", said)
        self.assertIn("the plan too", said)

    def test_misses_are_recorded_for_a_sweep(self):
        handle = autotune.Handle(record_misses=True)
        handle.plan(gemm_problem())
        handle.flush_misses()
        handle.close()
        misses = autotune.command.run_json(["show", "--misses"])["misses"]
        self.assertEqual([miss["shape"] for miss in misses], [f"{M}x{N}x{K}"])

    def test_the_log_hears_of_a_broken_database(self):
        (self.folder / "bad.db").write_text("this is no database, whatever its name says" * 10)
        heard = []
        handle = autotune.Handle(database=str(self.folder / "bad.db"), log=lambda level, message: heard.append((level, message)))
        handle.plan(gemm_problem())
        self.assertTrue(any(level == "warning" and "bad.db" in message for level, message in heard), heard)


class OnDevice:
    """An array that names its device by DLPack."""

    def __init__(self, array, device):
        self.array, self.device = array, device
        extents = (ctypes.c_int64 * len(array.shape))(*array.shape)
        self.raw = _dlpack.Managed(_dlpack.Tensor(array.address, 2, device, len(array.shape), 2, 16, 1, extents, None, 0), None, None)
        self.raw.keep = extents

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, *, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.raw), b"dltensor", None)


class Refusals(MachineTest):
    """Bad input raises one exception that names what is wrong."""

    def setUp(self):
        super().setUp()
        Driver.only().make_current()
        self.handle = autotune.Handle()
        self.addCleanup(self.handle.close)

    def test_unknown_op(self):
        with self.assertRaisesRegex(autotune.InvalidArgument, "unknown op 'convolution'"):
            self.handle.plan(autotune.Problem("convolution", {}))

    def test_mixed_extents(self):
        with self.assertRaisesRegex(ValueError, "columns of a and the rows of b"):
            autotune.gemm(Array((4, 8)), Array((9, 4)), Array((4, 4)), handle=self.handle)

    def test_mixed_dtypes(self):
        with self.assertRaisesRegex(autotune.InvalidArgument, "b is f32 but a is f16; gemm wants one type for all"):
            autotune.gemm(Array((4, 8)), Array((8, 4), typestr="<f4"), Array((4, 4)), handle=self.handle)

    def test_rows_of_a_result_that_overlap(self):
        with self.assertRaisesRegex(autotune.InvalidArgument, "a row of c as stored has 4 elements; give that or more"):
            autotune.gemm(Array((4, 8)), Array((8, 4)), Array((4, 4), strides=(2, 2)), handle=self.handle)

    def test_arrays_of_another_device(self):
        here, there = OnDevice(Array((8, 8)), 0), OnDevice(Array((8, 8)), 1)
        with self.assertRaisesRegex(autotune.InvalidArgument, "on devices 0, 1; move them to one"):
            autotune.gemm(here, there, here, handle=self.handle)
        with self.assertRaisesRegex(autotune.InvalidArgument, "on device 1 and the current context is of device 0; make"):
            autotune.gemm(there, there, there, handle=self.handle)
        autotune.gemm(here, here, OnDevice(Array((8, 8)), 0), handle=self.handle)

    def test_wrong_count_of_arrays(self):
        with self.assertRaisesRegex(autotune.InvalidArgument, "2 tensors"):
            self.handle.plan(gemm_problem()).run(1 << 20, 1 << 21, scalars=(1.0, 0.0))

    def test_wrong_count_of_scalars(self):
        data, plan = Product(), self.handle.plan(gemm_problem())
        for scalars in ((), (1.0,), (1.0, 0.0, 3.0)):
            for call in (plan.run, plan.bind, lambda *arrays, scalars: self.handle.run(gemm_problem(), *arrays, scalars=scalars)):
                with self.assertRaises(autotune.InvalidArgument) as said:
                    call(*data.arrays(), scalars=scalars)
                self.assertEqual(str(said.exception), f"the call passes {len(scalars)} scalars; op gemm takes 2: alpha, beta")
        row = Array((64,), typestr="<f4")
        with self.assertRaises(autotune.InvalidArgument) as said:
            self.handle.run(autotune.Problem("add", {name: autotune.Tensor("f32", (64,)) for name in "abc"}), row, row, row, scalars=(1.0,))
        self.assertEqual(str(said.exception), "the call passes 1 scalars; op add takes 0")

    def test_misaligned(self):
        data = Product()
        with self.assertRaises(autotune.Misaligned):
            self.handle.plan(gemm_problem()).run(data.a.address + 2, data.b, data.c, scalars=(1.0, 0.0), workspace=1 << 20)

    def test_host_arrays(self):
        with self.assertRaisesRegex(TypeError, "neither __cuda_array_interface__ nor __dlpack__"):
            autotune.gemm([1], [2], [3], handle=self.handle)

    def test_unknown_dtype(self):
        with self.assertRaisesRegex(TypeError, "complex64"):
            autotune.Tensor("complex64", (4, 4))

    def test_too_many_dimensions(self):
        with self.assertRaisesRegex(ValueError, "6 dimensions; at most 5"):
            autotune.Tensor("f16", (1,) * 6)

    def test_unknown_policy(self):
        with self.assertRaisesRegex(ValueError, "on_miss is 'search'"):
            autotune.Handle(on_miss="search")

    def test_a_policy_that_forbids_compiling(self):
        with autotune.Handle(on_miss="not_planned") as handle, self.assertRaises(autotune.NotPlanned):
            data = Product()
            autotune.gemm(*data.arrays(), handle=handle)

    def test_a_dead_stream(self):
        code, said, _ = self.run_python(
            "import autotune\nfrom test_run import *\ndriver, data = Driver.only(), Product()\n"
            "try: autotune.gemm(*data.arrays(), stream=driver.stream())\nexcept autotune.DriverError as e: print(type(e).__name__, e)",
            "rule on=cuLaunchKernelEx do=return code=400\n",  # the driver's result for an unknown stream
        )
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"DriverError .*cuLaunchKernelEx")

    def test_a_closed_handle(self):
        self.handle.close()
        with self.assertRaisesRegex(ValueError, "the handle is closed"):
            self.handle.plan(gemm_problem())

    def test_no_context(self):
        driver = Driver.only()
        driver.make_current(False)
        self.addCleanup(driver.make_current)
        with self.assertRaisesRegex(autotune.NoContext, "make one current"):
            self.handle.plan(gemm_problem())

    def test_no_device(self):
        code, said, _ = self.run_python(
            "import autotune\ntry: autotune.Handle()\nexcept autotune.NoGpu as e: print('NoGpu:', e)", "driver init=100\n"
        )
        self.assertEqual(code, 0, said)
        self.assertIn("NoGpu:", said)

    def test_no_driver(self):
        code, said, _ = self.run_python(
            "import ctypes, autotune\ntry: ctypes.CDLL('libcuda.so.1'); print('a driver')\nexcept OSError: pass\n"
            "try: autotune.Handle()\nexcept autotune.NoGpu as e: print('NoGpu:', e)",
            LD_LIBRARY_PATH="",
        )
        if "a driver" in said:
            self.skipTest("this machine has a driver")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, "NoGpu: .*no NVIDIA driver: .*; `python -m autotune doctor` tells what this machine lacks")

    def test_a_compiler_that_refuses(self):
        code, said, _ = self.run_python(
            "import autotune\nfrom test_run import *\nDriver.only()\n"
            "try: autotune.Handle().plan(gemm_problem())\nexcept autotune.CompileFailed as e: print('CompileFailed:', e)",
            'rule on=compile do=fail message="no such instruction"\n',
        )
        self.assertEqual(code, 0, said)
        self.assertIn("CompileFailed:", said)

    def test_a_device_without_memory(self):
        code, said, _ = self.run_python(
            "import autotune\nfrom test_run import *\nDriver.only()\n"
            "try: autotune.Handle().plan(gemm_problem())\nexcept autotune.Error as e: print(type(e).__name__, e.status)",
            "rule on=load do=return code=2\n",
        )
        self.assertEqual((code, said.split()), (0, ["OutOfMemory", "9"]), said)


class Example(MachineTest):
    def test_a_first_call_with_nothing_but_the_package(self):
        ended = subprocess.run([sys.executable, str(EXAMPLES / "first_call.py")], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"right, by gemm/.*\nimport autotune .*\ndriver, context, arrays .*\nfirst product .*\nsecond ")


class HotPath(MachineTest):
    def test_a_second_call_neither_looks_up_nor_compiles(self):
        code, said, calls = self.run_python(
            "import autotune\nfrom test_run import *\nDriver.only()\ndata, handle = Product(), autotune.Handle()\n"
            "for _ in range(3): autotune.gemm(*data.arrays(), handle=handle)\nassert data.c.values() == data.expected"
        )
        self.assertEqual(code, 0, said)
        self.assertEqual(sum("nvrtcCompileProgram" in call for call in calls), 1)
        self.assertEqual(sum("cuLibraryLoadData" in call for call in calls), 1)

    def test_a_launch_that_ran_before_asks_the_driver_for_launches_alone(self):
        code, said, calls = self.run_python(
            "import autotune\nfrom test_run import *\ndriver = Driver.only()\ndata, handle = Product(), autotune.Handle()\n"
            "plan = handle.plan(gemm_problem())\n"
            "work = Array((plan.workspace_bytes // 4,), typestr='<f4') if plan.workspace_bytes else None\n"
            "launch = plan.bind(*data.arrays(), scalars=(1.0, 0.0), workspace=work)\nlaunch()\n"
            "driver.library.cuMemGetInfo(machine.ctypes.byref(machine.ctypes.c_size_t()), machine.ctypes.byref(machine.ctypes.c_size_t()))\n"
            "for _ in range(5): launch()\ndriver.library.cuMemGetInfo(machine.ctypes.byref(machine.ctypes.c_size_t()), machine.ctypes.byref(machine.ctypes.c_size_t()))"
        )
        self.assertEqual(code, 0, said)
        marks = [i for i, call in enumerate(calls) if call.endswith("cuMemGetInfo") or " cuMemGetInfo " in call]
        between = [call.split()[1] for call in calls[marks[-2] + 1 : marks[-1]]]
        self.assertTrue(between, calls)
        self.assertEqual(set(between) - {"cuLaunchKernelEx", "execute"}, set(), between)


if __name__ == "__main__":
    unittest.main()
