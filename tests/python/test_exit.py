"""How programs end: threads of the library that still speak, threads that still launch, handles closed in the middle of their own work."""

import copy
import gc
import pickle
import threading
import unittest
import unittest.mock
import weakref

import autotune
from autotune import _library
from machine import Array, Driver, MachineTest
from test_run import Product, gemm_problem

PROGRAM = (
    "import autotune, threading, time, sys\nfrom test_run import *\ndriver, data, heard = Driver.only(), Product(), []\n"
    "def log(level, message): heard.append(message)\n"
)
NOISY = "handle = autotune.Handle(on_miss='background', database='/nonexistent/x.db', log=log)\n"


class Ends(MachineTest):
    def ends(self, code, script="", times=1, **environment):
        said = ""
        for _ in range(times):
            ended, said, _ = self.run_python(PROGRAM + code, script, **environment)
            self.assertEqual(ended, 0, said)
            self.assertNotIn("Exception ignored", said)
            self.assertNotIn("Fatal", said)
        return said

    def test_a_handle_with_a_log_function_and_work_in_the_background(self):
        for slow in ("", "nvrtc delay_ms=300\n"):
            self.ends(NOISY + "autotune.gemm(*data.arrays(), handle=handle)", slow, times=2)

    def test_an_exit_in_the_middle_of_a_log_function(self):
        self.ends(
            NOISY + "def slow(level, message): time.sleep(0.05)\n"
            "handles = [autotune.Handle(on_miss='background', database='/nonexistent/x.db', log=slow) for _ in range(4)]\n"
            "for each in handles: autotune.gemm(*data.arrays(), handle=each)",
            times=2,
        )

    def test_a_thread_that_still_launches(self):
        for call in ("plan.run(*data.arrays(), scalars=(1.0, 0.0), workspace=work)", "autotune.gemm(*data.arrays(), handle=handle)", "launch()"):
            self.ends(
                NOISY.replace("background", "compile") + "plan = handle.plan(gemm_problem())\n"
                "work = Array((plan.workspace_bytes // 4,), typestr='<f4') if plan.workspace_bytes else None\n"
                "launch = plan.bind(*data.arrays(), scalars=(1.0, 0.0), workspace=work)\n"
                "def work_on():\n"
                "    driver.make_current()\n"
                "    try:\n"
                f"        while True: {call}\n"
                "    except ValueError as error: assert 'the handle is closed' in str(error), error\n"
                "for _ in range(3): threading.Thread(target=work_on, daemon=True).start()\n"
                "time.sleep(0.2)",
                times=2,
            )

    def test_a_thread_that_still_plans_and_logs(self):
        self.ends(
            NOISY + "def work_on():\n"
            "    driver.make_current()\n"
            "    try:\n"
            "        for n in range(8, 8000, 8): handle.plan(autotune.Problem('gemm', {k: autotune.Tensor('f16', (n, n)) for k in 'abc'}))\n"
            "    except ValueError: pass\n"
            "threading.Thread(target=work_on, daemon=True).start()\ntime.sleep(0.1)",
            times=2,
        )

    def test_what_is_said_before_the_end_is_heard(self):
        said = self.ends(NOISY + "autotune.gemm(*data.arrays(), handle=handle)\nhandle.close()\nprint(len(heard) > 0)")
        self.assertEqual(said.strip(), "True")

    def test_a_child_of_fork_ends_too(self):
        self.ends(
            NOISY + "import os\nautotune.gemm(*data.arrays(), handle=handle)\nchild = os.fork()\n"
            "if child == 0: sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0"
        )

    def test_an_error_that_ends_the_program(self):
        ended, said, _ = self.run_python(PROGRAM + NOISY + "autotune.gemm(*data.arrays(), handle=handle)\nraise SystemExit(3)")
        self.assertEqual(ended, 3, said)

    def test_a_handle_is_closed_by_its_own_log_function(self):
        run = "autotune.gemm(*data.arrays(), handle=handle)"
        plan = "plan = handle.plan(gemm_problem())\nassert plan.candidate"
        for on_miss, first in (("compile", run), ("compile", plan), ("background", run), ("background", plan)):
            said = self.ends(
                "closed = []\n"
                "def log(level, message):\n"
                "    if closers: closers.pop().close(); closed.append(1)\n"
                "import os, pathlib\nbad = pathlib.Path(os.environ['HOME']) / 'bad.db'\nbad.write_text('this is no database' * 50)\nclosers = []\n"
                f"handle = autotune.Handle(on_miss='{on_miss}', database=bad, log=log)\nclosers.append(handle)\n"
                f"{first}\ntime.sleep(0.3)\nassert closed\n"
                "try: handle.plan(gemm_problem())\n"
                "except ValueError as error: print('closed:', error)",
                times=2,
            )
            self.assertEqual(said.strip(), "closed: the handle is closed")

    def test_a_log_function_that_fails_is_told_and_harms_nothing(self):
        ended, said, _ = self.run_python(
            PROGRAM + "def log(level, message): raise KeyError('mine')\n" + NOISY + "autotune.gemm(*data.arrays(), handle=handle)\n"
            "time.sleep(0.1)\nassert data.c.values() == data.expected"
        )
        self.assertEqual(ended, 0, said)
        self.assertIn("KeyError: 'mine'", said)


class Owned(MachineTest):
    def setUp(self):
        super().setUp()
        Driver.only().make_current()
        self.handle = autotune.Handle()
        self.addCleanup(self.handle.close)

    def test_copies_of_a_plan_are_the_plan(self):
        plan, data = self.handle.plan(gemm_problem()), Product()
        for copies in (copy.copy, copy.deepcopy, lambda it: copy.deepcopy([it])[0]):
            again = copies(plan)
            self.assertIs(again, plan)
            del again
            gc.collect()
        work = Array((plan.workspace_bytes // 4,), typestr="<f4") if plan.workspace_bytes else None
        plan.run(*data.arrays(), scalars=(1.0, 0.0), workspace=work)
        self.assertEqual(data.c.values(), data.expected)
        launch = plan.bind(*data.arrays(), scalars=(1.0, 0.0), workspace=work)
        self.assertIs(copy.deepcopy(launch), launch)

    def test_copies_of_a_handle_are_the_handle(self):
        for copies in (copy.copy, copy.deepcopy):
            again = copies(self.handle)
            self.assertIs(again, self.handle)
            del again
            gc.collect()
        self.handle.plan(gemm_problem())

    def test_plans_and_handles_are_not_pickled(self):
        plan = self.handle.plan(gemm_problem())
        launch = plan.bind(*Product().arrays(), scalars=(1.0, 0.0), workspace=1 << 20)
        for it, message in (
            (plan, "a Plan belongs to its process and CUDA context and cannot be pickled; send plan.problem, and plan it there"),
            (launch, "a Plan belongs to its process"),
            (self.handle, r"a Handle belongs to its process and cannot be pickled; make one in the other process: autotune.Handle\(...\)"),
        ):
            for protocol in (2, pickle.HIGHEST_PROTOCOL):
                with self.assertRaisesRegex(TypeError, message):
                    pickle.dumps(it, protocol)
        self.assertEqual(pickle.loads(pickle.dumps(plan.problem)), gemm_problem())

    def test_a_handle_is_given_back_by_the_last_that_uses_it(self):
        owned, destroyed = self.handle._owned, []
        address = owned._address
        with unittest.mock.patch.object(_library, "destroy", destroyed.append):
            with owned:
                with owned:
                    self.handle.close()
                    self.assertEqual(destroyed, [])
                    with self.assertRaisesRegex(ValueError, "the handle is closed"):
                        self.handle.plan(gemm_problem())
                self.assertEqual(destroyed, [])
            self.assertEqual(destroyed, [address])
            self.handle.close()
            self.assertEqual(destroyed, [address])
        _library.destroy(address)

    def test_a_handle_without_a_name_is_given_back(self):
        handle = autotune.Handle(log=lambda level, message: None)
        owned, handle_gone = weakref.ref(handle._owned), weakref.ref(handle)
        del handle
        gc.collect()
        self.assertEqual((handle_gone(), owned()), (None, None))

    def test_threads_close_one_handle_at_one_time(self):
        for _ in range(20):
            handle = autotune.Handle()
            threads = [threading.Thread(target=handle.close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def test_a_log_that_is_no_function(self):
        with self.assertRaisesRegex(TypeError, "log is 'print'; it must be a function of a level and a message"):
            autotune.Handle(log="print")


class Paths(MachineTest):
    def test_paths_of_every_kind(self):
        Driver.only().make_current()
        for name in ("plain.db", b"plain.db", "caf\u00e9.db", b"\xff\xfe.db"):
            import os
            import pathlib

            inside = os.path.join(os.fsencode(self.folder), os.fsencode(name))
            for path in (inside, os.fsdecode(inside), pathlib.Path(os.fsdecode(inside))):
                with autotune.Handle(database=path, record_misses=True) as handle:
                    handle.plan(gemm_problem())
                    handle.flush_misses()
                self.assertTrue(os.path.exists(inside), path)
                os.unlink(inside)

    def test_paths_that_are_none(self):
        for path, error, message in (
            ("a\0b", autotune.InvalidArgument, r"database is 'a\\x00b'; it must not contain a NUL character"),
            (5, TypeError, "database is 5; it must be a path: a str, bytes or os.PathLike"),
        ):
            with self.assertRaisesRegex(error, message):
                autotune.Handle(database=path)
        with self.assertRaisesRegex(TypeError, "pin is b'gemm'; it must be a str"):
            autotune.Handle(pin=b"gemm")


class Graphs(MachineTest):
    """Objects that a captured graph needs are kept until the graph is gone; the scripted driver decides when."""

    def test_what_a_graph_needs_lives_as_long_as_the_graph(self):
        ended, said, _ = self.run_python(
            "import ctypes, weakref, gc, time\nimport autotune\nfrom autotune import _graphs\nfrom test_run import *\n"
            "driver = Driver.only()\ncall, check = driver.library, driver.check\nstream = ctypes.c_void_p(driver.stream())\n"
            "class Memory: pass\n"
            "def capture():\n"
            "    check(call.cuStreamBeginCapture(stream, 0))\n    number, graph = _graphs.capture_of(stream.value)\n"
            "    memory = Memory()\n    _graphs.keep_for_graph(graph, memory)\n    made, executable = ctypes.c_void_p(), ctypes.c_void_p()\n"
            "    check(call.cuStreamEndCapture(stream, ctypes.byref(made)))\n"
            "    check(call.cuGraphInstantiateWithFlags(ctypes.byref(executable), made, ctypes.c_ulonglong(0)))\n"
            "    check(call.cuGraphDestroy(made))\n    return number, executable, weakref.ref(memory)\n"
            "kept = [capture() for _ in range(100)]\nassert len({each[0] for each in kept}) == 100\n"
            "assert all(memory() is not None for _, _, memory in kept), 'too early'\n"
            "for _, executable, _ in kept[:99]: check(call.cuGraphExecDestroy(executable))\n"
            "for _ in range(1000): pass\n"  # the main thread notices it between two instructions
            "_graphs.forget_ended()\n"
            "print(sum(memory() is not None for _, _, memory in kept), len(_graphs._kept))"
        )
        self.assertEqual((ended, said.strip()), (0, "1 1"), said)


if __name__ == "__main__":
    unittest.main()
