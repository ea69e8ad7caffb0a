#!/usr/bin/env python3
"""Tests have names that people can read: no bytes of an object, no addresses, no mere numbers of a parameter.

usage: test_names_test.py BUILD
"""
import pathlib
import re
import sys

names = [name for file in pathlib.Path(sys.argv[1], "tests").rglob("*_tests.cmake")
         for name in re.findall(r"^add_test\(\s*(?:\[=*\[)?(.*?)(?:\]=*\])? ", file.read_text(), re.M)]
wrong = [name for name in names if re.search(r"GetParam|-byte|0x[0-9a-f]{6}|pointing|/[0-9]+$|#", name)]
if not names:
    sys.exit("there are no tests: build some first")
print("\n".join(wrong[:20]) or f"{len(names)} names are readable")
sys.exit(1 if wrong else 0)
