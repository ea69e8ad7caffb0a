#!/usr/bin/env python3
"""Gives winners the identity of the present template where it compiles to the same machine code as the one they were measured with, so
that a change which leaves their instances alone does not cost their measurements. Rewrites the files; prints the lines that stay behind.

    tools/scripts/carry_winners.py AUTOTUNE OLD_TEMPLATES IDENTITY FILE.jsonl...

AUTOTUNE: the command with the present templates embedded. OLD_TEMPLATES: a kernel_templates folder of the commit that the winners are
of (git worktree). IDENTITY: the present template's, from any tune with it. Winners of other families than IDENTITY's are left alone.
Exit 1 if a line stays behind. The cubins are compared whole, but for names that are made of a hash of the source.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

# The symbol ends in a hash of the source, and names of what is local to it carry one more.
HASHES = re.compile(rb"_[0-9a-f]{16}|_cu_[0-9a-f]{8}")


def shape_of(extents):
    batch = "" if extents["batch"] == 1 else f"{extents['batch']}*"
    return f"{batch}{extents['m']}x{extents['n']}x{extents['k']}"


def cubin_of(autotune, winner, templates):
    """The winner's instance as `autotune compile` makes it, without its name; templates None: the embedded ones."""
    words = winner["problem"]["class"].split()
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "kept")
        os.mkdir(kept)
        command = [autotune, "compile", "--op", words[0], "--shape", shape_of(winner["problem"]["extents"]), "--family", winner["family"],
                   "--arch", winner["arch"], "--count", "1", "--keep", kept]
        for word in words[1:]:
            command += ["--" + word.split("=")[0], word.split("=")[1]]
        for name, value in winner["config"].items():
            command += ["--param", f"{name}={value}"]
        if templates:
            command += ["--templates", templates]
        environment = dict(os.environ, AUTOTUNE_CACHE_DIR=os.path.join(folder, "cache"), XDG_DATA_HOME=folder)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        cubins = [name for name in os.listdir(kept) if name.endswith(".cubin")]
        if done.returncode != 0 or len(cubins) != 1:
            raise SystemExit(f"carry_winners.py: {' '.join(command)}\n{done.stdout}{done.stderr}")
        with open(os.path.join(kept, cubins[0]), "rb") as file:
            return HASHES.sub(b"", file.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("autotune")
    parser.add_argument("old_templates")
    parser.add_argument("identity")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--family", default="gemm/wgmma")
    options = parser.parse_args()

    def carried(line):
        winner = json.loads(line)
        if winner["family"] != options.family or winner["template"] == options.identity:
            return line, None
        now, before = (cubin_of(options.autotune, winner, templates) for templates in (None, options.old_templates))
        if now != before:
            return line, f"{shape_of(winner['problem']['extents'])} {winner['problem']['class']}"
        return line.replace(f'"template":"{winner["template"]}"', f'"template":"{options.identity}"'), None

    behind = 0
    for path in options.files:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(carried, lines))
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line, _ in results)
        for _, problem in results:
            if problem:
                behind += 1
                print(problem, flush=True)
    raise SystemExit(1 if behind else 0)


if __name__ == "__main__":
    main()
