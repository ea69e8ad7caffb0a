#!/usr/bin/env python3
"""Proves that tools/scripts/readme_samples.py refuses a sample that is not what is printed and one without conditions, and mends the former.

usage: readme_samples_test.py BUILD
"""
import pathlib
import subprocess
import sys
import tempfile

SAMPLES = pathlib.Path(__file__).resolve().parents[3] / "tools/scripts/readme_samples.py"
MARKER = "<!-- sample machine=h200 lines=1 -->\n"
BLOCK = "```\n$ autotune doctor --help\n{}\n```\n"


def run(text, *options):
    """Returns exit code, output, and the text afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "page.md")
        path.write_text(text)
        done = subprocess.run([sys.executable, SAMPLES, "--build", sys.argv[1], *options, path], text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr, path.read_text()


code, said, _ = run(MARKER + BLOCK.format("an outdated line"))
assert code == 1 and "-an outdated line" in said, said
code, said, mended = run(MARKER + BLOCK.format("an outdated line"), "--write")
assert code == 0 and "outdated" not in mended and mended.startswith(MARKER), said
code, said, _ = run(mended)
assert code == 0 and "1 samples are as printed" in said, said
code, said, _ = run(BLOCK.format("x"))
assert code == 1 and "has no line" in said, said
code, said, _ = run("<!-- recorded: H200 -->\n" + BLOCK.format("x"))
assert code == 0, said
print("5 cases")
