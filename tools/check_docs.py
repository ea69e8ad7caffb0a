#!/usr/bin/env python3
"""Checks that links between documents lead to files, that the README is short, and that docs/environment.md and the manual name every
variable the product reads.

usage: tools/check_docs.py [ROOT]. Prints each breach and exits 1 if there is one.
"""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
VARIABLE = re.compile(r'"((?:AUTOTUNE|XDG|CUDA)_[A-Z_]+|HOME|NO_COLOR|VIRTUAL_ENV|PATH)"')
DOCUMENTED = re.compile(r"^\| `([A-Z][A-Z0-9_]+)", re.M)
TABLE = "tools/cli/environment.cpp"
README_WORDS = 700  # code, tables and the picture too
PRODUCT = ["src", "tools/cli", "tuner", "db"]


def dead_links(root):
    documents = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]
    for document in documents:
        for target in LINK.findall(document.read_text()):
            if "://" not in target and not (document.parent / target).exists():
                yield f"{document.relative_to(root)}: the link to {target} leads nowhere"


def long_readme(root):
    words = len((root / "README.md").read_text().split())
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
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    breaches = [*dead_links(root), *long_readme(root), *wrong_variables(root)]
    for breach in breaches:
        print(breach)
    print(f"docs: {len(breaches) or 'no'} breach{'es' if len(breaches) > 1 else ''}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
