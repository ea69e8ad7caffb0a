#!/usr/bin/env python3
"""Every member of the documents that commands print with --json stands in docs/json.md. On the scripted driver; no GPU is needed.

usage: json_docs_test.py BUILD
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "scripts"))
import readme_samples  # noqa: E402

SMALL = "--op hgemm --shape 64x64x32 --family simt"
COMMANDS = [
    ("h200", "autotune --op hgemm --shape 4096x4096x2048 --json"),
    ("h200", f"autotune {SMALL} --budget 4s,4t --json"),
    ("none", f"autotune {SMALL} --arch sm_80 --json"),
    ("none", f"autotune compile {SMALL} --arch sm_80 --count 1 --json"),
    ("h200", "autotune sweep --op hgemm --shapes 64x64x32 --family simt --budget 4s,4t --json"),
    ("h200", "autotune sweep --op hgemm --shapes 64x64x32 --dry-run --json"),
    ("h200", f"autotune bench {SMALL} --named --rounds 3 --burst --against cublas --json"),
    ("h200", "autotune show --op hgemm --limit 1 --json"),
    ("h200", "autotune explain --op hgemm --shape 4096x4096x2048 --json"),
    ("h200", "autotune families --op hadd --json"),
    ("h200", "autotune families add/vector --arch sm_80 --json"),
    ("h200", "autotune report --limit 1 --html /dev/null --json"),
    ("h200", "autotune report --limit 1 --plot /dev/null --json"),
    ("h200", "autotune explain --op hgemm --shape 77x77x77 --json"),
    ("h200", "autotune warm --op hadd --shape 64 --json"),
    ("h200", "autotune doctor --json"),
    ("h200", "autotune completion bash --json"),
    ("h200", "autotune manual --json"),
    ("none", f"autotune simulate {ROOT}/tests/data/search_spaces/convolution_excerpt.json --runs 1 --json"),
]
# Members whose objects have names that depend on an op or on this machine: parameters, extents, statuses, reasons.
OPEN = {"config", "default_config", "extents", "traits", "legal", "failures", "summary", "points_within"}


def members(value, open_map=False):
    if isinstance(value, list):
        for item in value:
            yield from members(item, open_map)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if not open_map:
                yield name
            yield from members(inner, name in OPEN or (name == "dropped" and isinstance(inner, dict)))


build = pathlib.Path(sys.argv[1]).resolve()
documented = set(re.findall(r"[a-z][a-zN0-9_]*", " ".join(re.findall(r"`([^`]*)`", (ROOT / "docs/json.md").read_text()))))
missing = {}
for machine, command in COMMANDS:
    for name in members(json.loads(readme_samples.run(build, {"machine": machine}, command, real_compiler=False))):
        general = re.sub(r"(?<=_)\d+(?=pct$|$)", "N", name)  # runs_solved_5pct counts as runs_solved_Npct
        if general not in documented:
            missing.setdefault(general, command)
for name, command in sorted(missing.items()):
    print(f"docs/json.md does not name `{name}`, which `{command}` prints")
print(f"{len(COMMANDS)} documents, {len(missing) or 'no'} member missing")
sys.exit(1 if missing else 0)
