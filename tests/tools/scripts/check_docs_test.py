#!/usr/bin/env python3
"""Proves that tools/check_docs.py finds dead links, a long README, variables that are missing or
read by nothing, retired names and comments that are riddles."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "tools/check_docs.py"
SOUND = {
    "README.md": "[docs](docs/environment.md) [out](https://example.org/x)\n",
    "CONTRIBUTING.md": "",
    "docs/environment.md": "| `AUTOTUNE_DB` | command |\n",
    "tools/cli/environment.cpp": 'auto environment_variables() {\n    return {"AUTOTUNE_DB"};\n}\nauto x = get("AUTOTUNE_DB");\n',
}
# For each change: the output of the check after it; empty: none.
CASES = [
    ({}, ""),
    ({"README.md": "[gone](docs/gone.md)\n"}, "the link to docs/gone.md leads nowhere"),
    ({"README.md": "<!-- file: a.cuh -->\n```cuda\nint a;\n```\n", "a.cuh": "int a;\n"}, ""),
    ({"README.md": "<!-- file: a.cuh -->\n```cuda\nint b;\n```\n", "a.cuh": "int a;\n"}, "README.md: shows another text than a.cuh has"),
    ({"README.md": "<!-- file: a.cuh -->\n```cuda\nint a;\n```\n"}, "README.md: shows a.cuh, which is no file"),
    ({"README.md": "# A, b\n[here](#a-b) [there](b.md#x-y)\n", "b.md": "## X `y`\n"}, ""),
    ({"README.md": "[there](b.md#x)\n", "b.md": "# X y\n```\n# x\n```\n"}, "README.md: b.md has no heading for #x"),
    ({"README.md": "word " * 700}, ""),
    ({"README.md": "word " * 701}, "README.md: 701 words"),
    ({"src/a.cpp": 'auto y = secure_getenv("AUTOTUNE_NEW");\n'}, "AUTOTUNE_NEW, which src/a.cpp reads, is missing"),
    ({"src/a.cpp": 'auto y = secure_getenv("AUTOTUNE_TEST_NEW");\n', "docs/environment.md": "| `AUTOTUNE_DB` | a |\n| `AUTOTUNE_TEST_NEW` | b |\n"}, ""),
    ({"src/a.cpp": '// reads "AUTOTUNE_NEW" no more\n'}, ""),
    ({"docs/environment.md": "| `AUTOTUNE_DB` | a |\n| `AUTOTUNE_OLD` | b |\n"}, "nothing reads AUTOTUNE_OLD"),
    ({"kernel_templates/a.cuh": "int a;\nconstexpr int math_groups = 2;\n"}, "kernel_templates/a.cuh:2: math_groups was replaced by consumer_warpgroups"),
    ({"kernel_templates/former_names.cpp": "math_groups\n"}, ""),
    ({"docs/results/old.md": "math_groups=2\n"}, ""),
    ({"tests/a.cpp": 'auto x = "softmax/rows held=4";\n'}, "tests/a.cpp:1: held=4 was replaced by register_chunks"),
    ({"tests/a.cpp": "// what is held\n"}, ""),
    ({"db/a.h": "struct Subject {};\n"}, "db/a.h:1: Subject was replaced by ProblemKey"),
    ({"tests/a.h": "struct Subject {};\n"}, ""),
    ({"src/a.h": "// waits for it in vain\n"}, "src/a.h:1: 'in vain' is no plain English"),
    ({"docs/a.md": "Where nobody tuned it, a default serves.\n"}, "docs/a.md:1: 'nobody tuned' is no plain English"),
    ({"src/a.h": "// A tile leaves late.\n"}, "src/a.h:1: 'leaves late' is no plain English"),
    ({"src/a.h": "// An untuned problem; the epilogue overlaps.\n"}, ""),
    ({"src/a.h": "// What dies of it is charged.\n"}, "a.h: 1 comments open with Who, What or Which, 0 may (tools/comment_openings.txt)"),
    ({"src/a.h": "// What dies of it is charged.\n", "tools/comment_openings.txt": "1 a.h\n"}, ""),
    ({"src/a.h": "// A crash is charged.\n", "tools/comment_openings.txt": "1 a.h\n"}, "tools/comment_openings.txt: a.h has 0 such comments, not 1"),
]


def said(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (SOUND | files).items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, folder], text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr


failures = 0
for files, expected in CASES:
    code, text = said(files)
    if code != (1 if expected else 0) or expected not in text:
        failures += 1
        print(f"{files}: expected '{expected}', ended with {code}: {text}")
print(f"{len(CASES) - failures} of {len(CASES)} cases")
sys.exit(1 if failures else 0)
