"""What the benchmark of models says: intervals, ratios, and lines that a later run takes over. Without torch."""

import json
import pathlib
import random
import statistics
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "models"))

import ratios  # noqa: E402
import report  # noqa: E402


def result(model="bert", mode="eager", ours=(1.1, 1.05, 1.2), **more):
    return {
        "model": model, "step": "infer", "mode": mode, "layers": 0, "tiny": False,
        "ms": {"torch": 2.0, "ours": 1.8}, "errors": {"torch": 0.01, "ours": 0.011}, "ratios": {"torch/ours": ours}, "taken": 7, **more,
    }


class Intervals(unittest.TestCase):
    def test_ends_are_the_values_of_the_known_ranks(self):
        median, low, high = ratios.interval([float(i) for i in range(1, 22)])
        self.assertEqual((median, low, high), (11.0, 6.0, 16.0))  # ranks of 21 values at 95 %

    def test_few_values_give_the_least_and_the_largest(self):
        for count in range(1, 7):
            values = [float(i) for i in range(count)]
            self.assertEqual(ratios.interval(values)[1:], (0.0, count - 1.0))

    def test_holds_the_median_as_often_as_it_says(self):
        drawn = random.Random(3)
        held = 0
        for _ in range(2000):
            _, low, high = ratios.interval([drawn.lognormvariate(0, 1) for _ in range(15)])
            held += low <= 1.0 <= high
        self.assertGreaterEqual(held / 2000, 0.94)

    def test_is_of_pairs_and_not_of_medians(self):
        times = {"torch": [1.0, 2.0, 4.0], "ours": [0.5, 1.0, 2.0], "torch*": [1.0, 1.0, 1.0]}
        found = ratios.ratios_of(times)
        self.assertEqual(found["torch/ours"], (2.0, 2.0, 2.0))
        self.assertEqual(set(found), {"torch/ours", "torch/torch*", "torch*/ours"})
        self.assertEqual(found["torch*/ours"][0], statistics.median([2.0, 1.0, 0.5]))


class Results(unittest.TestCase):
    def read(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.jsonl"
            path.write_text("\n".join(lines))
            return report.read([path])

    def test_a_later_line_replaces_an_earlier_one(self):
        found = self.read(json.dumps(result(taken=1)), json.dumps(result(taken=2)), json.dumps(result(mode="graph")))
        self.assertEqual([each["taken"] for each in found], [2, 7])

    def test_a_failure_replaces_no_result_and_a_cut_line_is_left_out(self):
        failed = {"model": "bert", "step": "infer", "mode": "eager", "layers": 0, "tiny": False, "failed": "OutOfMemoryError"}
        found = self.read(json.dumps(result()), json.dumps(failed), json.dumps(result(mode="graph"))[:40])
        self.assertEqual(len(found), 1)
        self.assertNotIn("failed", found[0])

    def test_the_table_has_failures_and_means_with_the_low_ends(self):
        failed = {"model": "t5", "step": "infer", "mode": "eager", "failed": "RuntimeError: x"}
        said = report.table([result(), result("gpt2", ours=(4.4, 0.99, 5.0)), failed])
        self.assertIn("RuntimeError: x", said)
        self.assertIn("1.100 [1.050, 1.200]", said)
        self.assertIn("infer eager torch/ours: 2 models, mean 2.200, without the best 1.100; lowest low end 0.990; low end above 1: 1", said)

    def test_no_results_are_said_to_be_none(self):
        self.assertEqual(report.table([]), "no results")


if __name__ == "__main__":
    unittest.main()
