#!/usr/bin/env python3
"""Makes a wheel of a build folder and runs the tests of autotune.torch that need torch and no GPU: the C kernels of the patch at the host's
dispatch key, the verdicts, and what the patch costs a call on the host.

usage: on_host.py BUILD [MODULE...]      MODULE: of tests/python/torch; none: test_shims test_patch test_host_cost test_collect
The Python that AUTOTUNE_TORCH_PYTHON names, or python3, must have torch 2.9 or newer; else the exit code is 77, skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import in_venv

MODULES = ["test_shims", "test_patch", "test_host_cost", "test_collect"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    python = os.environ.get("AUTOTUNE_TORCH_PYTHON", "python3")
    has_torch = [python, "-c", "import torch; torch.library.get_kernel"]
    try:
        found = subprocess.run(has_torch, capture_output=True, text=True)
    except OSError as error:
        in_venv.skip(f"{python} does not start: {error}")
    if found.returncode != 0:
        print(f"skipped: {python} has no torch 2.9; name one that has in AUTOTUNE_TORCH_PYTHON")
        sys.exit(77)
    backend = in_venv.tools_python(build / "python-tools", in_venv.BACKEND)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="autotune-torch-"))
    try:
        wheel = in_venv.make_wheel(build, backend, folder)
        command = [backend, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", folder / "site", wheel]
        in_venv.run(*command)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOTUNE_", "PYTHON", "XDG_"))}
        environment.update(PYTHONPATH=str(folder / "site"), HOME=str(folder), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
        tests = in_venv.HERE / "torch"
        sys.exit(subprocess.run([python, "-m", "unittest", *(sys.argv[2:] or MODULES)], cwd=tests, env=environment).returncode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
