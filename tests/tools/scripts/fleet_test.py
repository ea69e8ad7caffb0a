#!/usr/bin/env python3
"""fleet_test.py SOURCE AUTOTUNE: checks the files of examples/fleet with systemd's own tools. Exits 77 where those are missing."""

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


def complaints(text):
    """What systemd-analyze says of a unit. It exits 0 for keys that it does not know, so its words count."""
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, "autotune-worker.service")
        unit.write_text(text)
        done = subprocess.run(["systemd-analyze", "--user", "--man=no", "verify", unit], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": folder, "XDG_RUNTIME_DIR": folder})
    return "".join(line + "\n" for line in (done.stdout + done.stderr).splitlines() if "autotune-worker" in line)


unit = (fleet / "autotune-worker.service").read_text()
line = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
if line not in (fleet / "README.md").read_text():
    failures.append("README.md does not show the line of ExecStart")
# The command is not installed here.
installed = unit.replace("ExecStart=/usr/local/bin/autotune", f"ExecStart={autotune}")
if said := complaints(installed):
    failures.append(f"systemd-analyze verify: {said}")
if "Unknown key" not in complaints(installed.replace("Nice=", "Nicety=")):
    failures.append("an unknown key is not found")
if "not executable" not in complaints(unit.replace("/usr/local/bin/autotune", "/nonexistent/autotune")):
    failures.append("a missing command is not found")

if shutil.which("systemd-tmpfiles") is not None:
    with tempfile.TemporaryDirectory() as root:
        text = (fleet / "autotune.conf").read_text()
        done = subprocess.run(["systemd-tmpfiles", "--create", f"--root={root}", "-"], input=text, capture_output=True, text=True)
        made = pathlib.Path(root, "run/lock/autotune")
        if done.returncode != 0 or done.stderr or not made.is_dir():
            # Another user than root cannot give the folder to root.
            if "Operation not permitted" not in done.stderr:
                failures.append(f"systemd-tmpfiles: {done.returncode} {done.stderr}")
        elif stat.S_IMODE(made.stat().st_mode) != 0o1777:
            failures.append(f"{made} has mode {oct(made.stat().st_mode)}")

print("\n".join(failures) or "examples/fleet: units are sound")
sys.exit(1 if failures else 0)
