#!/usr/bin/env python3
"""Proves that tools/scripts/draw_sentences.py draws comments and sentences, the same ones for one seed, and no code."""
import pathlib
import subprocess
import sys
import tempfile

DRAW = pathlib.Path(__file__).resolve().parents[3] / "tools/scripts/draw_sentences.py"
FILES = {
    "src/a.cpp": "// A comment of two lines that a\n// reader marks or does not.\nint a;\nint b = 0;  // a comment that stands behind some code\nint c;  // short\n"
                 "}  // namespace autotune::of_one::and_two::and_three\n\n// SPDX-License-Identifier: one of the many licenses\n\n"
                 "// clang-format off because of these many words\n#endif  // AUTOTUNE_ONE_TWO_THREE_FOUR_A_H\n",
    "docs/a.md": "# A heading that nobody draws here\n\nThe first sentence is here. **The bold one comes as the second.** The last one is third.\n\n"
                 "- An item of a list follows them.\n\n| a cell with several words inside | 1 |\n\n```\na line of code is never drawn\n```\n",
    "build/b.md": "A sentence that was generated here.\n",
}
EXPECTED = [
    "src/a.cpp:1: A comment of two lines that a reader marks or does not.\n     | int a;",
    "src/a.cpp:4: a comment that stands behind some code\n     | int b = 0;",
    "docs/a.md:3: The first sentence is here.",
    "docs/a.md:3: **The bold one comes as the second.**",
    "docs/a.md:3: The last one is third.",
    "docs/a.md:5: An item of a list follows them.",
    "docs/a.md:7: a cell with several words inside",
]


def draw(folder, *words):
    return subprocess.run([sys.executable, DRAW, *words, folder], text=True, capture_output=True, check=True).stdout


with tempfile.TemporaryDirectory() as folder:
    for name, text in FILES.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    everything = draw(folder, "--seed", "0badcafe")
    wrong = [text for text in EXPECTED if text not in everything]
    if not everything.startswith("seed 0badcafe: 2 of 2 comments, 5 of 5 sentences\n"):
        wrong.append(everything.split("\n")[0])
    some = [draw(folder, "--seed", seed, "--comments", "1", "--sentences", "3") for seed in ("0badcafe", "0badcafe", "12345678")]
    if some[0] != some[1] or some[0] == some[2]:
        wrong.append("one seed draws one list")
print("\n".join(wrong) or "draw_sentences: sound")
sys.exit(1 if wrong else 0)
