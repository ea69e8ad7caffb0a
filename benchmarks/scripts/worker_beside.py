#!/usr/bin/env python3
"""Measures what `autotune worker` costs the program beside it, and when the program uses the winners.

    benchmarks/scripts/worker_beside.py OUT [--alone 60] [--beside 250] [--active 18] [--pause 12]

A program launches for ACTIVE seconds and pauses for PAUSE seconds, again and again, on one GPU. A round of it is 40 launches of a plan
that it holds, which no winner changes, and one call of each of 30 untuned products. First it runs ALONE seconds without a
worker, then BESIDE seconds beside `autotune worker --idle 1s --budget 1.5s`. Prints times of rounds in milliseconds and when all winners were
in use; writes OUT/rounds.json and OUT/worker.txt. Needs a GPU and a build. Exit code 1: a winner was not picked up.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "rivals"))
from autotune_library import GemmProblem, find_library  # noqa: E402

ROWS = (200, 333, 712, 1000, 1480)
WEIGHTS = ((1100, 900), (2300, 1030), (3100, 700), (520, 2040), (1816, 1544), (904, 3352))
BYTES = 64 << 20  # bytes of each operand, which suffice for all problems


class Options(ctypes.Structure):
    """autotune_options."""
    _fields_ = [("struct_size", ctypes.c_size_t),
                *((name, ctypes.c_char_p) for name in ("database", "cache_folder", "shipped", "nvrtc", "pin")),
                ("on_miss", ctypes.c_int), ("read_environment", ctypes.c_int), ("record_misses", ctypes.c_int),
                ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p)]


class Driver:
    """The part of the CUDA driver that this script needs: the primary context of GPU 0, memory, and a wait."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            sys.exit(f"{name} returned {code}")

    def memory(self, size):
        """The address of `size` bytes of f16 numbers with a normal distribution."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        draw = random.Random(1)
        piece = b"".join(struct.pack("<e", draw.gauss(0, 1)) for _ in range(1 << 16))
        for at in range(0, size, len(piece)):
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address.value + at), piece, ctypes.c_size_t(len(piece)))
        return ctypes.c_void_p(address.value)

    def wait(self):
        self.call("cuCtxSynchronize")


class Program:
    """Rounds of launches, timed."""

    def __init__(self, control):
        self.driver = Driver()
        self.library = ctypes.CDLL(str(find_library(ROOT) or sys.exit("no build has a libautotune.so")))
        self.library.autotune_last_error.restype = ctypes.c_char_p
        self.library.autotune_origin_string.restype = ctypes.c_char_p
        self.plain, self.recording = self._handle(0), self._handle(1)
        self.a, self.b, self.c = (self.driver.memory(BYTES) for _ in range(3))
        self.control = self._product(*control)
        self.problems = [self._product(m, n, k) for m in ROWS for n, k in WEIGHTS]
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)

    def _check(self, status):
        if status:
            sys.exit(self.library.autotune_last_error(None).decode())

    def _handle(self, record_misses):
        handle = ctypes.c_void_p()
        options = Options(struct_size=ctypes.sizeof(Options), read_environment=1, record_misses=record_misses)
        self._check(self.library.autotune_create(ctypes.byref(handle), ctypes.byref(options)))
        return handle

    @staticmethod
    def _product(m, n, k):
        return GemmProblem(struct_size=ctypes.sizeof(GemmProblem), m=m, n=n, k=k, beta=1)  # f16 nn, beta = 0

    def _run(self, handle, problem):
        self._check(self.library.autotune_tuned_gemm(handle, ctypes.byref(problem), ctypes.byref(self.one), self.a, self.b,
                                                     ctypes.byref(self.zero), self.c, None))

    def round(self):
        """Returns the seconds of the 40 launches and of the 30 products."""
        begun = time.perf_counter()
        for _ in range(40):
            self._run(self.plain, self.control)
        self.driver.wait()
        middle = time.perf_counter()
        for problem in self.problems:
            self._run(self.recording, problem)
        self.driver.wait()
        return middle - begun, time.perf_counter() - middle

    def tuned(self):
        """Returns how many of the products run a stored winner."""
        count = 0
        for problem in self.problems:
            plan, origin = ctypes.c_void_p(), ctypes.c_int()
            self._check(self.library.autotune_gemm_plan(self.recording, ctypes.byref(problem), ctypes.byref(plan)))
            self._check(self.library.autotune_plan_origin(plan, ctypes.byref(origin)))
            self.library.autotune_plan_destroy(plan)
            count += self.library.autotune_origin_string(origin) == b"exact"
        return count


def phase(program, seconds, options, pauses, on_round=lambda: None):
    """Returns (moment, seconds of the control, seconds of the products) for each round."""
    rounds, end = [], time.time() + seconds
    while time.time() < end:
        until = min(end, time.time() + options.active)
        while time.time() < until:
            rounds.append((time.time(), *program.round()))
        on_round()
        if pauses and time.time() < end:
            time.sleep(min(options.pause, max(0.0, end - time.time())))
    return rounds


def row(name, rounds, at):
    times = sorted(1e3 * each[at] for each in rounds)
    print(f"{name:34} {len(times):7} {statistics.mean(times):9.3f} {times[len(times) // 2]:9.3f} {times[len(times) * 99 // 100]:9.3f} {times[-1]:9.3f}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("out", type=pathlib.Path)
    parse.add_argument("--alone", type=float, default=60)
    parse.add_argument("--beside", type=float, default=250)
    parse.add_argument("--active", type=float, default=18)
    parse.add_argument("--pause", type=float, default=12)
    parse.add_argument("--idle", default="1s")
    parse.add_argument("--budget", default="1.5s")
    parse.add_argument("--control", default="4096x4096x2048", help="the product that no winner changes")
    options = parse.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    home = tempfile.mkdtemp()
    for name, folder in (("HOME", ""), ("XDG_DATA_HOME", "/data"), ("XDG_CACHE_HOME", "/cache"), ("XDG_STATE_HOME", "/state"),
                         ("AUTOTUNE_SHIPPED", "/none"), ("AUTOTUNE_LOCK_DIR", "/locks")):
        os.environ[name] = home + folder
    os.mkdir(home + "/none")
    os.environ.setdefault("AUTOTUNE_TEST_LOOK_MS", "10000")

    program = Program(map(int, options.control.split("x")))
    program.round()
    alone = phase(program, options.alone, options, pauses=False)
    tool = find_library(ROOT).parents[2] / "tools" / "autotune"
    begun, picked_up = time.time(), None

    def look():
        nonlocal picked_up
        if picked_up is None and program.tuned() == len(program.problems):
            picked_up = time.time() - begun

    with open(options.out / "worker.txt", "w") as said:
        worker = subprocess.Popen([tool, "worker", "--idle", options.idle, "--budget", options.budget], stdout=said, stderr=said)
        beside = phase(program, options.beside, options, pauses=True, on_round=look)
        look()
        worker.terminate()
        code = worker.wait(timeout=60)
    (options.out / "rounds.json").write_text(json.dumps({"alone": alone, "beside": beside, "picked_up_after_s": picked_up}))
    text = (options.out / "worker.txt").read_text()

    print(f"{'ms a round':34} {'rounds':>7} {'mean':>9} {'median':>9} {'p99':>9} {'most':>9}")
    row("40 launches, no worker", alone, 1)
    row("40 launches, beside the worker", beside, 1)
    row("30 products, before", alone, 2)
    after = [each for each in beside if picked_up and each[0] > begun + picked_up]
    if after:
        row("30 products, with their winners", after, 2)
    mean = [statistics.mean(each[1] for each in rounds) for rounds in (alone, beside)]
    middle = [statistics.median(each[1] for each in rounds) for rounds in (alone, beside)]
    print(f"speed beside the worker: mean {100 * (mean[0] / mean[1] - 1):+.2f} %, median {100 * (middle[0] / middle[1] - 1):+.2f} %")
    slow = [each[1] for each in beside if each[1] > 1.2 * middle[0]]
    print(f"rounds slower by a fifth and more: {len(slow)} of {len(beside)}, {sum(slow):.2f} s; problems given back: {text.count(': given back')}")
    print(f"tuned: {program.tuned()} of {len(program.problems)}, all in use after {picked_up} s; the worker ended with {code}")
    return 0 if picked_up else 1


if __name__ == "__main__":
    sys.exit(main())
