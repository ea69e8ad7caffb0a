#!/usr/bin/env python3
"""Writes the identities of today's templates into the portfolios of a file, for a file that names none or after a change of the
templates that leaves their machine code alone. Kernels of a portfolio whose template's identity is another are not used.

    tools/scripts/portfolio_templates.py AUTOTUNE FILE.jsonl

AUTOTUNE: the command with the present templates embedded, which is asked for the identities. Changes nothing else of a line.
"""
import json
import re
import subprocess
import sys

SHAPES = ("4096x4096x4096", "1x4096x4096")


def identities(autotune, portfolio):
    """Identities of the families that can do problems of the portfolio's class."""
    found = {}
    op, *words = portfolio["class"].split()
    options = [part for word in words if not word.startswith(("align=", "compute="))
               for part in ("--" + word.split("=")[0], word.split("=")[1])]
    for shape in SHAPES:
        command = [autotune, "families", "--op", op, "--shape", shape, "--arch", portfolio["arch"], "--json", *options]
        for family in json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["families"]:
            if "template_identity" in family:
                found[family["name"]] = family["template_identity"]
    return found


def main():
    autotune, path = sys.argv[1:]
    with open(path) as file:
        lines = file.readlines()
    for number, line in enumerate(lines):
        portfolio = json.loads(line)
        known = identities(autotune, portfolio)
        families = sorted({candidate["family"] for candidate in portfolio["candidates"]})
        templates = json.dumps([{"family": family, "template": known[family]} for family in families], separators=(",", ":"))
        line = re.sub(r'"templates":\[[^]]*\],', "", line, count=1)
        lines[number] = line.replace('"candidates":[', f'"templates":{templates},"candidates":[', 1)
    with open(path, "w") as file:
        file.writelines(lines)


if __name__ == "__main__":
    main()
