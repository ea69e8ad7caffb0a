#!/usr/bin/env python3
"""Runs every command that the documents show, and says which of them do not end as the page says.

usage: tools/scripts/docs_commands.py --build FOLDER [--list] [--times] [FILE...]

Commands are the lines of fenced blocks without a language, and `autotune ...` between backquotes. In a block, words about a command
stand behind `#`, so that a line can be pasted. Each page has a home and a working folder of its own; its commands run one after the other
on the scripted driver with the identity of an H200 (machine=h200), or without a driver (machine=none). They must end with 0. A comment
line of the page says what differs, for the commands up to the next heading that begin with its words:
  <!-- run: autotune sweep: with='--budget=1t --full' exit=3 machine=none -->    `with`: flags that are added or replaced
  <!-- not run: docker: there is no Docker in CI -->                    the reason is for readers
Not run either, but looked at: `tools/dev WORD`, whose word must exist (`tools/dev run ARGS` and `python -m autotune ARGS` run
`autotune ARGS`), paths of scripts, and backquoted parts of commands (`autotune bench --named`), whose subcommand and flags must exist.
"""
import argparse
import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "examples/README.md", "python/README.md"]
MACHINE = 'device name="NVIDIA H200" cc=9.0 sms=132 l2_mib=60 memory_mib=143360 bus=6016\nnvml driver=580.159.04\n'
PROGRAMS = {"autotune", "cmake", "ctest", "docker", "git", "pip", "podman", "python", "python3", "source", "sudo", "xargs"}
MARK = re.compile(r"^<!-- (?P<kind>run|not run): (?P<prefix>[^:]+): (?P<words>.+?) -->$")
# Values for placeholders in backquoted commands.
PLACEHOLDERS = {"S": "512x512x512", "FILE": "shapes.txt", "...": "512x512x512", "OTHER.db": "node1.db"}
NEEDS_PROBLEM = {"tune", "sweep", "bench", "explain", "compile", "warm"}
LIMIT_S = 60


@dataclasses.dataclass
class Command:
    page: str
    line: int
    text: str
    inline: bool
    marks: list

    def __str__(self):
        return f"{self.page}:{self.line}: {self.text}"


@dataclasses.dataclass
class Mark:
    page: str
    line: int
    kind: str
    prefix: str
    words: str
    used: bool = False


def with_flags(text, flags):
    """The command with `--name=value` in place of its own value of that flag, or behind its words."""
    text, pipe, behind = text.partition(" | ")
    for flag in flags:
        name = flag.partition("=")[0]
        text, count = re.subn(rf"{name} \S+", flag, text)
        if count == 0:
            text = f"{text} {flag}"
    return text + pipe + behind


class Wrong(Exception):
    """What is wrong with a command."""


def without_comment(line):
    """The line without the words after `#`."""
    found = re.match(r"""((?:[^\s#'"]|'[^']*'|"[^"]*"|\s+(?!#)|(?<=\S)#)*)""", line)
    return found[1].rstrip()


def first_word(text):
    return text.split(None, 1)[0] if text.split() else ""


def is_program(word):
    return word in PROGRAMS or re.match(r"(tools/(dev$|check_|scripts/)|build/|\.ci/|benchmarks/|tests/)", word) is not None


def shell_lines(block, first_line):
    """(line number, command) of a block; empty for one that holds no commands."""
    lines, held, begun = [], "", 0
    for number, line in enumerate(block, first_line):
        begun = begun if held else number
        held += line
        if held.endswith("\\"):
            held = held[:-1]
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            lines.append((begun, without_comment(held)))
        held = ""
    if not any(is_program(first_word(text)) for _, text in lines) or lines[0][1].startswith("$ "):
        return []
    return lines


def inline_commands(line, subcommands):
    """Backquoted commands of a line of prose; in the first cell of a table, without `autotune` too."""
    found = re.findall(r"`([^`]+)`", line)
    if line.startswith("| ") and found and line.split("|")[1].strip() == f"`{found[0]}`" and " -" in found[0]:
        if first_word(found[0]) in subcommands:
            found[0] = "autotune " + found[0]
    return [text for text in found if text.startswith("autotune ") and not text.startswith("autotune __")]


def read_page(path, subcommands):
    """The commands and marks of a page."""
    name, commands, marks, active = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name, [], [], []
    block = None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        fence = re.match(r"```(\w*)", line)
        if fence and block is None:
            block, language, begun = [], fence[1], number + 1
        elif fence:
            if not language:
                commands += [Command(name, at, text, False, active) for at, text in shell_lines(block, begun)]
            block = None
        elif block is not None:
            block.append(line)
        elif line.startswith("#"):
            active = []
        elif found := MARK.match(line):
            mark = Mark(name, number, found["kind"], found["prefix"], found["words"])
            marks.append(mark)
            active = [*active, mark]
        else:
            commands += [Command(name, number, text, True, active) for text in inline_commands(line, subcommands)]
    return commands, marks


class Runner:
    """Runs the commands of one page."""

    def __init__(self, build, help_of):
        self._build, self._help_of = build, help_of
        self.ran = self.looked_at = self.not_run = 0
        self.times = []

    def run_page(self, commands):
        """What was wrong with each command that failed."""
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="docs_commands."))
        try:
            self._make_machine(" ".join(each.text for each in commands))
            for command in commands:
                begun = time.monotonic()
                try:
                    for part in command.text.split(" && "):
                        self._do(command, part.strip())
                except Wrong as wrong:
                    yield f"{command}\n    {wrong}"
                self.times.append((time.monotonic() - begun, str(command)))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_machine(self, all_text):
        """A home, a working folder that shows the repository, libraries and programs."""
        for name in ("home", "none", "bin", "work/build/release"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "script").write_text(MACHINE)
        fakes = self._build / "tests/support/fake/lib"
        for fake in fakes.iterdir():
            target = self._folder / "none" / fake.name
            target.symlink_to(fake) if "nvrtc" in fake.name else target.write_text("no library: hides a real one\n")
        self._h200 = fakes
        (self._folder / "bin/autotune").symlink_to(self._build / "tools/autotune")
        work = self._folder / "work"
        for entry in ROOT.iterdir():
            if entry.name != "build" and not entry.name.startswith(".git"):
                (work / entry.name).symlink_to(entry)
        # An installation writes its manifest next to its script. With a copy of the script, the manifest of the build folder
        # stays as it is.
        script = self._build / "cmake_install.cmake"
        if script.exists():
            text = script.read_text().replace(f'"{self._build}/${{CMAKE_INSTALL_MANIFEST}}"', f'"{work}/build/release/${{CMAKE_INSTALL_MANIFEST}}"')
            (work / "build/release/cmake_install.cmake").write_text(text)
        for name in ("set.txt", "set.toml"):
            shutil.copy(ROOT / "examples/shapes" / name, work / name)
        (work / "shapes.txt").write_text("512x512x512 op=hgemm\n")
        shutil.copy(ROOT / "tests/data/search_spaces/convolution_excerpt.json.gz", work / "space.json.gz")
        if "node1.db" in all_text or "OTHER.db" in all_text:
            for name in ("node1.db", "node2.db"):
                self._run(f"autotune --op sadd --shape 1024 --budget 2t --db {name}", "h200", 0)

    def _do(self, command, part):
        mark = next((each for each in command.marks if part.startswith(each.prefix)), None)
        if mark:
            mark.used = True
        if mark and mark.kind == "not run" or first_word(part) == "cd":
            self.not_run += 1
            return
        words = shlex.split(mark.words) if mark else []
        options = {"machine": "h200", "exit": "0"} | dict(word.split("=", 1) for word in words)
        for same in ("tools/dev run ", "python -m autotune "):
            if part.startswith(same):
                part = "autotune " + part.removeprefix(same)
        if first_word(part).startswith(("tools/", ".ci/", "tests/", "benchmarks/")):
            self._look_at_script(part)
            return
        if command.inline and not self._is_whole(part):
            self._look_at_words(part)
            return
        if command.inline:
            part = " ".join(PLACEHOLDERS.get(word, word) for word in part.split(" "))
        part = with_flags(part, options.get("with", "").split())
        pipe = re.search(r" \| (\w+) ", part)
        if pipe and not shutil.which(pipe[1]):  # jq, man
            part = part[:pipe.start()]
        self.ran += 1
        self._run(part, options["machine"], int(options["exit"]))

    def _run(self, text, machine, expected):
        libraries = self._h200 if machine == "h200" else self._folder / "none"
        environment = {"PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self._folder / "home"), "LANG": "C.UTF-8",
                       "LD_LIBRARY_PATH": str(libraries), "AUTOTUNE_FAKE_SCRIPT": str(self._folder / "script"),
                       "AUTOTUNE_SHIPPED": str(ROOT / "db/winners"), "TMPDIR": str(self._folder)}
        try:
            done = subprocess.run(["bash", "-eo", "pipefail", "-c", text], env=environment, cwd=self._folder / "work", text=True, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Wrong(f"took longer than {LIMIT_S} s") from None
        if done.returncode != expected:
            last = "\n    ".join((done.stderr or done.stdout).strip().split("\n")[-3:])
            raise Wrong(f"`{text}` ended with {done.returncode}, not {expected}: {last}")

    def _look_at_script(self, part):
        self.looked_at += 1
        path = ROOT / first_word(part)
        if not os.access(path, os.X_OK):
            raise Wrong(f"{first_word(part)} is no program")
        words = part.split()
        if words[0] == "tools/dev" and len(words) > 1 and not re.search(rf"^#   tools/dev {re.escape(words[1])}\b", path.read_text(), re.M):
            raise Wrong(f"tools/dev has no '{words[1]}'")

    def _is_whole(self, part):
        """Whether a backquoted command can be run: it has an argument, and a problem where it needs one."""
        words = part.split()[1:]
        subcommand = words[0] if not words[0].startswith("-") else "tune"
        if re.search(r"[A-Z]{4,}", part.replace("FILE", "").replace("OTHER", "")):
            return False
        if subcommand in NEEDS_PROBLEM:
            return any(word in words for word in ("--shape", "--shapes", "--misses"))
        return len(words) > 1 or subcommand in ("doctor", "manual", "show")

    def _look_at_words(self, part):
        """Checks that the subcommand and the flags of a partial command exist."""
        self.looked_at += 1
        words = part.split()[1:]
        subcommand = words[0] if not words[0].startswith("-") else "tune"
        text = self._help_of(subcommand) if subcommand != "COMMAND" else self._help_of("")
        for flag in re.findall(r"--[\w-]+", part):
            if flag != "--help" and not re.search(rf"(?<![\w-]){flag}(?![\w-])", text):
                raise Wrong(f"`autotune {subcommand}` has no {flag}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    parser.add_argument("--times", action="store_true", help="print what each took, the longest first")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()

    @functools.lru_cache(None)
    def help_of(subcommand):
        done = subprocess.run([build / "tools/autotune", *([subcommand] if subcommand else []), "--help"], text=True, capture_output=True)
        if done.returncode != 0:
            raise Wrong(f"autotune has no command '{subcommand}'")
        return done.stdout

    subcommands = set(re.findall(r"^  (\w+) {2,}\w", help_of("").partition("commands:")[2].partition("exit codes")[0], re.M))
    pages = [path.resolve() for path in options.files] or [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("*.md"))]
    read = [read_page(path, subcommands) for path in pages]
    if options.list:
        for commands, _ in read:
            print("\n".join(map(str, commands)), end="\n" if commands else "")
        return 0
    runners = [Runner(build, help_of) for _ in read]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda each: list(each[0].run_page(each[1][0])), zip(runners, read)))
    wrong = [text for texts in found for text in texts]
    wrong += [f"{mark.page}:{mark.line}: the mark for '{mark.prefix}' meets no command" for _, marks in read for mark in marks if not mark.used]
    if options.times:
        print("\n".join(f"{seconds:6.2f} s  {text}" for seconds, text in sorted((each for runner in runners for each in runner.times), reverse=True)))
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{sum(each.ran for each in runners)} commands run, {sum(each.looked_at for each in runners)} looked at, "
          f"{sum(each.not_run for each in runners)} not run for the reasons in the pages; {len(wrong) or 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
