#!/usr/bin/env python3
"""Doxygen's input filter: turns the plain comments of our public headers into those that doxygen reads.

usage: tools/scripts/doxygen_filter.py HEADER

The headers are read as they are more often than as a page, so they carry no markup. A comment above a declaration documents the
declaration, one behind a member documents the member. Lines keep their numbers, so that doxygen's messages name the right ones.
"""
import pathlib
import re
import sys


def documented_c(text):
    in_comment = False
    for line in text.split("\n"):
        if not in_comment and re.match(r"\s*/\*(?! ----)", line):
            line = line.replace("/*", "/**", 1)
        elif not in_comment:
            line = re.sub(r"(\S\s+)/\* ", r"\1/**< ", line)
        in_comment = "*/" not in line[line.rfind("/*") + 1 :] if "/*" in line else in_comment and "*/" not in line
        yield line


def documented_cpp(text):
    return (re.sub(r"^(\s*)// ", r"\1/// ", line) for line in text.split("\n"))


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    lines = list(documented_c(path.read_text()) if path.suffix == ".h" else documented_cpp(path.read_text()))
    # The first comment describes the whole file.
    lines[0] = re.sub(r"^(/\*\*|///) ", rf"\1 @file {path.name} @brief ", lines[0])
    sys.stdout.write("\n".join(lines))
