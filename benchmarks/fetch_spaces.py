#!/usr/bin/env python3
"""Fetches the recorded search spaces that spaces.txt lists into a folder: fetch_spaces.py FOLDER [--clone REPOSITORY]

Clones the repository without its files and takes the listed ones alone, at the listed commit. `--clone` names a clone that is there.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

LIST = pathlib.Path(__file__).with_name("spaces.txt")


def read_list(text):
    """The facts of the header ("repository", "commit") and the path of each space by its name, stars left out."""
    facts, spaces = {}, {}
    for line in text.splitlines():
        words = line.lstrip("# ").split(" ")
        if line.startswith("#"):
            if len(words) == 2 and words[0] in ("repository", "commit"):
                facts[words[0]] = words[1]
        elif line.strip():
            name, path = line.split(": ", 1)
            spaces[name.rstrip("*")] = path.strip()
    return facts, spaces


def fetch(clone, commit, spaces, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in spaces.items():
        done = subprocess.run(["git", "-C", str(clone), "show", f"{commit}:{path}"], stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"{path} is not in the clone {clone} at {commit}; git's message is above")
        target = folder / (name + "".join(pathlib.PurePosixPath(path).suffixes))
        target.write_bytes(done.stdout)
        print(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--clone", type=pathlib.Path, help="a clone of the repository, bare or not")
    options = parser.parse_args()
    facts, spaces = read_list(LIST.read_text())
    if options.clone:
        return fetch(options.clone, facts["commit"], spaces, options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        clone = pathlib.Path(scratch) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", "--filter=blob:none", facts["repository"], str(clone)], check=True)
        fetch(clone, facts["commit"], spaces, options.folder)
    return None


if __name__ == "__main__":
    main()
