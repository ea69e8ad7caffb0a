#!/usr/bin/env python3
"""Proves that tools/check_api.py finds functions and structs whose comments leave something out."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "tools/check_api.py"
STATUS = "typedef enum autotune_status {\n    AUTOTUNE_OK = 0,\n    AUTOTUNE_NO_GPU = 4\n} autotune_status;\n\n"
SOUND = "/* Makes it. Errors: NO_GPU. Capture: safe. */\nAUTOTUNE_API autotune_status autotune_make(int* out);\n"
# For each header: the output of the check; empty: none.
CASES = [
    (SOUND, ""),
    (SOUND + "AUTOTUNE_API autotune_status autotune_make_two(int* out);\n", ""),
    (SOUND + "\nAUTOTUNE_API autotune_status autotune_bare(int* out);\n", "autotune_bare has no comment"),
    (SOUND.replace("Errors: NO_GPU. ", ""), "autotune_make says no errors"),
    (SOUND.replace("NO_GPU", "NO_CPU"), "names NO_CPU, which is no status"),
    (SOUND.replace("Errors: NO_GPU", "Errors: some"), "lists no status"),
    (SOUND.replace("Errors: NO_GPU", "Errors: none"), ""),
    (SOUND.replace("Capture: safe.", ""), "does not say whether it may be called during stream capture"),
    (SOUND.replace("int* out", "struct CUstream_st* stream"), "does not say what it enqueues"),
    (SOUND.replace("int* out", "struct CUstream_st* stream").replace("Makes it", "Enqueues it"), ""),
    ("/* A size. */\ntypedef struct autotune_size {\n    size_t bytes; /* of memory */\n} autotune_size;\n", ""),
    ("/* A thing. */\ntypedef struct autotune_size {\n    size_t bytes;\n} autotune_size;\n", "autotune_size.bytes has no unit or range"),
    ("/* `bytes` of memory. */\ntypedef struct autotune_size {\n    size_t bytes;\n} autotune_size;\n", ""),
    ("typedef struct autotune_size {\n    const char* name;\n} autotune_size;\n", "autotune_size has no comment"),
]


def said(text):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "header.h")
        header.write_text(STATUS + text)
        done = subprocess.run([sys.executable, CHECK, header], text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr


failures = 0
for header_text, expected in CASES:
    code, output = said(header_text)
    if code != (1 if expected else 0) or expected not in output:
        failures += 1
        print(f"{header_text}: expected '{expected}', ended with {code}: {output}")
print(f"{len(CASES) - failures} of {len(CASES)} cases")
sys.exit(1 if failures else 0)
