"""tune, sweep and report: the command's processes on the scripted driver."""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from unittest import mock

import autotune
from autotune.command import command_path
from autotune.tuning import _flags
from machine import EXAMPLES, Driver, MachineTest

QUICK = dict(trials=3, family="simt")


def problem(m):
    return autotune.Problem(
        "gemm", {"a": autotune.Tensor("f16", (m, 64)), "b": autotune.Tensor("f16", (64, 32)), "c": autotune.Tensor("f16", (m, 32))}
    )


class Tune(MachineTest):
    def test_a_problem_is_tuned_and_then_planned(self):
        trials = []
        result = autotune.tune(problem(64), progress=trials.append, trials=3)
        self.assertEqual((result.op, result.shape, result.key), ("gemm", "64x32x64", problem(64).key))
        self.assertTrue(result.tuned and result.timed)
        self.assertRegex(result.winner.family, "^gemm/")
        self.assertLessEqual(result.winner.low_us, result.winner.high_us)
        self.assertEqual(result.winner.rate_unit, "tflops")
        self.assertTrue(trials)
        Driver.only().make_current()
        plan = autotune.Handle().plan(problem(64))
        self.assertEqual((plan.origin, plan.candidate), ("exact", result.winner.candidate))
        self.assertAlmostEqual(plan.info.recorded_us, result.winner.median_us)

    def test_the_best_of_one_family_is_not_what_a_plan_takes(self):
        autotune.tune(problem(72), **QUICK)
        Driver.only().make_current()
        self.assertIn(autotune.Handle().plan(problem(72)).origin, ("default", "near"))

    def test_words_and_options(self):
        result = autotune.tune("hgemm", "64x32x64", layout="nt", **QUICK)
        self.assertIn("layout=nt", result.key)

    def test_no_context_is_made_in_this_process(self):
        code, said, calls = self.run_python(
            "import os, autotune\nautotune.tune('hgemm', '64x32x64', trials=3, family='simt')\nprint('PID', os.getpid())"
        )
        self.assertEqual(code, 0, said)
        own = said.split("PID ")[1].strip()
        contexts = [call for call in calls if "cuDevicePrimaryCtxRetain" in call or "cuCtxCreate" in call]
        self.assertTrue(contexts)
        self.assertFalse([call for call in contexts if call.startswith(own + " ")])

    def test_the_commands_message_is_the_exceptions(self):
        with self.assertRaisesRegex(autotune.CommandError, "layout") as caught:
            autotune.tune("hgemm", "64x32x64", layout="xy")
        self.assertEqual(caught.exception.exit_code, 2)

    def test_a_command_that_cannot_start_is_an_error_with_its_remedy(self):
        cases = (
            (errno.ENOENT, "No such file or directory; install the package again", 127),
            (errno.EACCES, "Permission denied; install the package again, on a file system that allows programs", 126),
            (errno.E2BIG, "Argument list too long; give fewer or shorter arguments", 126),
            (errno.EAGAIN, "Resource temporarily unavailable; the system allows no more processes: ulimit -u", 126),
            (errno.ENOMEM, "Cannot allocate memory; the system has no memory left for it", 126),
            (errno.EIO, "Input/output error", 126),
        )
        for code, text, exit_code in cases:
            failure = OSError(code, os.strerror(code))
            with mock.patch("subprocess.Popen", side_effect=failure), self.assertRaises(autotune.CommandError) as caught:
                autotune.tune("hgemm", "64x32x64")
            self.assertEqual(str(caught.exception), f"cannot start {command_path()}: {text}")
            self.assertEqual(caught.exception.exit_code, exit_code)

    def test_a_shape_is_wanted(self):
        with self.assertRaisesRegex(TypeError, "wants a shape"):
            autotune.tune("hgemm")

    def test_an_exception_of_the_listener_ends_the_tune(self):
        class Enough(Exception):
            pass

        def stop(progress):
            raise Enough()

        with self.assertRaises(Enough):
            autotune.tune(problem(64), progress=stop, trials=40, budget="30s")

    def test_flags(self):
        self.assertEqual(
            _flags(dict(total_budget="1h", retune=True, family=["a", "b"], db=None, stride_a=3)),
            ["--total-budget", "1h", "--retune", "--family", "a", "--family", "b", "--stride_a", "3"],
        )


class Sweep(MachineTest):
    def test_problems_come_as_they_end(self):
        heard = []
        result = autotune.sweep([problem(64), {"op": "hgemm", "shape": "128x32x64"}], progress=heard.append, **QUICK)
        self.assertEqual([item.state for item in result.items], ["tuned", "tuned"])
        self.assertEqual([(each.done, each.total) for each in heard], [(1, 2), (2, 2)])
        self.assertEqual({item.key for item in result.items}, {problem(64).key, problem(128).key})
        again = autotune.sweep([problem(64)], **QUICK)
        self.assertEqual([item.state for item in again.items], ["fresh"])
        row = again.records()[0]
        self.assertEqual((row["op"], row["state"], row["family"]), ("gemm", "fresh", "gemm/simt"))
        self.assertGreater(row["median_us"], 0)

    def test_the_example_prints_a_table(self):
        ended = subprocess.run([sys.executable, str(EXAMPLES / "tune_shapes.py"), "2t"], capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([line.split()[:2] for line in ended.stdout.splitlines()], [[f"{m}x4096x4096", "tuned"] for m in (1, 16, 64)])
        self.assertIn("3/3", ended.stderr)

    def test_the_notebooks_cells_run_one_after_another(self):
        notebook = json.loads((EXAMPLES / "tuning.ipynb").read_text())
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([(cell["outputs"], cell["execution_count"]) for cell in cells], [([], None)] * len(cells))
        names = {}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            for cell in cells:
                source = "".join(cell["source"]).replace('"5s"', '"2t"').replace("4096, 4096", "64, 64")
                exec(compile(source, "tuning.ipynb", "exec"), names)
        self.assertEqual([item.shape for item in names["swept"].items], [f"{m}x64x64" for m in (1, 16, 64)])
        self.assertIn(names["result"].winner.candidate, said.getvalue())

    def test_nothing_is_swept_at_once(self):
        self.assertEqual(autotune.sweep([]).items, [])

    def test_the_report_is_a_page_that_runs_nothing(self):
        autotune.sweep([problem(64)], **QUICK)
        page = autotune.report()
        self.assertIn("64x32x64", page.page)
        shown = page._repr_html_()
        self.assertTrue(shown.startswith("<iframe sandbox srcdoc="))
        saved = page.save(str(self.folder / "page.html"))
        with open(saved) as file:
            self.assertEqual(file.read(), page.page)


class Command(MachineTest):
    def test_python_m_autotune_is_the_command(self):
        ended = subprocess.run([sys.executable, "-m", "autotune", "--version"], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn(autotune.__version__, ended.stdout)
        ended = subprocess.run([sys.executable, "-m", "autotune", "tune", "--op", "nonsense"], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 2)

    def test_shipped_winners_come_with_the_package(self):
        import os

        del os.environ["AUTOTUNE_SHIPPED"]
        self.assertGreater(autotune.command.run_json(["show", "--limit", "1"])["total"], 100)
