#!/usr/bin/env python3
"""Checks that links between documents lead to files, that files shown in documents are as they are there, that the README is short, and that
docs/environment.md and the manual name every variable the product reads.

usage: tools/check_docs.py [--write] [ROOT]. Prints each breach and exits 1 if there is one. --write copies the shown files into the documents.
"""
import pathlib
import re
import sys

SHOWN_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```\n", re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
VARIABLE = re.compile(r'"((?:AUTOTUNE|XDG|CUDA)_[A-Z_]+|HOME|NO_COLOR|VIRTUAL_ENV|PATH)"')
DOCUMENTED = re.compile(r"^\| `([A-Z][A-Z0-9_]+)", re.M)
TABLE = "tools/cli/environment.cpp"
README_WORDS = 700  # code and tables too
PRODUCT = ["src", "tools/cli", "tuner", "db"]


def documents(root):
    return [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]


def changed_files(root):
    """Blocks behind a line `<!-- file: PATH -->` that are not that file."""
    for document in documents(root):
        for path, block in SHOWN_FILE.findall(document.read_text()):
            if not (root / path).is_file():
                yield f"{document.relative_to(root)}: shows {path}, which is no file"
            elif (root / path).read_text() != block:
                yield f"{document.relative_to(root)}: shows another text than {path} has; tools/check_docs.py --write copies the file"


def write_files(root):
    """Puts the files into those blocks."""
    for document in documents(root):
        text = document.read_text()
        changed = SHOWN_FILE.sub(lambda match: match[0][:match.start(2) - match.start()] + (root / match[1]).read_text() + "```\n", text)
        if changed != text:
            document.write_text(changed)


def dead_links(root):
    for document in documents(root):
        for target, anchor in LINK.findall(document.read_text()):
            if "://" in target:
                continue
            path = document.parent / target if target else document
            if not path.exists():
                yield f"{document.relative_to(root)}: the link to {target} leads nowhere"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                yield f"{document.relative_to(root)}: {path.name} has no heading for #{anchor}"


def anchors(path):
    """The headings of a page as links name them: lower case, blanks as dashes, without punctuation."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ +(.*?) *$", text, re.M)}


def long_readme(root):
    words = len(re.sub(r"<!--.*?-->", "", (root / "README.md").read_text(), flags=re.S).split())
    if words > README_WORDS:
        yield f"README.md: {words} words, more than {README_WORDS}"


def sources(root):
    for place in PRODUCT:
        path = root / place
        yield from ([path] if path.is_file() else (one for one in path.rglob("*") if one.suffix in (".cpp", ".h")))


def variables_read(root):
    """Names in the product's code, each with a place; the manual's own table is no place, since it only tells of them."""
    read = {}
    for path in sources(root):
        text = path.read_text()
        if path == root / TABLE:
            text = re.sub(r"environment_variables\(\) \{.*?\n\}", "", text, flags=re.S)
        for line in text.split("\n"):
            for name in VARIABLE.findall(line.split("//")[0]):
                read.setdefault(name, path.relative_to(root))
    return read


def wrong_variables(root):
    documented = set(DOCUMENTED.findall((root / "docs/environment.md").read_text()))
    manual = set(VARIABLE.findall((root / TABLE).read_text()))
    read = variables_read(root)
    for name, path in sorted(read.items()):
        if name not in documented:
            yield f"docs/environment.md: {name}, which {path} reads, is missing"
        if name not in manual:
            yield f"{TABLE}: {name}, which {path} reads, is missing from environment_variables()"
    texts = "".join(path.read_text(errors="replace") for folder in ("tools", "tests", "src", "tuner", "python", ".ci", "cmake", "benchmarks")
                    for path in (root / folder).rglob("*") if path.is_file())
    for name in sorted(documented - set(read)):
        if not re.search(rf"\b{name}\b", texts):
            yield f"docs/environment.md: nothing reads {name}"


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root = pathlib.Path(words[0] if words else pathlib.Path(__file__).resolve().parent.parent)
    if "--write" in sys.argv:
        write_files(root)
    breaches = [*dead_links(root), *changed_files(root), *long_readme(root), *wrong_variables(root)]
    for breach in breaches:
        print(breach)
    print(f"docs: {len(breaches) or 'no'} breach{'es' if len(breaches) > 1 else ''}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
