#!/usr/bin/env python3
"""Draws comments of the code and sentences of the documents at random, for readers who did not write them.

usage: tools/scripts/draw_sentences.py [--comments 160] [--sentences 160] [--seed HEX] [--under FOLDER] [ROOT]

The seed is the first eight hex digits of the checked-out commit, so that two readers mark the same list and nobody chooses it. A comment is a
block of `//` lines, or the words behind a line of code; it is shown with the code that it stands at. Sentences are those of every Markdown page,
its lists and its tables among them; code blocks are left out. Ends of namespaces, include guards and license lines are left out too: nobody writes
them to be read. A reader marks what must be read twice.
"""
import argparse
import pathlib
import random
import re
import subprocess

CODE = {".cpp", ".h", ".hpp", ".cuh", ".cu"}
SKIPPED = {"build", ".git", "data"}
LEAST_WORDS = 5  # names in backquotes do not count
NO_PROSE = re.compile(r"(?:end of )?namespace\b|SPDX-|Copyright\b|clang-format o|NOLINT|\w+_(?:H|HPP|CUH|INCLUDED)_?$")
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?]\*\*\*)) +(?=[A-Z`*\[(])")  # a colon does not end a sentence


def files(root, suffixes):
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.suffix in suffixes and path.is_file() and SKIPPED.isdisjoint(parts[:-1]):
            yield path


def is_prose(text):
    return not NO_PROSE.match(text) and len(re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`", "", text))) >= LEAST_WORDS


def comments(path):
    """(line number, comment, code beside it)."""
    block, begun = [], 0
    for number, line in enumerate([*path.read_text(errors="replace").split("\n"), ""], 1):
        whole = re.match(r"\s*// ?(.*)", line)
        if whole:
            begun = begun if block else number
            block.append(whole[1].strip())
            continue
        if block:
            yield begun, " ".join(block), line.strip()
            block = []
        behind = re.match(r"""([^"]*?(?:"(?:[^"\\]|\\.)*"[^"]*?)*)\s// (.*)""", line)
        if behind:
            yield number, behind[2], behind[1].strip()


def sentences(path):
    """(line number, sentence) of a Markdown page."""
    paragraph, begun, in_code = [], 0, False
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        if line.startswith("```"):
            in_code = not in_code
            line = ""
        if in_code or line.startswith(("#", "<!--")):
            line = ""
        is_row, is_item = line.lstrip().startswith("|"), re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if paragraph and (not line.strip() or is_row or is_item):
            yield from ((begun, each) for each in END.split(" ".join(paragraph)))
            paragraph = []
        if is_row:
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1])
        elif line.strip():
            begun = begun if paragraph else number
            paragraph.append(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line).strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--comments", type=int, default=160)
    parser.add_argument("--sentences", type=int, default=160)
    parser.add_argument("--seed", help="eight hex digits; the commit's if left out")
    parser.add_argument("--under", default="", help="only files below this folder")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    seed = options.seed or subprocess.run(["git", "-C", options.root, "rev-parse", "HEAD"], text=True, capture_output=True, check=True).stdout[:8]
    top = options.root / options.under
    all_comments = [(path, *each) for path in files(top, CODE) for each in comments(path) if is_prose(each[1])]
    all_sentences = [(path, *each) for path in files(top, {".md"}) for each in sentences(path) if is_prose(each[1])]
    draw = random.Random(int(seed, 16))
    drawn_comments = draw.sample(all_comments, min(options.comments, len(all_comments)))
    drawn_sentences = draw.sample(all_sentences, min(options.sentences, len(all_sentences)))
    print(f"seed {seed}: {len(drawn_comments)} of {len(all_comments)} comments, {len(drawn_sentences)} of {len(all_sentences)} sentences\n")
    for number, (path, line, text, code) in enumerate(drawn_comments, 1):
        print(f"C{number:03} {path.relative_to(options.root)}:{line}: {text}\n     | {code[:140]}")
    for number, (path, line, text) in enumerate(drawn_sentences, 1):
        print(f"S{number:03} {path.relative_to(options.root)}:{line}: {text}")


if __name__ == "__main__":
    main()
