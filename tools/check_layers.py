#!/usr/bin/env python3
"""Checks who may include, print, read the environment and know an op. Prints each breach as file:line and exits 1 if there is one.

usage: tools/check_layers.py [ROOT]
"""
import fnmatch
import pathlib
import re
import sys

# The components that each component may include besides itself. An entry also permits everything that its target may include. A
# file belongs to the component with the longest name that its path begins with.
ARROWS = {
    "include/autotune": [],
    "src/core": [],
    "src/records": ["src/core"],
    "src/kernel_files": ["src/core"],
    "src/gpu": ["src/core"],
    "kernel_templates": ["src/core"],
    # The libraries that an op is compared with: the only part of an op that uses a GPU.
    "kernel_templates/*/rivals": ["src/rivals"],
    "src/catalogue": ["kernel_templates"],
    "src/rivals": ["kernel_templates", "src/gpu"],
    # Rendering takes texts and headers by name from the catalogue, and hashes them in the same way.
    "src/jit": ["src/catalogue", "src/gpu"],
    "db": ["src/records"],
    # Decides which kernel serves a problem, from files and predictions, without a GPU.
    "src/dispatch": ["src/catalogue", "db"],
    "src/runtime": ["src/jit", "src/dispatch", "src/kernel_files", "db", "include/autotune", "src/runtime/ops"],
    # The public structs and functions for single ops: the only part of the library that names ops.
    "src/runtime/ops": ["src/runtime"],
    # The components of the tuner. Those that decide (search, replay) use neither a GPU nor another process.
    "tuner/search": ["src/core"],
    "tuner/replay": ["tuner/search"],
    "tuner/fixture": ["src/jit"],
    "tuner/measure": ["tuner/fixture", "src/rivals"],
    "tuner/verify": ["tuner/fixture"],
    "tuner/worker": ["tuner/measure", "tuner/verify", "src/records"],
    "tuner/compile": ["tuner/worker"],
    "tuner/session": ["tuner/search", "tuner/replay", "tuner/compile", "db", "src/dispatch"],
    # For many hosts: the store in PostgreSQL, a worker's source of problems, labels on a host.
    "tuner/fleet/store": ["src/gpu"],
    "tuner/fleet": ["tuner/fleet/store", "tuner/session"],
    "tools/cli": ["tuner/fleet", "tuner/session", "src/runtime", "src/kernel_files", "include/autotune", "tools/cli/plot"],
    "tools/cli/plot": ["src/core"],
}
# The components of the command, and the others that each may include. All may include the files of tools/cli itself, which know
# all components except the commands and what several commands share. These entries are not followed further, because the shared
# session has parts of several components.
COMMAND_ROOMS = {
    "tools/cli/commands": ["shared", "input", "output", "help", "plot"],
    "tools/cli/shared": ["input", "output", "help"],
    "tools/cli/help": ["input", "output"],
    "tools/cli/output": ["input", "plot"],
    "tools/cli/input": [],
    "tools/cli/plot": [],
    "tools/cli": ["input", "output", "help"],
}
# Folders in which every file must belong to a component.
ROOMS_ONLY = ["src", "tuner", "tools"]
# Tests that are in the folder of the template that they change.
MUTANTS = "kernel_templates/*/*/mutants.cpp"
# Headers of dependencies that only some components may include. Tests may include all.
OWNERS = {
    r"sqlite3\.h": ["db"],
    r"(cuda|nvrtc|cudaTypedefs|nvml|cublas\w*|cuda_\w+)\.h": ["src/gpu"],
    r"CLI/.*": ["tools/cli"],
    r"(libpq-fe|tuner/fleet/store/libpq_api)\.h": ["tuner/fleet/store"],
    r"spdlog/.*": ["tools/cli"],
    r"sodium(/.*)?\.h": ["src/catalogue"],
    # Other components use the interface, db/winner_store.h, so that SQLite can be replaced.
    r"db/(sqlite|store)/.*": ["db"],
}
PRINTS = re.compile(r"\b(?:std::)?(?:cout|cerr|clog)\s*<<|(?<![\w.])(?:std::)?(?:printf|puts|putchar|perror)\s*\(|"
                    r"\b(?:fprintf|fputs|fwrite|fmt::print)\s*\([^;]*\bstd(?:out|err)\b|\bfmt::print\s*\(\s*\"")
READS_ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
# A set-user-ID program must not trust its caller, so code that programs link reads the environment only by secure_getenv.
READS_INSECURELY = re.compile(r"\bgetenv\s*\(")
READS_SECURELY = ["src/runtime", "src/runtime/ops"]
MAY_PRINT = ["tools/cli"]
# In src/runtime: autotune_create reads the environment if its options request that.
MAY_READ_ENVIRONMENT = ["tools/cli", "src/runtime"]
# Single files that may read the environment, each with a reason.
ENVIRONMENT_EXCEPTIONS = {
    "tuner/worker/worker_process.cpp": "a child process is given a cleaned copy of ours",
}
# Single files that may name ops, each with a reason.
MAY_NAME_OPS = {
    "src/catalogue/former_templates.cpp": "names and identities that families had in earlier versions",
}
# Components that serve all ops in the same way: they must not contain an op's name, its folder, or names of its extents, traits
# and operands.
OP_NEUTRAL = [box for box in ARROWS if box.startswith(("src/", "db", "tuner/", "tools/")) and box != "src/runtime/ops"]
ASKS_BY_NAME = re.compile(r'\b(?:extent|trait|operand)\s*\(\s*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def reachable(box):
    seen, todo = set(), [box]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += ARROWS[one]
    return seen


def box_of(path):
    """The box that a path relative to the root lies in, or None for what has no rules (tests, examples)."""
    if fnmatch.fnmatch(path, MUTANTS):
        return None
    return max((box for box in ARROWS if fnmatch.fnmatch(path, box + "/*")), key=len, default=None)


def command_room(path):
    """The room of the command that a path lies in, or None."""
    return max((room for room in COMMAND_ROOMS if path.startswith(room + "/")), key=len, default=None)


def breaches_of_command_rooms(name, target):
    room, other = command_room(name), command_room(target)
    if room and other and other not in (room, "tools/cli") and other.rpartition("/")[2] not in COMMAND_ROOMS[room]:
        yield f"{room} may not include {target}"


def breaches_of_include(box, bracket, target):
    # Installed headers are included as <autotune/...>.
    other = box_of("include/" + target) if target.startswith("autotune/") else box_of(target) if bracket == '"' else None
    if other is not None and other not in reachable(box):
        yield f"{box} may not include {target}"
    if bracket == '"' and target.startswith("tests/"):
        yield f"{box} may not include {target}: products know nothing of tests"
    for pattern, owners in OWNERS.items():
        if re.fullmatch(pattern, target) and box not in owners:
            yield f"{target} belongs to {', '.join(owners)}; {box} may not include it"


def breaches_of_neutrality(box, line, ops):
    """Breaches of a line of an op-neutral box: it depends on a certain op. Strings that only mention one (examples, help) are allowed."""
    if box not in OP_NEUTRAL or not ops:
        return
    names = "|".join(sorted(ops))
    include = INCLUDE.match(line)
    if include and re.match(rf"kernel_templates/({names})/", include.group(2)):
        yield f"{box} serves every op and may not include {include.group(2)}"
    elif not include and (re.search(rf'"({names})(/\w*)?"', line) or re.search(rf"\b({names})::", line)):
        yield f"{box} names an op; it serves every op alike"
    elif ASKS_BY_NAME.search(line):
        yield f"{box} asks a problem for a part by name; only its op knows the names"


def without_comments(text):
    """The text with comments blanked, line numbers kept. Good enough for our own sources."""
    keep_lines = lambda match: re.sub(r"[^\n]", " ", match.group(0)) if match.group(0).startswith("/") else match.group(0)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', keep_lines, text, flags=re.S)


def breaches_of_file(name, text, ops):
    box = box_of(name)
    if box is None:
        if name.split("/")[0] in ROOMS_ONLY:
            yield 1, f"{name} lies in no room of {name.split('/')[0]}/"
        return
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        if name not in MAY_NAME_OPS:
            yield from ((number, why) for why in breaches_of_neutrality(box, line, ops))
        include = INCLUDE.match(line)
        if include:
            yield from ((number, why) for why in breaches_of_include(box, *include.groups()))
            yield from ((number, why) for why in breaches_of_command_rooms(name, include.group(2)))
        elif PRINTS.search(line) and box not in MAY_PRINT:
            yield number, f"{box} prints; only tools/cli does"
        elif READS_ENVIRONMENT.search(line) and box not in MAY_READ_ENVIRONMENT and name not in ENVIRONMENT_EXCEPTIONS:
            yield number, f"{box} reads the environment; only {', '.join(MAY_READ_ENVIRONMENT)} do"
        elif READS_INSECURELY.search(line) and box in READS_SECURELY:
            yield number, f"{box} works in set-user-ID programs too: secure_getenv, not getenv"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    ops = {path.parent.parent.name for path in (root / "kernel_templates").glob("*/op/op.cpp")}
    count = 0
    for top in sorted({box.split("/")[0] for box in ARROWS}):
        # NVRTC compiles device text (.cuh), so these rules do not apply to it.
        for path in sorted(p for p in (root / top).rglob("*") if p.suffix in {".h", ".hpp", ".cpp", ".c"}):
            name = path.relative_to(root).as_posix()
            for line, why in breaches_of_file(name, path.read_text(), ops):
                print(f"{name}:{line}: {why}")
                count += 1
    if count == 0:
        print("layers: no breach")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
