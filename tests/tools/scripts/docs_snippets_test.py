#!/usr/bin/env python3
"""Proves that tools/scripts/docs_snippets.py finds C++, C and Python that does not compile, parse or exist."""
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tools/scripts/docs_snippets.py"


def block(language, text):
    return f"```{language}\n{text}\n```\n"


# For each page: the output; empty: nothing is wrong.
CASES = [
    (block("cpp", "autotune::GemmProblem problem(1, 2, 3);"), ""),
    (block("cpp", "autotune::GemmProblem problem(1, 2, 3);") + block("cpp", "problem.m = 4;"), ""),
    (block("cpp", "autotune::NoSuchProblem problem(1, 2, 3);"), "page.md:2:"),
    (block("cpp", "f(a);"), "'a' was not declared"),
    ("<!-- given: int a; void f(int); -->\n" + block("cpp", "f(a);"), ""),
    ("<!-- file: x.cpp -->\n" + block("cpp", "f(a);"), ""),
    (block("c", "autotune_problem problem = {0};"), ""),
    (block("c", "autotune_no_such_function();"), "autotune_no_such_function"),
    (block("python", "autotune.gemm(a, b, c, alpha=2)"), ""),
    (block("python", "autotune.no_such_function(a)"), "page.md:2: autotune.no_such_function does not exist"),
    (block("python", "at.no_such_function(a)"), "page.md:2: at.no_such_function does not exist"),
    (block("python", "at.patch(no_such_argument=1)"), "page.md:2: patch() has no argument no_such_argument"),
    (block("python", "a  b"), "page.md:2: line 1 of the block is no Python"),
    (block("cmake", "anything at all"), ""),
]

failures = 0
for text, expected in CASES:
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.md")
        page.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, page], text=True, capture_output=True, env={"PATH": os.environ["PATH"], "LC_ALL": "C"})
    said = done.stdout + done.stderr
    if (expected or "nothing wrong") not in said or done.returncode != (1 if expected else 0):
        failures += 1
        print(f"{text}expected '{expected}', ended with {done.returncode}: {said}")
print(f"{len(CASES) - failures} of {len(CASES)} cases")
sys.exit(1 if failures else 0)
