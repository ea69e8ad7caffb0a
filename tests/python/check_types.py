#!/usr/bin/env python3
"""Checks the package's types by `mypy --strict`: the package itself, a program that uses it, and one whose mistakes must be found.

usage: check_types.py BUILD [PYTHON]      BUILD: a build folder with the target autotune_python; mypy is kept in its python-tools
                                          PYTHON: one that has torch, with which autotune.torch is checked too
Exit code 77, skipped: mypy cannot be fetched; 1 with AUTOTUNE_REQUIRE_WHEEL=1.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from in_venv import HERE, ROOT, skip, tools_python

CHECKER = "mypy==2.4.*"
WANTED = re.compile(r"# error: ([a-z-]+)")
FOUND = re.compile(r"mistakes\.py:(\d+): error: .*\[([a-z-]+)\]")


def mypy(python, folder, *arguments):
    command = [python, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", folder / "cache", *arguments]
    ended = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def wrong_mistakes(said):
    """Compares mypy's output for mistakes.py with the errors that its lines require."""
    lines = (HERE / "types" / "mistakes.py").read_text().splitlines()
    wanted = {(number, found.group(1)) for number, line in enumerate(lines, 1) if (found := WANTED.search(line))}
    found = {(int(line), code) for line, code in FOUND.findall(said)}
    yield from (f"mistakes.py:{line}: no error [{code}] there" for line, code in sorted(wanted - found))
    yield from (f"mistakes.py:{line}: unexpected error [{code}]" for line, code in sorted(found - wanted))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    python = tools_python(build / "python-tools", CHECKER)
    with tempfile.TemporaryDirectory(prefix="autotune-types-") as name:
        folder = pathlib.Path(name)
        shutil.copytree(ROOT / "python" / "autotune", folder / "autotune", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(build / "package" / "python" / "ops.py", folder / "autotune")
        for program in (HERE / "types").glob("*.py"):
            shutil.copy(program, folder)
        with_torch = ["--python-executable", sys.argv[2], "-m", "autotune.torch"] if len(sys.argv) > 2 else []
        code, said = mypy(python, folder, *with_torch, "-m", "autotune", "-m", "autotune.__main__", "-m", "program")
        if code != 0:
            sys.exit(said)
        _, said = mypy(python, folder, "-m", "mistakes")
        wrong = list(wrong_mistakes(said))
        if wrong:
            sys.exit("\n".join([*wrong, said]))


if __name__ == "__main__":
    main()
