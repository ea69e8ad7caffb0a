#!/usr/bin/env python3
"""fleet_test.py SOURCE AUTOTUNE: checks the files of examples/fleet with systemd's own tools and bash. Exits 77 where those are missing."""

import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

source, autotune = map(pathlib.Path, sys.argv[1:])
fleet = source / "examples/fleet"
if shutil.which("systemd-analyze") is None:
    print("skipped: systemd-analyze is not installed")
    sys.exit(77)
failures = []


def complaints(text, name="autotune-worker.service", scope="--user"):
    """The output of systemd-analyze about a unit. Its exit code is 0 for keys that it does not know, so the output counts."""
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, name)
        unit.write_text(text)
        if name.endswith(".timer"):  # a timer starts the service of the same name
            unit.with_suffix(".service").write_text((fleet / name).with_suffix(".service").read_text().replace(INSTALLED, str(autotune)))
        done = subprocess.run(["systemd-analyze", scope, "--man=no", "verify", unit], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": folder, "XDG_RUNTIME_DIR": folder})
    return "".join(line + "\n" for line in (done.stdout + done.stderr).splitlines() if pathlib.Path(name).stem in line)


INSTALLED = "/usr/local/bin/autotune"
unit = (fleet / "autotune-worker.service").read_text()
line = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
if line not in (fleet / "README.md").read_text():
    failures.append("README.md does not show the line of ExecStart")
# The unit starts this build's command, because none is installed here.
installed = unit.replace("ExecStart=" + INSTALLED, f"ExecStart={autotune}")
if "Unknown key" not in complaints(installed.replace("Nice=", "Nicety=")):
    failures.append("an unknown key is not found")
if "not executable" not in complaints(unit.replace(INSTALLED, "/nonexistent/autotune")):
    failures.append("a missing command is not found")
for path in sorted([*fleet.glob("*.service"), *fleet.glob("*.timer")]):
    scope = "--system" if path.name == "autotune-fleet-worker.service" else "--user"
    if said := complaints(path.read_text().replace(INSTALLED, str(autotune)), path.name, scope):
        failures.append(f"systemd-analyze verify {path.name}: {said}")

if shutil.which("systemd-tmpfiles") is not None:
    with tempfile.TemporaryDirectory() as root:
        text = (fleet / "autotune.conf").read_text()
        done = subprocess.run(["systemd-tmpfiles", "--create", f"--root={root}", "-"], input=text, capture_output=True, text=True)
        made = pathlib.Path(root, "run/lock/autotune")
        if done.returncode != 0 or done.stderr or not made.is_dir():
            # Only root can give the folder to root.
            if "Operation not permitted" not in done.stderr:
                failures.append(f"systemd-tmpfiles: {done.returncode} {done.stderr}")
        elif stat.S_IMODE(made.stat().st_mode) != 0o1777:
            failures.append(f"{made} has mode {oct(made.stat().st_mode)}")

# Slurm's array job, with an srun that prints its arguments.
with tempfile.TemporaryDirectory() as folder:
    srun = pathlib.Path(folder, "srun")
    srun.write_text('#!/bin/sh\necho "$@"\n')
    srun.chmod(0o755)
    done = subprocess.run(["bash", fleet / "slurm.sh"], capture_output=True, text=True,
                          env={"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_END_TIME": "1795896300"})
    if "--until 2026-11-28T20:05:00Z" not in done.stdout or done.returncode != 0:
        failures.append(f"slurm.sh: {done.returncode} {done.stdout}{done.stderr}")
if shutil.which("shellcheck") is not None:
    done = subprocess.run(["shellcheck", fleet / "slurm.sh"], capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"shellcheck: {done.stdout}")

print("\n".join(failures) or "examples/fleet: units are sound")
sys.exit(1 if failures else 0)
