#!/usr/bin/env python3
"""Proves that tools/scripts/docs_commands.py finds commands of a page that do not end as it says, and marks that meet none.

usage: docs_commands_test.py BUILD
"""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tools/scripts/docs_commands.py"


def block(*lines):
    return "```\n" + "\n".join(lines) + "\n```\n"


# For each page: the output, with an exit code of 1 unless it ends with "nothing wrong".
CASES = [
    (block("autotune --version    # the version"), "1 commands run, 0 looked at, 0 not run for the reasons in the pages; nothing wrong"),
    (block("autotune show    the winners"), "ended with 2, not 0"),
    (block("autotune no_such_command"), "ended with 2, not 0"),
    (block("autotune \\", "  --version"), "1 commands run"),
    ("<!-- run: autotune no: exit=2 -->\n" + block("autotune no_such_command"), "nothing wrong"),
    ("<!-- run: autotune no: exit=2 -->\n# Next\n\n" + block("autotune no_such_command"), "ended with 2, not 0"),
    ("<!-- run: autotune bench: machine=none exit=3 -->\n" + block("autotune bench --op hgemm --shape 64x64x64"), "nothing wrong"),
    ("<!-- run: autotune --op: with=--dry-run -->\n" + block("autotune --op hgemm --shape 64x64x64"), "nothing wrong"),
    ("<!-- not run: docker: there is none -->\n" + block("docker build ."), "0 commands run, 0 looked at, 1 not run"),
    ("<!-- not run: docker: there is none -->\n", "the mark for 'docker' meets no command"),
    ("Say `autotune show --op hadd`.\n", "1 commands run"),
    ("Say `autotune bench --named`.\n", "0 commands run, 1 looked at, 0 not run for the reasons in the pages; nothing wrong"),
    ("Say `autotune bench --no-such-flag`.\n", "`autotune bench` has no --no-such-flag"),
    ("Say `autotune no_such_command`.\n", "autotune has no command 'no_such_command'"),
    (block("tools/dev build"), "1 looked at"),
    (block("tools/dev no_such_word"), "tools/dev has no 'no_such_word'"),
    (block("tools/scripts/no_such_script"), "tools/scripts/no_such_script is no program"),
    (block("tools/dev run --version"), "1 commands run"),
    ("```\nno command: a drawing\n```\n", "0 commands run, 0 looked at"),
]

failures = 0
for text, expected in CASES:
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.md")
        page.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, "--build", sys.argv[1], page], text=True, capture_output=True)
    said = done.stdout + done.stderr
    if expected not in said or done.returncode != (0 if "nothing wrong" in said else 1):
        failures += 1
        print(f"{text}expected '{expected}', ended with {done.returncode}: {said}")
print(f"{len(CASES) - failures} of {len(CASES)} cases")
sys.exit(1 if failures else 0)
