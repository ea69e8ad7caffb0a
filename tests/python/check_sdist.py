#!/usr/bin/env python3
"""Makes the source distribution and checks that it holds every file that a build reads, and nothing that git ignores. Compiles nothing.

usage: check_sdist.py BUILD      BUILD: a build folder, in whose python-tools the build backend is kept
Exit code 77, skipped: no git checkout, or the backend cannot be fetched; 1 with AUTOTUNE_REQUIRE_WHEEL=1.
"""

import pathlib
import subprocess
import sys
import tarfile
import tempfile

from in_venv import BACKEND, ROOT, run, skip, tools_python

BUILT_FROM = ("cmake", "db", "examples/shapes", "include", "kernel_templates", "python", "src", "tools", "tuner", "CMakeLists.txt", "LICENSE")
MADE = {"PKG-INFO"}


def tracked(*folders, options=()):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", *options, "--", *folders], capture_output=True, text=True)
    if listed.returncode != 0:
        skip("this is no git checkout")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def files_of(archive):
    with tarfile.open(archive) as opened:
        return {member.name.partition("/")[2] for member in opened if member.isfile()}


def main():
    wanted = tracked(*BUILT_FROM)
    python = tools_python(pathlib.Path(sys.argv[1]).resolve() / "python-tools", BACKEND)
    with tempfile.TemporaryDirectory(prefix="autotune-sdist-") as folder:
        run(python, "-c", f"from scikit_build_core.build import build_sdist; build_sdist({folder!r})", cwd=ROOT, stdout=subprocess.DEVNULL)
        (archive,) = pathlib.Path(folder).glob("*.tar.gz")
        held = files_of(archive)
    wrong = [f"lacks {name}" for name in sorted(wanted - held)]
    known = tracked() | tracked(options=("--others", "--exclude-standard")) | MADE
    wrong += [f"holds {name}, which git ignores" for name in sorted(held - known)]
    if wrong:
        sys.exit("the source distribution " + "\nthe source distribution ".join(wrong))


if __name__ == "__main__":
    main()
