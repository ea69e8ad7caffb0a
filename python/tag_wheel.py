#!/usr/bin/env python3
"""Names a wheel for the oldest C library that it runs on (manylinux_2_36_x86_64), after checking that it needs nothing else and that its
binaries do not hold the path of this repository.

usage: tag_wheel.py WHEEL FOLDER      the renamed copy goes to FOLDER; prints its path. Needs readelf.
"""

import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Libraries that every Linux with this C library has. The driver and NVRTC are opened at run time.
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


def facts_of(data):
    """The requirements of a program or library: the newest GLIBC version, and the names of libraries."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        said = subprocess.run(["readelf", "--wide", "-d", "-V", file.name], check=True, capture_output=True, text=True).stdout
    versions = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", said)]
    return max(versions, default=(2, 17)), set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", said))


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main():
    wheel, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with zipfile.ZipFile(wheel) as archive:
        entries = [(entry, archive.read(entry)) for entry in archive.infolist()]
    newest = (2, 17)
    for entry, data in entries:
        if data[:4] != b"\x7fELF":
            continue
        version, needed = facts_of(data)
        if needed - ALLOWED:
            sys.exit(
                f"{entry.filename} needs {', '.join(sorted(needed - ALLOWED))}: configure with AUTOTUNE_PORTABLE=ON and AUTOTUNE_STATIC_SQLITE=ON"
            )
        if str(ROOT).encode() in data:
            sys.exit(f"{entry.filename} holds the builder's folder {ROOT}: configure with AUTOTUNE_PORTABLE=ON")
        newest = max(newest, version)
    name, version = wheel.name.split("-")[:2]
    tag = f"py3-none-manylinux_{newest[0]}_{newest[1]}_x86_64"
    target = folder / f"{name}-{version}-{tag}.whl"
    renamed = {}
    for entry, data in entries:
        if entry.filename.endswith(".dist-info/WHEEL"):
            data = re.sub(rb"(?m)^Tag: .*$", f"Tag: {tag}".encode(), data)
        renamed[entry.filename] = data
    (record,) = [each for each in renamed if each.endswith(".dist-info/RECORD")]
    lines = [f"{each},{digest(data)},{len(data)}" for each, data in renamed.items() if each != record and not each.endswith("/")]
    renamed[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for entry, _ in entries:
            archive.writestr(entry, renamed[entry.filename], zipfile.ZIP_DEFLATED)
    print(target)


if __name__ == "__main__":
    main()
