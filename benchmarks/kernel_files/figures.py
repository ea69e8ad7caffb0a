#!/usr/bin/env python3
"""Measures kernel files on one GPU: figures.py AUTOTUNE OUT [--seconds 300] [--parts record,tune,rival,race,overhead,norm,examples]

record    times every config of two spaces and writes them as spaces for `autotune simulate`
tune      tunes the same two problems with default settings and nothing cached
rival     tunes them with Kernel Tuner (needs the packages of kernel_tuner_side.py)
race      times both winners and the best recorded config in turns
overhead  the time of a trial of `record` with one compile worker, beside nvrtc_loop.py
norm      the rate of norm2's winner beside the rate of a copy
examples  tunes every example with default settings and nothing cached; the winner beside the named configs

Run it in the root of a checkout. A part that fails or finds no time left is a line of the table. The table comes last.
"""
import argparse
import datetime
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SPACES = {"tiled_gemm": ("1024x1024x1024", {}), "conv2d": ("4096", {"filter": 15})}
EXAMPLES = {"conv2d": ("4096", {"filter": 15}), "transpose": ("4096x4096", {}), "norm2": ("16777216", {}), "spmv": ("131072x65536x8388608", {}),
            "tiled_gemm": ("2048x2048x2048", {})}
HELD = {"BM": 64, "BN": 64, "PAD": 1}  # of tiled_gemm, for the overhead of a trial
LARGE_NORM = "268435456"
STAMP = r"(\d{4}-\d\d-\d\dT[\d:.]+)Z"


def words(name, shape, options):
    found = ["--kernel", f"examples/kernels/{name}.toml", "--shape", shape]
    for key, value in options.items():
        found += [f"--{key}", str(value)]
    return found


def time_of(stamp):
    return datetime.datetime.fromisoformat(stamp + "+00:00").timestamp()


def first_within(trials, known, percent):
    """Seconds until the fastest config so far, by the tuner's own times, was one that is within `percent` of the best recorded one."""
    limit = min(known.values()) * (1 + percent / 100)
    best = None
    for at, us, config in trials:
        if us is not None and (best is None or us < best):
            best = us
            if known.get(config, float("inf")) <= limit:
                return at
    return None


class Figures:
    def __init__(self, options):
        self.tool, self.out, self.seconds = os.path.abspath(options.autotune), pathlib.Path(options.out).resolve(), options.seconds
        self.parts, self.python, self.begun = options.parts.split(","), options.python, time.time()
        self.most_rival_seconds, self.seeds = options.rival_seconds, options.seeds.split(",")
        self.spaces = options.spaces.split(",")
        self.out.mkdir(parents=True, exist_ok=True)
        self.table, self.known, self.ours, self.rivals, self.reached = [], {}, {}, {}, {}

    def left(self):
        return self.seconds - (time.time() - self.begun)

    def say(self, *cells):
        self.table.append(" ".join(str(cell) for cell in cells))
        print(f"[{time.time() - self.begun:.0f}s] {self.table[-1]}", flush=True)

    def run(self, command, limit, home):
        """Runs a command whose files are all in `home`. Returns its exit code, output, messages, wall time and its start."""
        env = dict(os.environ, HOME=str(home), XDG_DATA_HOME=f"{home}/data", XDG_CACHE_HOME=f"{home}/cache", XDG_STATE_HOME=f"{home}/state",
                   CUPY_CACHE_DIR=f"{home}/cupy")
        for name in ("AUTOTUNE_DB", "AUTOTUNE_CACHE_DIR"):
            env.pop(name, None)
        home.mkdir(parents=True, exist_ok=True)
        begun = time.time()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(3, min(limit, self.left())), env=env)
            return done.returncode, done.stdout, done.stderr, time.time() - begun, begun
        except subprocess.TimeoutExpired as error:
            said = error.stderr or b""
            return 124, "", said.decode(errors="replace") if isinstance(said, bytes) else said, time.time() - begun, begun

    def autotune(self, arguments, limit, home, fresh=False):
        place = self.out / "home" / home
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        return self.run([self.tool, *arguments], limit, place)

    def failed(self, what, code, err):
        self.say(what, "FAILED, exit", code, err.strip()[-300:].replace("\n", " | "))

    # ---- spaces ----

    def record(self, name, shape, options):
        path = self.out / f"{name}.json"
        if path.exists():
            path.unlink()
        code, out, err, wall, _ = self.autotune(["record", *words(name, shape, options), "--out", str(path)], 400, "record", fresh=True)
        if code:
            return self.failed(f"record {name}", code, err)
        self.read_space(name, path)
        with gzip.open(f"{path}.gz", "wb", 9) as file:
            file.write(path.read_bytes())
        self.say(f"record {name}: {out.strip()}, {wall:.1f} s, {os.path.getsize(f'{path}.gz')} bytes packed")
        return None

    def read_space(self, name, path):
        space = json.loads(path.read_text())
        count = len(space["parameters"])
        self.known[name] = {tuple(row[:count]): row[count] for row in space["rows"] if isinstance(row[count], (int, float))}
        self.names = getattr(self, "names", {})
        self.names[name] = [p["name"] for p in space["parameters"]]

    def trials_of(self, name, err, begun):
        found = []
        for stamp, config, us in re.findall(STAMP + r" debug +tune: user_\S+ ([^:]*): ok, ([\d.]+) us", err):
            values = dict(word.split("=") for word in config.split())
            found.append((time_of(stamp) - begun, float(us), tuple(int(values[n]) for n in self.names[name])))
        return found

    def tune(self, name, shape, options):
        """A tune for each seed. The first one is raced."""
        for seed in self.seeds:
            home = name if seed == self.seeds[0] else f"{name}_{seed}"
            command = ["tune", *words(name, shape, options), "--seed", seed, "--json", "--log-level", "debug"]
            code, out, err, wall, begun = self.autotune(command, 60, home, fresh=True)
            (self.out / f"{home}.tune.err").write_text(err)
            (self.out / f"{home}.tune.json").write_text(out)
            if code:
                return self.failed(f"tune {name}", code, err)
            said = json.loads(out)
            won, evidence = said["winner"]["config"], said["evidence"]
            self.ours.setdefault(name, won)
            line = f"tune {name}, seed {seed}: {wall:.1f} s, winner {said['winner']['median_us']:.1f} us"
            line += f", tried {evidence['tried']}, {evidence['stopped_by']}"
            if name in self.known:
                reached = first_within(self.trials_of(name, err, begun), self.known[name], 1)
                self.reached.setdefault(name, reached)
                recorded, best = self.known[name].get(tuple(won[n] for n in self.names[name])), min(self.known[name].values())
                line += f", to within 1 %: {reached and round(reached, 1)} s, winner recorded with {recorded and recorded / best:.4f} of the best"
            self.say(line)
        return None

    def rival(self, name, shape, options):
        ours = self.reached.get(name)
        limit = min(self.most_rival_seconds, max(25, 2.2 * ours)) if ours else self.most_rival_seconds
        limit = min(limit, self.left() - 5)
        out = self.out / f"{name}.rival.json"
        out.unlink(missing_ok=True)
        command = [self.python, str(HERE / "kernel_tuner_side.py"), f"examples/kernels/{name}.toml", "--shape", shape, "--seconds", f"{limit:.0f}",
                   "--strategy", os.environ.get("STRATEGY", "genetic_algorithm"), "--out", str(out)]
        for key, value in options.items():
            command += ["--set", f"{key}={value}"]
        for backend in ("CUPY", "NVCUDA"):
            code, said, err, wall, begun = self.run([*command, "--backend", backend], limit + 40, self.out / "home" / "rival")
            (self.out / f"{name}.rival.{backend}.err").write_text(said + err)
            if code == 0 or wall > 20:
                break
        if code or not out.exists():
            return self.failed(f"kernel_tuner {name}", code, said[-200:] + err)
        found = json.loads(out.read_text())
        trials = [(each["at"] - begun, each["us"], tuple(each["config"].values())) for each in found["trials"]]
        timed = [each for each in trials if each[1] is not None]
        if not timed:
            return self.failed(f"kernel_tuner {name}", code, "no config was timed " + said[-200:] + err)
        best = min(timed, key=lambda each: each[1])
        self.rivals[name] = dict(zip(found["trials"][0]["config"], best[2]))
        line = f"{found['tuner']} {found['backend']} {found['strategy']} {name}: {wall:.1f} s"
        line += f", {len(timed)} of {len(trials)} configs timed, best {best[1]:.1f} us"
        if name in self.known:
            reached, least = first_within(trials, self.known[name], 1), min(self.known[name].values())
            recorded = self.known[name].get(best[2])
            line += f", to within 1 %: {f'{reached:.1f} s' if reached else f'not in {wall:.0f} s'}"
            line += f", its best is recorded with {recorded and recorded / least:.4f} of the best"
            if ours:
                line += f"; our time / its: {'' if reached else 'less than '}{ours / (reached or wall):.3f}"
        self.say(line)
        return None

    def race(self, name, shape, options):
        candidates, best = [], min(self.known[name], key=self.known[name].get) if name in self.known else None
        if name in self.rivals:
            candidates.append(self.rivals[name])
        if best:
            candidates.append(dict(zip(self.names[name], best)))
        flags = [word for each in candidates for word in ("--candidate", "main " + " ".join(f"{k}={v}" for k, v in each.items()))]
        code, out, err, _, _ = self.autotune(["bench", *words(name, shape, options), *flags, "--json"], 40, name)
        (self.out / f"{name}.race.json").write_text(out)
        if code:
            return self.failed(f"race {name}", code, err)
        for row in json.loads(out)["rows"]:
            config = row.get("config") or {}
            known = {"ours": self.ours.get(name), "kernel_tuner's": self.rivals.get(name), "best recorded": best and dict(zip(self.names[name], best))}
            whose = [who for who, each in known.items() if each == config]
            if row.get("ratio_to_first") is not None:
                self.say(f"race {name}: {row['name'][:40]} ({', '.join(whose)}) {row['median_us']:.2f} us, {row['ratio_to_first']:.4f} "
                         f"({row['ratio_low']:.4f} .. {row['ratio_high']:.4f}) of the first")
        return None

    # ---- a trial beside a loop by hand ----

    def overhead(self):
        """Both sides twice, in turns: the speed of a virtual machine's processor changes within a minute."""
        name, shape = "tiled_gemm", "1024x1024x1024"
        held = [word for key, value in HELD.items() for word in ("--param", f"{key}={value}")]
        space, ours, theirs = self.out / "overhead.json", [], []
        for turn in range(2):
            space.unlink(missing_ok=True)
            command = ["record", *words(name, shape, {}), *held, "--jobs", "1", "--out", str(space), "--log-level", "trace"]
            code, out, err, _, _ = self.autotune(command, 90, "overhead", fresh=True)
            (self.out / f"overhead{turn}.err").write_text(err)
            if code:
                return self.failed("overhead, record", code, err)
            recorded = [row[6] for row in json.loads(space.read_text())["rows"]]
            begun = re.search(STAMP + r" trace +GPU worker \d+: setup: done", err)
            ends = re.findall(STAMP + r" trace +GPU worker \d+: time slot", err)
            if not begun or len(ends) < len(recorded):
                return self.say("overhead: the log of record was not understood")
            ours.append((time_of(ends[len(recorded) - 1]) - time_of(begun[1])) / len(recorded) * 1000)
            command = [self.python, str(HERE / "nvrtc_loop.py"), f"examples/kernels/{name}.toml", "--shape", shape, "--space", str(space)]
            code, out, err, _, _ = self.run([*command, "--out", str(self.out / "loop.json")], 90, self.out / "home" / f"loop{turn}")
            if code:
                return self.failed("overhead, loop", code, out + err)
            loop = json.loads((self.out / "loop.json").read_text())
            theirs.append(loop["seconds"] / loop["points"] * 1000)
        ratios = sorted(row["us"] / us for row, us in zip(loop["rows"], recorded) if "us" in row and isinstance(us, float))
        failures = sorted({row["failure"] for row in loop["rows"] if "failure" in row})
        self.say(f"overhead: {len(recorded)} configs, {ours[0]:.1f} and {ours[1]:.1f} ms each, by hand {theirs[0]:.1f} and {theirs[1]:.1f} ms "
                 f"({loop['failed']} failed {failures[:1]}): {sum(ours) / sum(theirs):.3f}; "
                 f"median time by hand / ours {ratios[len(ratios) // 2] if ratios else None}")
        return None

    # ---- the examples ----

    def norm(self):
        code, out, err, _, _ = self.run([self.python, "-c", COPY, str(HERE)], 30, self.out / "home" / "copy")
        if code:
            return self.failed("copy", code, err)
        copies = {int(size): float(rate) for size, rate in (line.split() for line in out.splitlines())}
        for shape in ("16777216", LARGE_NORM):
            code, out, err, wall, _ = self.autotune(["tune", *words("norm2", shape, {}), "--json"], 40, "norm")
            if code:
                self.failed(f"norm2 {shape}", code, err)
                continue
            us, size = json.loads(out)["winner"]["median_us"], 4 * int(shape)
            rate = size / us / 1e6
            self.say(f"norm2 {shape}: {us:.1f} us, {rate:.3f} TB/s, of a copy that moves as many bytes ({copies[size]:.3f} TB/s) {rate / copies[size]:.3f}, "
                     f"of the fastest copy ({max(copies.values()):.3f} TB/s) {rate / max(copies.values()):.3f}")
        return None

    def example(self, name, shape, options):
        command = ["tune", *words(name, shape, options), "--json", "--log-level", "debug"]
        code, out, err, wall, begun = self.autotune(command, 60, f"example_{name}", fresh=True)
        (self.out / f"{name}.example.json").write_text(out)
        (self.out / f"{name}.example.err").write_text(err)
        if code:
            return self.failed(f"example {name}", code, err)
        said = json.loads(out)
        first = re.search(STAMP + r" debug +tune: user_\S+ [^:]*: ok,", err)
        code, out, err, _, _ = self.autotune(["bench", *words(name, shape, options), "--named", "--json"], 25, f"example_{name}")
        (self.out / f"{name}.bench.json").write_text(out)
        rows = json.loads(out)["rows"] if code == 0 else []
        won = next((row["median_us"] for row in rows if row["name"] == "winner"), None)
        others = [row for row in rows if won and row["median_us"] and row["name"] != "winner"]  # those of the survey have no ratio
        gains = [f"{row['name'][:24]} {row['ratio_to_first'] or row['median_us'] / won:.3f}" for row in others]
        evidence = said["evidence"]
        self.say(f"example {name}: {wall:.1f} s, first verified {time_of(first[1]) - begun if first else -1:.1f} s, "
                 f"winner {said['winner']['median_us']:.1f} us, tried {evidence['tried']} failed {evidence['failed']}, "
                 f"{evidence['stopped_by']}; over the winner:", *gains)
        return None

    def part(self, name, function, *arguments):
        if name not in self.parts:
            return
        if self.left() < 10:
            self.say(name, *arguments[:1], "left out: no time")
            return
        try:
            function(*arguments)
        except Exception as error:  # the other parts go on
            self.say(name, *arguments[:1], "FAILED:", type(error).__name__, error)

    def all(self):
        for name in self.spaces:
            shape, options = SPACES[name]
            if "record" not in self.parts and (self.out / f"{name}.json").exists():
                self.read_space(name, self.out / f"{name}.json")
            for part, function in (("record", self.record), ("tune", self.tune), ("rival", self.rival), ("race", self.race)):
                self.part(part, function, name, shape, options)
        self.part("overhead", self.overhead)
        for name, (shape, options) in EXAMPLES.items():
            self.part("examples", self.example, name, shape, options)
        self.part("norm", self.norm)
        print("\n==== short table ====")
        print("\n".join(self.table))
        print(f"{time.time() - self.begun:.0f} s")


COPY = r"""
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from nvrtc_loop import Gpu
gpu = Gpu()
begin, end = gpu.event(), gpu.event()
for moved in (1 << 26, 1 << 30, 1 << 32):
    half, turns = moved // 2, max(8, (1 << 32) // moved)
    arrays = [gpu.allocate(half) for _ in range(2 * min(turns, 8))]
    best = float("inf")
    for repeat in range(6):
        gpu.record(begin)
        for i in range(turns):
            pair = 2 * (i % (len(arrays) // 2))
            gpu.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(arrays[pair]), ctypes.c_uint64(arrays[pair + 1]), ctypes.c_size_t(half), gpu.stream)
        gpu.record(end)
        gpu.synchronize()
        best = min(best, gpu.elapsed_us(begin, end) / turns)
    print(moved, moved / best / 1e6)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("autotune")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--parts", default="record,tune,rival,race,overhead,norm,examples")
    parser.add_argument("--python", default=sys.executable, help="the Python that has kernel_tuner")
    parser.add_argument("--rival-seconds", type=float, default=45, help="for Kernel Tuner, for each space at most")
    parser.add_argument("--seeds", default="1", help="of the tunes: 1,2,3")
    parser.add_argument("--spaces", default=",".join(SPACES), help="of the parts record, tune, rival and race")
    Figures(parser.parse_args()).all()


if __name__ == "__main__":
    main()
