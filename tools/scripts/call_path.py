#!/usr/bin/env python3
"""Lists the functions through which a matrix product goes from its C struct to its launch, as a debugger sees them, and compares them with the
table of docs/design.md. Needs gdb and a build with benchmarks and the scripted driver.

usage: tools/scripts/call_path.py [--build build/release]

The list is made of the stacks at four places: winners are looked up, a kernel's code is found, a plan is made, a kernel is launched. Left out are
functions that only run a lambda of their caller, and those lambdas: a reader sees them in place. docs/design.md has the rule.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANNING = ["autotune::dispatch::StoredCandidates::winners", "autotune::runtime::Instances::make", "autotune::runtime::bind"]
LAUNCH = "autotune::gpu::Function::launch"
FRAME = re.compile(r"^#\d+\s+(?:0x\w+ in )?(.+?) \(.*\) at (\S+):\d+$")
# Functions that only run a lambda of their caller: templates, and the lambdas' own operators.
RUNS_A_LAMBDA = re.compile(r"^operator\(\)|<.*>")


def stacks(build):
    commands = ["set pagination off", "set width 0", "set breakpoint pending on", "set print frame-arguments none"]
    commands += [f"tbreak {stop}" for stop in [*PLANNING, "autotune_gemm"]] + ["run"]
    commands += ["bt", "continue"] * len(PLANNING) + [f"tbreak {LAUNCH}", "continue", "bt", "kill"]
    words = ["gdb", "-q", "-batch"] + [word for command in commands for word in ("-ex", command)]
    environment = dict(os.environ, LD_LIBRARY_PATH=str(build / "tests/support/fake/lib"), AUTOTUNE_PIN="")
    done = subprocess.run([*words, "--args", build / "benchmarks/host_cost", "--rounds", "1", "--calls", "1"], capture_output=True, text=True,
                          env=environment, check=False)
    stack = []
    for line in done.stdout.splitlines():
        frame = FRAME.match(line)
        if not frame:
            continue
        if line.startswith("#0 ") and stack:
            yield stack
            stack = []
        stack.append(frame.groups())
    if stack:
        yield stack


def path(build):
    """(function, component) in the order in which they are entered."""
    found = {}
    for stack in stacks(build):
        for name, file in reversed(stack):
            component = re.search(r".*/src/(\w+)/", file)
            if component and not RUNS_A_LAMBDA.search(name):
                found.setdefault(re.sub(r"^autotune::\w+::", "", name), component.group(1))
    return list(found.items())


def table():
    rows = re.findall(r"^\| \d+ \| `([\w:]+)` \| (\w+) \|", (ROOT / "docs/design.md").read_text(), re.M)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    found = path(parser.parse_args().build.resolve())
    for number, (name, component) in enumerate(found, 1):
        print(f"{number:3} {name:32} {component}")
    if found != table():
        print("docs/design.md has another list", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
