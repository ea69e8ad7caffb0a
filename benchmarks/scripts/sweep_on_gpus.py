#!/usr/bin/env python3
"""Compares a sweep on two GPUs with a sweep on one: time, and whether the winners are as good.

    benchmarks/scripts/sweep_on_gpus.py OUT [--problems 30] [--budget TIME] [--shapes FILE]

Sweeps the first problems of FILE (benchmarks/sets/models.txt) three times, each with a database and a cubin cache of its own and nothing
shipped: on one GPU ("one") and, at the same time, on another one ("again"), then on both ("two"). Then it races the winners of "two" and "again" against those of "one" on one GPU, one problem after the other, and
prints by how much they are slower. `--budget`: of a problem; without it the default of `autotune sweep`. Writes OUT/NAME.json and OUT/NAME.err.
Exit code 3: fewer than two GPUs.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tool():
    for build in ("portable", "release"):
        path = ROOT / "build" / build / "tools" / "autotune"
        if path.exists():
            return str(path)
    sys.exit("no build has an autotune command")


class Sweeps:
    """The three sweeps, each with its own home."""

    def __init__(self, out, shapes, budget):
        self.out, self.shapes, self.home = out, shapes, pathlib.Path(tempfile.mkdtemp())
        self.words = ["--budget", budget] if budget else []
        self.seconds = {}
        (self.home / "none").mkdir()

    def environment(self, name):
        own = {key: str(self.home / name / key.lower()) for key in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
        return {**os.environ, **own, "AUTOTUNE_SHIPPED": str(self.home / "none"), "AUTOTUNE_LOCK_DIR": str(self.home / "locks"),
                "XDG_STATE_HOME": str(self.home / name / "state")}

    def run(self, name, where):
        begun = time.time()
        with open(self.out / f"{name}.json", "w") as out, open(self.out / f"{name}.err", "w") as err:
            code = subprocess.run([tool(), "sweep", "--shapes", str(self.shapes), "--json", *where, *self.words], stdout=out, stderr=err,
                                  env=self.environment(name)).returncode
        self.seconds[name] = time.time() - begun
        print(f"{name}: {self.seconds[name]:.1f} s, exit code {code}", flush=True)

    def items(self, name):
        document = json.loads((self.out / f"{name}.json").read_text())
        return {json.dumps(item["problem"], sort_keys=True): item["winner"] for item in document["items"] if item.get("winner")}

    def race(self, line, candidates):
        """Times of the candidates divided by the time of the first, the winner of "one", in one process. {} if the race
        failed.
        """
        words = line.split()
        options = dict(word.split("=", 1) for word in words[1:])
        call = [tool(), "bench", "--op", options.pop("op"), "--shape", words[0], "--winner-only", "--json", "--device", "0", "--warm", "0.2",
                "--rounds", "20"]
        for name, value in options.items():
            call += ["--" + name.replace("_", "-"), value]
        for candidate in candidates[1:]:
            call += ["--candidate", candidate]
        done = subprocess.run(call, capture_output=True, text=True, env=self.environment("one"))
        try:
            rows = {text_of(row): row["median_us"] for row in json.loads(done.stdout)["rows"] if row.get("config") and row.get("median_us")}
            return {candidate: rows[candidate] / rows[candidates[0]] for candidate in candidates}
        except (ValueError, KeyError) as error:
            print(f"the race of {words[0]} failed: {error!r} {done.stderr[-300:]}")
            return {}


def text_of(winner):
    return " ".join([winner["family"], *(f"{name}={value}" for name, value in winner["config"].items())])


def report(sweeps, lines, problems):
    found = {name: sweeps.items(name) for name in ("one", "two", "again")}
    slower = {"two": [], "again": []}
    for line, problem in zip(lines, problems):
        key = json.dumps(problem, sort_keys=True)
        if any(key not in winners for winners in found.values()):
            print("not tuned by all three:", line)
            continue
        texts = {name: text_of(winners[key]) for name, winners in found.items()}
        others = sorted({texts["two"], texts["again"]} - {texts["one"]})
        ratio = {texts["one"]: 1.0, **(sweeps.race(line, [texts["one"], *others]) if others else {})}
        for name, values in slower.items():
            if texts[name] in ratio:
                values.append(100 * (ratio[texts[name]] - 1))
        if any(ratio.get(text, 1) > 1.015 for text in others):
            print(f"{line}: " + ", ".join(f"{name} {100 * (ratio[texts[name]] - 1):+.1f} %" for name in slower if texts[name] in ratio))
    print(f"{'winners of':12} {'problems':>8} {'median':>8} {'p95':>8} {'worst':>8} {'the same':>8}   slower than those of one GPU, in %")
    for name, values in slower.items():
        values.sort()
        print(f"{name:12} {len(values):8} {statistics.median(values):+8.2f} {values[min(len(values) - 1, int(0.95 * len(values)))]:+8.2f} "
              f"{values[-1]:+8.2f} {sum(value == 0 for value in values):8}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("out", type=pathlib.Path)
    parse.add_argument("--problems", type=int, default=30)
    parse.add_argument("--budget")
    parse.add_argument("--shapes", type=pathlib.Path, default=ROOT / "benchmarks" / "sets" / "models.txt")
    options = parse.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    count = len([line for line in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines() if line.startswith("GPU ")])
    if count < 2:
        print("this needs two GPUs")
        return 3
    lines = [line.strip() for line in options.shapes.read_text().splitlines() if line.strip() and not line.startswith("#")][: options.problems]
    shapes = options.out / "shapes.txt"
    shapes.write_text("\n".join(lines) + "\n")
    sweeps = Sweeps(options.out, shapes, options.budget)
    one, two, again = ("one", ["--device", "0"]), ("two", ["--devices", "0,1"]), ("again", ["--device", "1"])
    for together in ((one, again), (two,)):
        runs = [threading.Thread(target=sweeps.run, args=each) for each in together]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
    dry = subprocess.run([tool(), "sweep", "--shapes", str(shapes), "--dry-run", "--json"], capture_output=True, text=True, env=sweeps.environment("race"))
    report(sweeps, lines, json.loads(dry.stdout)["problems"])
    print(f"two GPUs: {sweeps.seconds['one'] / sweeps.seconds['two']:.2f} times as fast as one")
    shutil.rmtree(sweeps.home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
