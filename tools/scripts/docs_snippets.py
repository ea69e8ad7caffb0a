#!/usr/bin/env python3
"""Checks the C++, C and Python that the documents show: the former compile, the latter parses and names functions and keywords that exist.

usage: tools/scripts/docs_snippets.py [--compiler CXX] [FILE...]

The C++ and C blocks of a page are one function each language: a block sees what those before it declare. What a block takes as given, such as
device pointers, is said in a line above it:
  <!-- given: void *a, *b, *c; CUstream_st* stream; -->
Blocks that show a file (`<!-- file: ... -->`) are compared with it by tools/check_docs.py instead.
"""
import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "examples/README.md", "python/README.md"]
BLOCK = re.compile(r"(?:<!-- (?P<kind>given|file): (?P<words>[^\n]*?) -->\n)?```(?P<language>cpp|c|python)\n(?P<text>.*?)```", re.S)
STANDARD = {"cpp": "c++17", "c": "c11"}
HEADER = {"cpp": "autotune/autotune.hpp", "c": "autotune/autotune.h"}
PACKAGE = ROOT / "python/autotune"


def compiled(page, language, blocks, compiler):
    """The compiler's messages about a page's blocks of one language; empty if they compile."""
    text = f"#include <{HEADER[language]}>\n#include <stdio.h>\n" + "".join(line + "\n" for each in blocks for line in re.findall(r"^#include.*$", each["text"], re.M))
    text += "void shown(void);\nvoid shown(void) {\n"
    for each in blocks:
        line = page[1].count("\n", 0, each.start("text")) + 1
        body = re.sub(r"^#include.*$", "", each["text"], flags=re.M)
        text += (each["words"] or "") + f'\n{{\n#line {line} "{page[0]}"\n{body}'
    text += "\n" + "}" * len(blocks) + "}\n"
    command = [*compiler, "-x", "c++" if language == "cpp" else "c", f"-std={STANDARD[language]}", "-fsyntax-only", f"-I{ROOT / 'include'}", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True).stderr


def names_of(module):
    """The modules of a package, and what its __init__.py defines or imports."""
    names = {path.stem for path in (PACKAGE / module).iterdir() if not path.name.startswith("__")}
    for node in ast.walk(ast.parse((PACKAGE / module / "__init__.py").read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


class Python:
    """The names that the package defines."""

    def __init__(self):
        # Each op is a function of the package, which the build generates.
        self.ops = {path.parent.parent.name for path in (ROOT / "kernel_templates").glob("*/op/op.cpp")}
        self.modules = {"autotune": names_of(".") | self.ops, "at": names_of("torch")}
        self.members, self.keywords = set(), {}
        for path in PACKAGE.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    self.members.add(node.name)
                if isinstance(node, ast.FunctionDef):
                    known = self.keywords.setdefault(node.name, set())
                    arguments = node.args
                    known |= {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]} | ({"**"} if arguments.kwarg else set())
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    self.members.add(node.target.id)

    def wrong(self, text):
        """What is wrong with a snippet."""
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            yield f"line {error.lineno} of the block is no Python: {error.msg}"
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else None
                if owner in self.modules and node.attr not in self.modules[owner]:
                    yield f"{owner}.{node.attr} does not exist"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                while isinstance(owner, (ast.Attribute, ast.Call)):
                    owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
                known = self.keywords.get(node.func.attr)
                is_ours = isinstance(owner, ast.Name) and owner.id in self.modules
                if not is_ours or owner.id == "autotune" and node.func.attr in self.ops or known is None or "**" in known:
                    continue
                for keyword in node.keywords:
                    if keyword.arg and keyword.arg not in known:
                        yield f"{node.func.attr}() has no argument {keyword.arg}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    python = Python()
    wrong, count = [], 0
    for path in options.files or [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
        blocks = [match for match in BLOCK.finditer(text) if match["kind"] != "file"]
        count += len(blocks)
        for language in STANDARD:
            shown = [each for each in blocks if each["language"] == language]
            if shown and (said := compiled((name, text), language, shown, [options.compiler])):
                wrong.append(said.rstrip())
        for each in blocks:
            if each["language"] == "python":
                line = text.count("\n", 0, each.start("text")) + 1
                wrong += [f"{name}:{line}: {what}" for what in python.wrong(each["text"])]
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"{count} snippets, {len(wrong) or 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
