#!/usr/bin/env python3
"""Tunes the kernel of a kernel file with Kernel Tuner: the same source, problem, parameters and constraints.

    kernel_tuner_side.py examples/kernels/conv2d.toml --shape 4096 --set filter=15 --seconds 45 --strategy genetic_algorithm --out FILE

Needs kernel_tuner and, for the backend, cupy or cuda-python. Writes each config with the time of day at which its result was known.
Three things are made better for Kernel Tuner than it is: a block may be an expression of parameters, kernels may take more than 48 KiB
of dynamic shared memory, and an error of one config does not end the run. Answers are not checked. Kernels of one step, dense or padded f32 tensors.
"""
import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

from kernel_file import DEVICE, File


def allow_large_blocks_of_shared_memory():
    """CuPy's kernels refuse more than 48 KiB unless their limit is raised, which Kernel Tuner does not do."""
    from kernel_tuner.backends import cupy as backend

    plain = backend.CupyFunctions.compile

    def compile_with_limit(self, instance):
        function = plain(self, instance)
        with contextlib.suppress(Exception):  # then launches with more fail, each for itself
            function.max_dynamic_shared_size_bytes = DEVICE["smem_per_block"] - function.shared_size_bytes
        return function

    backend.CupyFunctions.compile = compile_with_limit


def keep_going(trials, names):
    """Notes each config with its time of day. A config that ends in an error counts as failed: Kernel Tuner alone would end here."""
    from kernel_tuner import core, util

    plain = core.DeviceInterface.compile_and_benchmark

    def noted(self, source, arguments, params, *rest):
        try:
            result = plain(self, source, arguments, params, *rest)
        except Exception as error:
            print(f"{params}: {type(error).__name__} {str(error)[:300]}", file=sys.stderr)
            result = {"__error__": util.RuntimeFailedConfig(), "compile_time": 0, "verification_time": 0, "benchmark_time": 0}
        us = None if "__error__" in result else float(result["time"]) * 1000
        trials.append({"at": time.time(), "us": us, "config": {name: int(params[name]) for name in names}, "compile_ms": result["compile_time"],
                       "benchmark_ms": result["benchmark_time"]})
        return result

    core.DeviceInterface.compile_and_benchmark = noted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--set", action="append", default=[], help="an attribute: filter=15")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--strategy", default="genetic_algorithm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="CUPY", choices=["CUPY", "NVCUDA"])
    parser.add_argument("--most", type=int, help="evaluations at most")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    begun = time.time()
    os.environ.setdefault("CUPY_CACHE_DIR", tempfile.mkdtemp())  # cold: nothing that was compiled before
    import numpy
    import kernel_tuner
    from kernel_tuner import util

    file = File(options.file, options.shape, dict(word.split("=") for word in options.set))
    if options.backend == "CUPY":
        allow_large_blocks_of_shared_memory()
    block, grid = file.step["block"], file.step["grid"]
    of_block = lambda params, names=None: tuple(([file.number(e, **params) for e in block] + [1, 1])[:3])
    util.get_thread_block_dimensions = of_block
    limits = {"time_limit": options.seconds} | ({"max_fevals": options.most} if options.most else {})
    more = {}
    if "smem" in file.step:
        more["smem_args"] = {"size": lambda params: file.number(file.step["smem"], **{p: params[p] for p in file.parameters})}
    trials = []
    keep_going(trials, file.parameters)
    try:
        kernel_tuner.tune_kernel(
            file.step["kernel"],
            file.source(),
            lambda params: tuple(file.number(e, **{p: params[p] for p in file.parameters}) for e in grid),
            file.arguments(numpy),
            file.parameters,
            grid_div_x=[],
            grid_div_y=[],
            restrictions=file.restrictions(),
            lang=options.backend,
            compiler_options=["-std=c++17", "-default-device", *file.defines()],
            strategy=options.strategy,
            strategy_options=limits,
            seed=options.seed,
            quiet=True,
            **more,
        )
    except Exception as error:  # what was measured until then counts
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    said = {"tuner": f"kernel_tuner {kernel_tuner.__version__ if hasattr(kernel_tuner, '__version__') else ''}".strip(), "backend": options.backend,
            "strategy": options.strategy, "seed": options.seed, "begun": begun, "ended": time.time(), "trials": trials}
    pathlib.Path(options.out).write_text(json.dumps(said))


if __name__ == "__main__":
    main()
