#!/usr/bin/env python3
"""Reads what the meter piece of gpu_suite.sh wrote and says how far its numbers can be believed.

    tools/meter_report.py agreement EXPORT EXPORT [EXPORT]
                                                      two tunes of the same shapes: same winner, a tie, or not; the third is a
                                                      tune in which the winners of both raced
    tools/meter_report.py fresh EXPORT BENCH          a winner's time in a fresh process, alone and over the vendor's
    tools/meter_report.py regret TUNE... -- SPACE...  winners against the best of a recorded space
    tools/meter_report.py named BENCH                 a family's winner against its best named config
    tools/meter_report.py exhausted TUNE TUNE         a winner in the final rounds of a tune that tried the whole space
"""
import json
import sys


def json_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.startswith("{")]


def extents_of(row):
    return "x".join(str(row["problem"]["extents"][name]) for name in ("m", "n", "k"))


def name_of(row):
    return (row["family"], tuple(sorted(row["config"].items())))


def finalist(row, name):
    for one in row["evidence"]["finalists"]:
        if one.get("family") and name_of(one) == name:
            return one
    return None


def verdict(first, second, both):
    """What the second tune says of the first one's winner, or `both`, in which they raced."""
    if name_of(first) == name_of(second):
        return "same winner"
    raced = both and [finalist(both, name_of(one)) for one in (first, second)]
    if raced and all(raced):
        gap = raced[1]["ratio"] / raced[0]["ratio"] - 1
        return f"another winner, {100 * gap:+.1f} % in one race" + (", a tie" if abs(gap) <= 0.01 else "")
    rival = finalist(second, name_of(first)) or finalist(first, name_of(second))
    if rival is None:
        gap = first["timing"]["median_us"] / second["timing"]["median_us"] - 1
        return f"another winner, never raced against; times differ by {100 * gap:+.1f} %"
    return "tie" if rival["tie"] else f"another winner, {100 * (rival['ratio'] - 1):+.1f} %"


def agreement(paths):
    first, second, *both = ({extents_of(row): row for row in json_lines(path)} for path in paths)
    for shape in sorted(first.keys() & second.keys()):
        print(f"{shape:<18} {verdict(first[shape], second[shape], both[0].get(shape) if both else None)}")


def fresh(paths):
    rows = {extents_of(row): row for row in json_lines(paths[0])}
    bench = json_lines(paths[1])[0]
    shape = bench["problem"]["shape"]
    by_name = {row["name"]: row for row in bench["rows"]}
    told, now = rows[shape], by_name["winner"]
    told_us, now_us = told["timing"]["median_us"], now["median_us"]
    told_ratio = next(one["ratio"] for one in told["evidence"]["finalists"] if one["name"] == "cublas")
    now_ratio = by_name["cublas"]["ratio_to_first"]
    print(f"{shape}: told {told_us:.2f} us, fresh process {now_us:.2f} us: {100 * (now_us / told_us - 1):+.2f} %; "
          f"over cuBLAS {1 / told_ratio:.4f} and {1 / now_ratio:.4f}: {100 * (told_ratio / now_ratio - 1):+.2f} %")


def regret(words):
    tunes, spaces = words[: words.index("--")], words[words.index("--") + 1 :]
    recorded = {}
    for path in spaces:
        space = json_lines(path)[0]
        names = [one["name"] for one in space["parameters"]]
        recorded[space["name"].split()[0]] = {tuple(sorted(zip(names, row))): row[len(names)] for row in space["rows"]}
    for path in tunes:
        tune = json_lines(path)[0]
        family, evidence, times = tune["winner"]["family"], tune["evidence"], recorded[tune["winner"]["family"]]
        best_us = min(time for time in times.values() if not isinstance(time, str))
        found_us = times[tuple(sorted(tune["winner"]["config"].items()))]
        timed = evidence["tried"] - evidence["failed"]
        spent_s = tune["phases"]["measure_s"] + tune["phases"]["second_rung_s"]
        print(f"{family}: {len(times)} points, best {best_us:.2f} us; the tune's winner {found_us:.2f} us: "
              f"{100 * (found_us / best_us - 1):+.2f} % after {evidence['tried']} trials; measuring took {spent_s:.2f} s, "
              f"{timed * 0.1 / spent_s:.1f} times less than 100 ms for each")


def exhausted(paths):
    """A tune of a space, and one that tried all of it, in whose final rounds the first one's winner ran too."""
    tune, everything = (json_lines(path)[0] for path in paths)
    raced = {name_of(one): one for one in everything["evidence"]["finalists"] if one.get("family")}
    best = min(raced.values(), key=lambda one: one["ratio"])
    found = raced[name_of(tune["winner"])]
    print(f"{found['family']}: {everything['evidence']['tried']} tried in all, the tune's winner ({tune['evidence']['tried']} tried) against the "
          f"best of the final rounds: {100 * (found['ratio'] / best['ratio'] - 1):+.2f} %" + (", a tie" if found["tie"] else ""))


def named(paths):
    """A side by side table of one family: its tuned winner against the fastest named configs, which raced it."""
    for table in json_lines(paths[0]):
        raced = [row for row in table["rows"] if row["measured"] == "rounds" and row["name"] != "winner"]
        best = min(raced, key=lambda row: row["ratio_to_first"])
        print(f"{best['family']} {table['problem']['shape']}: the best named config {best['name']} takes {best['ratio_to_first']:.4f} "
              f"({best['ratio_low']:.4f} .. {best['ratio_high']:.4f}) of the winner's time")


if __name__ == "__main__":
    {"agreement": agreement, "fresh": fresh, "regret": regret, "exhausted": exhausted, "named": named}[sys.argv[1]](sys.argv[2:])
