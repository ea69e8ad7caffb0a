#!/usr/bin/env python3
"""A set-user-ID copy of the command ignores its caller's environment: it loads no compiler and opens no database that the caller names.

usage: setuid_test.py AUTOTUNE. Exits 77 (skipped), with the reason, where nobody can make or run such a copy.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534
# A library that prints who loaded it.
HOSTILE = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
    FILE* file = fopen("%s", "a");
    if (file) fprintf(file, "%%d\\n", (int)geteuid());
}
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def copy(source, target, mode):
    shutil.copy(source, target)
    os.chmod(target, mode)
    return target


def as_nobody(program, *arguments, **environment):
    done = subprocess.run([program, *arguments], user=NOBODY, group=NOBODY, extra_groups=[], text=True, capture_output=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", **environment})
    return done.stdout + done.stderr


def loaded_by(folder, program):
    """The effective users that loaded the hostile compiler, and the command's output."""
    marker = folder / "open/marker"
    marker.unlink(missing_ok=True)
    said = as_nobody(program, "doctor", HOME=str(folder / "open"), AUTOTUNE_NVRTC=str(folder / "libnvrtc.so.13"),
                     AUTOTUNE_DB=str(folder / "open/callers.db"))
    return (marker.read_text().split() if marker.exists() else []), said


def main(autotune):
    if os.geteuid() != 0:
        skip("only root can make a set-user-ID program of another user")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        skip("there is no C compiler")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        if as_nobody(copy("/usr/bin/id", folder / "id", 0o4755), "-u").strip() != "0":
            skip(f"{name} is on a file system that ignores set-user-ID")
        (folder / "hostile.c").write_text(HOSTILE % (folder / "open/marker"))
        subprocess.run([compiler, "-shared", "-fPIC", folder / "hostile.c", "-o", folder / "libnvrtc.so.13"], check=True)

        plain, said = loaded_by(folder, copy(autotune, folder / "plain", 0o755))
        if plain[:1] != [str(NOBODY)] or "callers.db" not in said:
            print(f"without set-user-ID the environment is not read ({plain}), so this proves nothing:\n{said}")
            return 1
        privileged, said = loaded_by(folder, copy(autotune, folder / "privileged", 0o4755))
        if privileged or "callers.db" in said:
            print(f"with set-user-ID the caller's environment is read, by user {privileged}:\n{said}")
            return 1
    print("a set-user-ID copy ignores its caller's environment")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
