#!/usr/bin/env python3
"""The programs that measure kernel files beside others read the same space, and the same log, as autotune."""

import itertools
import pathlib
import sys
import unittest

if sys.version_info < (3, 11):  # no tomllib
    print("skipped: the programs need Python 3.11")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "kernel_files"))
from figures import STAMP, first_within, time_of  # noqa: E402
from kernel_file import FUNCTIONS, File  # noqa: E402


def example(name, shape, **attributes):
    return File(ROOT / "examples" / "kernels" / f"{name}.toml", shape, attributes)


def legal(file):
    """All configs that the restrictions allow, as Kernel Tuner evaluates them."""
    for values in itertools.product(*file.parameters.values()):
        config = dict(zip(file.parameters, values))
        if all(eval(text, dict(FUNCTIONS), config) for text in file.restrictions()):
            yield config


class KernelFileTest(unittest.TestCase):
    def test_counts_as_many_legal_configs_as_autotune(self):  # `autotune check` says these numbers
        self.assertEqual(sum(1 for _ in legal(example("conv2d", "4096", filter="15"))), 1056)
        self.assertEqual(sum(1 for _ in legal(example("tiled_gemm", "1024x1024x1024"))), 1674)

    def test_knows_the_launch_and_the_macros_of_a_config(self):
        file = example("conv2d", "4096", filter="15")
        config = {"block_x": 64, "block_y": 2, "tile_x": 2, "tile_y": 4, "unroll_rows": 3, "use_smem": 1}
        self.assertEqual([file.number(text, **config) for text in file.step["grid"]], [32, 512])
        self.assertEqual(file.number(file.step["smem"], **config), (2 * 4 + 14) * (64 * 2 + 14) * 4)
        self.assertEqual(file.number(file.step["smem"], **{**config, "use_smem": 0}), 0)
        self.assertEqual(file.defines(), ["-DAUTOTUNE", "-Dfilter_size=15"])
        self.assertEqual(file.known["image.stride0"], 4112)
        self.assertEqual(file.elements(file.said["tensor"][0]), 4109 * 4112 + 4110)

    def test_takes_the_time_to_a_config_that_the_record_confirms(self):
        known = {(1,): 100.0, (2,): 100.5, (3,): 110.0}
        self.assertEqual(first_within([(1.0, 120.0, (3,)), (2.0, None, (1,)), (3.0, 101.0, (2,))], known, 1), 3.0)
        self.assertIsNone(first_within([(1.0, 99.0, (3,)), (2.0, 100.0, (1,))], known, 1))  # the tuner itself believes in the wrong one
        self.assertAlmostEqual(time_of("2026-11-29T05:30:32.514") - time_of("2026-11-29T05:30:31.014"), 1.5)
        self.assertRegex("2026-11-29T05:30:32.514Z trace   GPU worker 1: setup: done", STAMP + r" trace +GPU worker \d+: setup: done")


if __name__ == "__main__":
    unittest.main()
