#!/usr/bin/env python3
"""Checks that the samples in README.md and docs/*.md are what the command prints, or writes them anew.

usage: tools/scripts/readme_samples.py --build FOLDER [--write] [FILE...]

A sample is a fenced block that begins with `$ autotune ...`. The line above the block says how it is made:
  <!-- sample machine=h200 lines=1-9,/cublas/ cut=118 -->   run; `lines` of the output are shown, each cut at `cut` columns
  <!-- recorded: GPU, driver, commit, date -->        measured on a GPU; not run here
Machines: h200 has the scripted driver of the tests with the identity of the shipped winners' card, so that stored answers are shown and
nothing is timed: its samples must be equal. none has no driver: numbers may differ, because they are the compiler's and this machine's.
"""
import argparse
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARD = 'device name="NVIDIA H200" cc=9.0 sms=132 l2_mib=60 memory_mib=143360 bus=6016\nnvml driver=580.159.04\n'
BLOCK = re.compile(r"(?:<!-- (?P<kind>sample|recorded):?(?P<words>[^\n]*) -->\n)?```\w*\n\$ (?P<command>autotune [^\n]*)\n(?P<text>.*?)```", re.S)


def run(build, words, command, real_compiler):
    """Standard output of the command in a home of its own; the home's path is written ~."""
    fakes = build / "tests/support/fake/lib"
    with tempfile.TemporaryDirectory() as home:
        script, libraries = pathlib.Path(home, "script"), pathlib.Path(home, "libraries")
        script.write_text(CARD)
        libraries.mkdir()
        for fake in fakes.iterdir():
            if words["machine"] == "none" and "nvrtc" not in fake.name:
                pathlib.Path(libraries, fake.name).write_text("no library: hides a real one\n")
            elif not (words["machine"] == "none" and real_compiler):
                pathlib.Path(libraries, fake.name).symlink_to(fake)
        environment = {name: os.environ[name] for name in ("PATH", "AUTOTUNE_NVRTC") if name in os.environ}
        environment |= {"HOME": home, "AUTOTUNE_FAKE_SCRIPT": str(script), "LD_LIBRARY_PATH": str(libraries),
                        "AUTOTUNE_SHIPPED": str(ROOT / "db/winners"), "LANG": "C.UTF-8"}
        if not real_compiler:
            environment.pop("AUTOTUNE_NVRTC", None)
        arguments = [str(build / "tools/autotune"), *shlex.split(command)[1:]]
        done = subprocess.run(arguments, env=environment, cwd=ROOT, text=True, capture_output=True, timeout=600)
        if done.returncode != 0:
            raise SystemExit(f"`{command}` ended with {done.returncode}: {done.stderr}")
        return done.stdout.replace(home, "~")


def place(lines, bound, start):
    """Index of line `3`, or of the first line from `start` on that holds the text of `/cublas/`."""
    if not bound.startswith("/"):
        return int(bound) - 1
    return next((i for i in range(start, len(lines)) if bound.strip("/") in lines[i]), len(lines))


def chosen(lines, part):
    """Indices of `3`, `/cublas/` (all lines that hold it), `3-5`, `3-/search/`, `/median/-/group=1/` or `3-` (to the end)."""
    first, dash, last = part.partition("-")
    if not dash and first.startswith("/"):
        return [i for i, line in enumerate(lines) if first.strip("/") in line]
    begin = place(lines, first, 0)
    return range(begin, (place(lines, last, begin) if last else len(lines) - 1 if dash else begin) + 1)


def shown(output, words):
    """The lines that the marker selects; a line of dots replaces those left out between them."""
    lines = output.rstrip("\n").split("\n")
    wanted = set(range(len(lines)))
    if "lines" in words:
        wanted = {i for part in words["lines"].split(",") for i in chosen(lines, part)}
    result = []
    for i, line in enumerate(lines):
        if i in wanted:
            limit = int(words.get("cut", 10_000))
            result.append(line if len(line) <= limit else line[:limit - 4].rstrip() + " ...")
        elif result and result[-1] != "...":
            result.append("...")
    return "\n".join(result) + "\n"


def form(text):
    """A sample without its numbers and the widths that follow from them."""
    return re.sub(r"[ ]+", " ", re.sub(r"\d[\d.,]*", "0", text))


def checked(match, build, write):
    """The block as it should be, and whether it is already like that."""
    if match["kind"] is None:
        raise SystemExit(f"`{match['command']}`: the block has no line `<!-- sample ... -->` or `<!-- recorded: ... -->` above it")
    if match["kind"] == "recorded":
        return match[0], True
    words = dict(word.split("=", 1) for word in match["words"].split())
    text = shown(run(build, words, match["command"], write), words)
    same = text == match["text"] or words["machine"] == "none" and form(text) == form(match["text"])
    if not same and not write:
        print(f"`{match['command']}` prints something else now:")
        print("".join(difflib.unified_diff(match["text"].splitlines(True), text.splitlines(True), "documented", "printed")))
    return match[0] if same else match[0][:match.start("text") - match.start()] + text + "```", same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    wrong = samples = 0
    for path in options.files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        for match in reversed(list(BLOCK.finditer(text))):
            block, same = checked(match, options.build.resolve(), options.write)
            samples += 1
            wrong += not same
            text = text[:match.start()] + block + text[match.end():]
        if options.write and text != path.read_text():
            path.write_text(text)
    print(f"{samples} samples, {wrong} {'written anew' if options.write else 'not as printed; tools/scripts/readme_samples.py --write makes them anew'}"
          if wrong else f"{samples} samples are as printed")
    return 1 if wrong and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
