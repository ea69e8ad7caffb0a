#!/usr/bin/env python3
"""Everything that has to be right on a GPU and is not timed, many processes at a time: compiling takes most of it.

usage: benchmarks/scripts/gpu_proofs.py OUT [--build DIR] [--jobs N] [--seconds S] [--only WORD...]

The GPU tests of conformance, mutants, overlap and templates, each in shards, and `autotune verify` of every shipped winner, in
parts. What ends a process that takes too long (tests of faults, of the tuner) runs alone, after the others. Logs go to OUT, a
table of what ran to standard output; exit 1 if anything failed, 2 if nothing ran. --only: parts whose name has one of the words.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOGETHER = {"conformance_gpu_test": 24, "mutants_gpu_test": 24, "overlap_gpu_test": 8, "kernel_templates_gpu_test": 4}
ALONE = ["faulty_templates_gpu_test", "tuner_gpu_test"]
VERIFY_PARTS = 2  # few, because each part compiles on all cores


@dataclasses.dataclass
class Part:
    name: str
    command: list
    environment: dict


@dataclasses.dataclass
class Result:
    name: str
    code: int
    seconds: float
    passed: int
    skipped: int
    failed: list


def tests_in(build, name):
    found = sorted(build.glob(f"tests/**/{name}"))
    return [path for path in found if path.is_file()][:1]


def test_parts(build, name, shards):
    for binary in tests_in(build, name):
        for shard in range(shards):
            environment = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)} if shards > 1 else {}
            yield Part(f"{name}-{shard}" if shards > 1 else name, [str(binary)], environment)


def verify_parts(autotune, folder):
    """Distributes the shipped rows over several databases, with one process for each."""
    rows = [line for path in sorted((ROOT / "db/winners").glob("*.jsonl")) for line in path.read_text().splitlines()]
    for part in range(VERIFY_PARTS):
        dealt = folder / f"rows{part}.jsonl"
        dealt.write_text("\n".join(rows[part::VERIFY_PARTS]) + "\n")
        database = str(folder / f"rows{part}.db")
        script = '"$0" import "$1" --db "$2" && "$0" verify --no-race --db "$2"'
        yield Part(f"verify-{part}", ["bash", "-c", script, str(autotune), str(dealt), database], {})


def verified(text):
    """Returns how many winners `autotune verify` accepted, and its lines about the others."""
    verdicts = [line.group() for line in re.finditer(r"^\w+ +\w+ \w+=.*", text, re.M)]
    wrong = [line for line in verdicts if not line.startswith("right ")]
    return len(verdicts) - len(wrong), wrong


def result_of(part, code, seconds, text):
    if part.name.startswith("verify-"):
        passed, failed = verified(text)
        return Result(part.name, code, seconds, passed, 0, failed)
    count = lambda mark: len(re.findall(rf"^\[ +{mark} +\] \S+ \(\d+ ms\)", text, re.M))
    failed = sorted(set(re.findall(r"^\[ +FAILED +\] (\S+?)(?:,| \()", text, re.M)))
    return Result(part.name, code, seconds, count("OK"), count("SKIPPED"), failed)


def run(part, out, deadline):
    home = tempfile.mkdtemp()
    environment = dict(os.environ, AUTOTUNE_REQUIRE_GPU="1", AUTOTUNE_TEST_DATA=str(ROOT / "tests/data"), HOME=home,
                       XDG_DATA_HOME=f"{home}/data", XDG_CACHE_HOME=f"{home}/cache", XDG_STATE_HOME=f"{home}/state", **part.environment)
    log = out / f"{part.name}.log"
    started = time.monotonic()
    with open(log, "w") as to:
        try:
            code = subprocess.run(part.command, stdout=to, stderr=subprocess.STDOUT, env=environment,
                                  timeout=max(1, deadline - started)).returncode
        except subprocess.TimeoutExpired:
            code = 124
    return result_of(part, code, time.monotonic() - started, log.read_text(errors="replace"))


def tell(result):
    words = f"{result.name:<32} exit {result.code:<4} {result.seconds:6.0f} s  {result.passed} passed"
    words += f", {result.skipped} skipped" if result.skipped else ""
    print(words, *result.failed, sep="\n    ", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/portable")
    # With 45 processes on 16 cores nothing was finished: each process spins while it waits for the GPU, and compilers run out of
    # time.
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + arguments.seconds
    wanted = lambda part: not arguments.only or any(word in part.name for word in arguments.only)
    with tempfile.TemporaryDirectory() as folder:
        together = list(verify_parts(arguments.build / "tools/autotune", pathlib.Path(folder)))
        for name, shards in TOGETHER.items():
            together += test_parts(arguments.build, name, shards)
        alone = [part for name in ALONE for part in test_parts(arguments.build, name, 1)]
        results = []
        for parts, jobs in ((together, arguments.jobs), (alone, 1)):
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                for result in pool.map(lambda part: run(part, arguments.out, deadline), filter(wanted, parts)):
                    tell(result)
                    results.append(result)
    bad = [result for result in results if result.code != 0]
    print(f"{len(results)} parts, {sum(result.passed for result in results)} passed, {len(bad)} parts failed")
    return 2 if not results else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
