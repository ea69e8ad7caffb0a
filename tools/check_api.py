#!/usr/bin/env python3
"""Checks the comments of the C interface: each declaration of a function or struct states what a caller must know.

usage: tools/check_api.py [HEADER]. Prints each breach and exits 1 if there is one.

Above each function, or above a group of functions without a blank line between them, stands a comment. Its last sentences are

    Errors: INVALID_ARGUMENT, NO_GPU.    statuses without AUTOTUNE_, all of them in autotune_status; `none` where it cannot fail
    Capture: safe.                       safe, not during capture (with the reason), or what else is to be known

A function that takes a stream must say what it enqueues. Every struct has a comment, and every number in it a word on its unit or range:
beside it, or in the comment above.
"""
import pathlib
import re
import sys

HEADER = "include/autotune/autotune.h"
FURTHER = "include/autotune/verdicts.h"  # its statuses are those of autotune.h
FUNCTION = re.compile(r"AUTOTUNE_API\s+[^;(]*?(\w+)\(([^;]*)\);", re.S)
STRUCT = re.compile(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\n)?typedef struct (\w+) \{\n(.*?)\n\} \w+;", re.S)
NUMBER = re.compile(r"^\s*(?:size_t|int64_t|int|double|float)\s+([^;]+);(.*)$")
COMMENT_AT_END = re.compile(r"/\*((?:[^*]|\*(?!/))*)\*/\s*$")


def statuses(text):
    body = re.search(r"typedef enum autotune_status \{(.*?)\}", text, re.S)
    return set(re.findall(r"AUTOTUNE_(\w+) =", body.group(1))) if body else set()


def comment_above(text, start):
    """The comment that ends above `start`; declarations of the same group may lie between."""
    above = text[:start]
    while True:
        found = COMMENT_AT_END.search(above)
        if found:
            return re.sub(r"\s*\n \* ?", " ", found.group(1)).strip()
        declaration = re.search(r"(?:^|\n)AUTOTUNE_API [^;]*;\n\Z", above)
        if not declaration:
            return None
        above = above[: declaration.start() + 1] if above[declaration.start()] == "\n" else above[: declaration.start()]


def wrong_errors(comment, is_status, known):
    errors = re.search(r"Errors: ([^.]*)\.", comment)
    if not errors:
        return "says no errors" if is_status else None
    words = [] if errors.group(1) == "none" else re.findall(r"\b[A-Z][A-Z_]+\b", errors.group(1))
    if not words and errors.group(1) != "none" and not errors.group(1).startswith("as "):
        return "lists no status after Errors:"
    unknown = [word for word in words if word not in known]
    return f"names {unknown[0]}, which is no status" if unknown else None


def wrong_functions(text, known):
    for found in FUNCTION.finditer(text):
        name = found.group(1)
        comment = comment_above(text, found.start())
        if comment is None:
            yield f"{name} has no comment"
            continue
        errors = wrong_errors(comment, "autotune_status " + name in found.group(0).replace("\n", " "), known)
        if errors:
            yield f"{name} {errors}"
        if "Capture: " not in comment:
            yield f"{name} does not say whether it may be called during stream capture"
        if "CUstream_st" in found.group(2) and "nqueue" not in comment and "one-call form" not in comment:
            yield f"{name} does not say what it enqueues"


def wrong_structs(text):
    for found in STRUCT.finditer(text):
        above, name, body = found.group(1) or "", found.group(2), found.group(3)
        if not above and "/*" not in body:
            yield f"{name} has no comment"
        about = above
        for line in body.split("\n"):
            if line.strip().startswith(("/*", "*")):
                about += " " + line
            number = NUMBER.match(line)
            if not number or "/*" in number.group(2):
                continue
            names = [re.sub(r"\W|\[.*", "", word) for word in number.group(1).split(",")]
            if not any(re.search(rf"\b{word}\b", about) for word in names) and "/*" not in body[: body.find(line)].split("\n\n")[-1]:
                yield f"{name}.{names[0]} has no unit or range"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = [pathlib.Path(sys.argv[1])] if len(sys.argv) > 1 else [root / HEADER, root / FURTHER]
    known = statuses(paths[0].read_text())
    breaches = []
    for path in paths:
        text = path.read_text()
        breaches += [f"{path.name}: {each}" for each in (*wrong_functions(text, known), *wrong_structs(text))]
    for breach in breaches:
        print(breach)
    print(f"interface: {len(breaches) or 'no'} breach{'es' if len(breaches) > 1 else ''}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
