#!/usr/bin/env python3
"""Makes a wheel of a build folder, installs it into a fresh virtual environment, runs tests/python there on the scripted driver.

usage: in_venv.py BUILD [TEST...]      TEST: as unittest takes it; none: all
Exit code 77, skipped: the environment lacks scikit-build-core and it cannot be fetched; 1 with AUTOTUNE_REQUIRE_WHEEL=1.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BACKEND = "scikit-build-core==0.11.*"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(1 if os.environ.get("AUTOTUNE_REQUIRE_WHEEL") == "1" else 77)


def make_environment(folder):
    """Makes a virtual environment that has only pip; returns its python."""
    try:
        venv.create(folder, with_pip=True, clear=True)
    except subprocess.CalledProcessError:
        skip("python3 makes no virtual environments here: install python3-venv")
    return folder / "bin" / "python"


def tools_python(tools, requirement):
    """Returns a python that has `requirement`, in an environment that is kept from one run to the next."""
    folder = tools / requirement.partition("=")[0]
    python = folder / "bin" / "python"
    tools.mkdir(parents=True, exist_ok=True)
    with open(tools / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that need the same environment run side by side
        if not (folder / ".complete").exists():
            make_environment(folder)
            fetch(python, requirement)
            (folder / ".complete").touch()
    return python


def fetch(python, requirement):
    fetched = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement], capture_output=True, text=True
    )
    if fetched.returncode != 0:
        skip(f"{requirement} cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")


def make_wheel(build, python, folder):
    options = {
        "cmake.source-dir": "python/prebuilt",
        "cmake.define.AUTOTUNE_BUILD": build,
        "build-dir": folder / "cmake",
        "install.strip": "true",
    }
    settings = [f"--config-settings={name}={value}" for name, value in options.items()]
    run(
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        *settings,
        "-w",
        folder,
        ROOT,
        cwd=folder,
    )
    (wheel,) = folder.glob("*.whl")
    assert "-py3-none-" in wheel.name, wheel.name
    return wheel


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    backend = tools_python(build / "python-tools", BACKEND)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="autotune-wheel-"))
    try:
        wheel = make_wheel(build, backend, folder)
        python = make_environment(folder / "venv")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", wheel)
        fakes = build / "tests" / "support" / "fake" / "lib"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOTUNE_", "PYTHON"))}
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(fakes), environment.get("LD_LIBRARY_PATH")]))
        for name in ("CUDA_PATH", "CUDA_HOME"):
            environment.pop(name, None)
        command = [python, "-m", "unittest", *(sys.argv[2:] or ["discover", "-t", ".", "-s", "."])]
        sys.exit(subprocess.run(command, cwd=HERE, env=environment).returncode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
