#!/usr/bin/env python3
"""Builds and runs the tests of what `git diff BASE` touches, as many as fit into a time. For `tools/dev check`.

usage: tools/scripts/check_changed.py --build DIR [--base REV] [--seconds N] [--jobs N] [--plan]

Ninja's data says which test programs are built from a changed file or start a program that is; ctest's data says how long a test took.
Tests of the changed component come first, then those of all that is built on it. What does not fit is counted in the last line.
--plan prints the choice and runs nothing.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Only tests with these labels run; the others need a GPU, hours or a second build.
LABELS = ["lint", "unit", "fake", "nvrtc"]
# The assumed seconds of a test that never ran.
FIRST_GUESS = {"lint": 2, "unit": 0.05, "fake": 0.7, "nvrtc": 3}
GUESS_ON_HOST = 0.6  # it compiles a kernel with g++
# The assumed seconds of a build step that ninja has never run.
STEP_GUESS = 2

Test = collections.namedtuple("Test", "number name program label seconds command")
Plan = collections.namedtuple("Plan", "tests programs seconds left_out")


def run(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def changed_files(base):
    tracked = run("git", "diff", "--name-only", base, cwd=ROOT).split("\n")
    new = run("git", "ls-files", "--others", "--exclude-standard", cwd=ROOT).split("\n")
    return sorted({name for name in tracked + new if name})


def component_of(name):
    """The folder below tests/ that is named after the changed code: "core" for src/core/problem/problem.cpp."""
    parts = name.split("/")
    if parts[0] in ("src", "tests") and len(parts) > 2:
        return parts[1]
    return {"tools": "tools", "db": "db", "tuner": "tuner", "kernel_templates": "kernel_templates", "python": "python"}.get(parts[0])


def family_of(name):
    """("gemm", "wgmma") for a file in the folder of a family, else None."""
    match = re.match(r"kernel_templates/(\w+)/(\w+)/", name)
    is_family = match and (ROOT / "kernel_templates" / match[1] / match[2] / "family.cpp").exists()
    return (match[1], match[2]) if is_family else None


def families():
    return [(path.parts[-3], path.parts[-2]) for path in ROOT.glob("kernel_templates/*/*/family.cpp")]


def named_families(test_name, known):
    """The families that a test's parameter begins with: the longest name wins, so that wgmma is not taken for wgmma_fp8."""
    parameter = test_name.rpartition("/")[2] if "/" in test_name else ""
    hits = [(len(name), (op, family)) for op, family in known for name in (f"{op}_{family}", family)
            if parameter == name or parameter.startswith(name + "_")]
    return {each for length, each in hits if length == max(hits)[0]}


class Build:
    """What ninja and ctest know about a build folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.steps = self._read_log()
        self.headers = self._read_deps()

    def _read_log(self):
        """Seconds of each output's last build."""
        steps = {}
        for line in (self.folder / ".ninja_log").read_text().splitlines()[1:]:
            begin, end, _, output, _ = line.split("\t")
            steps[output] = (int(end) - int(begin)) / 1000
        return steps

    def _read_deps(self):
        """Files that each object was compiled from."""
        headers, current = {}, None
        for line in run("ninja", "-t", "deps", cwd=self.folder).splitlines():
            if line.startswith("    "):
                current.add(line.strip())
            elif ": #deps" in line:
                current = headers.setdefault(line.partition(": #deps")[0], set())
        return headers

    def inputs_of(self, program):
        result = subprocess.run(["ninja", "-t", "inputs", program], cwd=self.folder, capture_output=True, text=True)
        return set(result.stdout.splitlines()) if result.returncode == 0 else set()

    def rebuilt(self, program, changed):
        """Steps that building a program takes after a change of these absolute paths; empty if it is not built from them."""
        inputs = self.inputs_of(program)
        steps = {name for name in inputs if name in self.headers and self.headers[name] & changed}
        if not steps and not inputs & changed:
            return set()
        # Also returns the libraries and programs in between: all of them are linked, which overestimates the time by seconds.
        return steps | {name for name in inputs if name.endswith((".a", ".so")) and name in self.steps} | {program}

    def costs(self):
        seconds = {}
        file = self.folder / "Testing/Temporary/CTestCostData.txt"
        for line in file.read_text().splitlines() if file.exists() else []:
            name, _, rest = line.rpartition(" ")
            name = name.rpartition(" ")[0]
            try:
                if name and float(rest) > 0:
                    seconds[name] = float(rest)
            except ValueError:
                pass
        return seconds

    def tests(self):
        costs, found = self.costs(), []
        for number, test in enumerate(json.loads(run("ctest", "--show-only=json-v1", cwd=self.folder))["tests"], 1):
            properties = {each["name"]: each["value"] for each in test.get("properties", [])}
            labels = properties.get("LABELS", [])
            command = test.get("command", [])
            label = next((each for each in labels if each not in ("install", "large")), "lint")
            program = os.path.relpath(command[0], self.folder) if command else ""
            if label not in LABELS:
                continue
            if program.startswith("../") or not program.startswith("tests/"):  # a script
                program = ""
            guess = GUESS_ON_HOST if "_host_" in program else FIRST_GUESS[label]
            found.append(Test(number, test["name"], program, label, costs.get(test["name"], guess), command))
        return found


def is_of_component(program, components):
    return any(program.startswith(f"tests/{each}/") for each in components)


def plan(build, changed, tests, budget, jobs):
    """The tests to run, nearest first, and the programs to build for them."""
    absolute = {str(ROOT / name) for name in changed}
    components = {component_of(name) for name in changed} - {None}
    changed_families = {family_of(name) for name in changed}
    only_families = changed_families if None not in changed_families else None
    known = families()
    groups = collections.defaultdict(list)
    for test in tests:
        named = named_families(test.name, known)
        if not (only_families and named) or named & only_families:
            groups[test.program, test.label].append(test)
    candidates = []
    for (program, label), group in groups.items():
        if program:
            steps = build.rebuilt(program, absolute)
            if steps:
                candidates.append((0 if is_of_component(program, components) else 1, LABELS.index(label), program, steps, group))
        else:  # a script: it is affected if its command names a changed file
            group = [test for test in group if test.name in ("layers", "docs") or
                     any(str(ROOT / name) in test.command for name in changed)]
            candidates.append((0, LABELS.index(label), "", set(), group))
    taken, programs, done, left_out, seconds = [], [], set(), 0, 0.0
    for distance, _, program, steps, group in sorted(candidates, key=lambda each: each[:3]):
        fresh = sum(build.steps.get(step, STEP_GUESS) for step in steps - done) / jobs
        group = sorted(group, key=lambda test: test.seconds)
        # A program of the changed component is built in any case, because otherwise nothing would be tested.
        if distance > 0 and seconds + fresh > budget:
            left_out += len(group)
            continue
        seconds += fresh
        chosen = []
        for test in group:
            if seconds + test.seconds / jobs > budget and (distance > 0 or chosen):
                continue
            seconds += test.seconds / jobs
            chosen.append(test)
        left_out += len(group) - len(chosen)
        if chosen and program:
            programs.append(program)
        taken += chosen
        done |= steps
    return Plan(taken, sorted(set(programs)), seconds, left_out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--base", default="main")
    parser.add_argument("--seconds", type=float, default=150)  # for the estimate; the limit is 180
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--changed", nargs="*", help="these files instead of git's")
    parser.add_argument("--plan", action="store_true")
    given = parser.parse_args()
    changed = given.changed if given.changed is not None else changed_files(given.base)
    if not changed:
        print(f"check: nothing differs from {given.base}")
        return 0
    build = Build(given.build)
    chosen = plan(build, changed, build.tests(), given.seconds, given.jobs)
    print(f"check: {len(changed)} changed files, {len(chosen.tests)} tests of {len(chosen.programs)} programs, about {chosen.seconds:.0f} s",
          flush=True)
    if given.plan:
        for program in chosen.programs:
            print(f"  {program}: {sum(test.program == program for test in chosen.tests)}")
    elif chosen.tests:
        if chosen.programs:
            subprocess.run(["ninja", "-C", given.build, "-j", str(given.jobs), "--quiet", *chosen.programs], check=True)
        # Numbers change if a built program has new tests.
        wanted = {test.name for test in chosen.tests}
        numbers = [str(test.number) for test in build.tests() if test.name in wanted]
        status = subprocess.run(["ctest", "--test-dir", given.build, "--parallel", str(given.jobs + 1), "--output-on-failure",
                                 "--progress", "--no-tests=error", "-I", "0,0,0," + ",".join(numbers)]).returncode
        if status != 0:
            return status
    if chosen.left_out:
        print(f"check: {chosen.left_out} more tests are built on the change; `tools/dev test` runs them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
