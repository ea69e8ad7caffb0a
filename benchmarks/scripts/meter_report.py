#!/usr/bin/env python3
"""Reads what the meter piece of gpu_suite.sh wrote and says how far its numbers can be believed.

    benchmarks/scripts/meter_report.py duels EXPORT EXPORT         flags of `autotune bench` for the shapes of which two tunes name different
                                                      winners: the first one's parameters, for the second one's database
    benchmarks/scripts/meter_report.py agreement EXPORT EXPORT [BENCH...]
                                                      two tunes of the same shapes: same winner, a tie, or not, by those duels
    benchmarks/scripts/meter_report.py fresh EXPORT BENCH          a winner's time in a fresh process, alone and over the vendor's
    benchmarks/scripts/meter_report.py regret TUNE... -- SPACE...  winners against the best of a recorded space
    benchmarks/scripts/meter_report.py named BENCH                 a family's winner against its best named config
    benchmarks/scripts/meter_report.py exhausted TUNE TUNE         a winner in the final rounds of a tune that tried the whole space
"""
import sys

from json_documents import documents

TIE_GAP = 0.01  # the same as in the final rounds


def extents_of(row):
    return "x".join(str(row["problem"]["extents"][name]) for name in ("m", "n", "k"))


def name_of(row):
    return (row["family"], tuple(sorted(row["config"].items())))


def verdict(first, second, duel):
    """Whether the tunes agree. `duel` is the table of the race between their winners, if there was one."""
    if name_of(first) == name_of(second):
        return "same winner"
    if duel is None:
        gap = second["timing"]["median_us"] / first["timing"]["median_us"] - 1
        return f"another winner, never raced against; times differ by {100 * gap:+.1f} %"
    row = next(row for row in duel["rows"] if row["name"] == "winner")
    ratio, low, high = row["ratio_to_first"], row["ratio_low"], row["ratio_high"]
    is_tie = abs(ratio - 1) < TIE_GAP or low <= 1 <= high
    return f"another winner, {100 * (ratio - 1):+.1f} % in {duel['rounds']} rounds" + (": a tie" if is_tie else "")


def both_tunes(paths):
    first, second = ({extents_of(row): row for row in documents(path)} for path in paths)
    return [(shape, first[shape], second[shape]) for shape in sorted(first.keys() & second.keys())]


def duels(paths):
    for shape, first, second in both_tunes(paths):
        if name_of(first) != name_of(second) and first["family"] == second["family"]:
            pins = " ".join(f"--param {name}={value}" for name, value in sorted(first["config"].items()))
            print(f"--shape {shape} --family {first['family']} {pins}")


def agreement(paths):
    raced = {table["problem"]["shape"]: table for path in paths[2:] for table in documents(path)}
    for shape, first, second in both_tunes(paths[:2]):
        print(f"{shape:<18} {verdict(first, second, raced.get(shape))}")


def fresh(paths):
    rows = {extents_of(row): row for row in documents(paths[0])}
    bench = next(documents(paths[1]))
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
        space = next(documents(path))
        names = [one["name"] for one in space["parameters"]]
        recorded[space["name"].split()[0]] = {tuple(sorted(zip(names, row))): row[len(names)] for row in space["rows"]}
    for path in tunes:
        tune = next(documents(path))
        family, evidence, times = tune["winner"]["family"], tune["evidence"], recorded[tune["winner"]["family"]]
        best_us = min(time for time in times.values() if not isinstance(time, str))
        found_us = times[tuple(sorted(tune["winner"]["config"].items()))]
        timed = evidence["tried"] - evidence["failed"]
        spent_s = tune["phases"]["measure_s"] + tune["phases"]["second_rung_s"]
        print(f"{family}: {len(times)} points, best {best_us:.2f} us; the tune's winner {found_us:.2f} us: "
              f"{100 * (found_us / best_us - 1):+.2f} % after {evidence['tried']} trials; measuring took {spent_s:.2f} s, "
              f"{timed * 0.1 / spent_s:.1f} times less than 100 ms for each")


def exhausted(paths):
    """Compares a tune of a space with a run that tried the whole space, whose final rounds included the tune's winner."""
    tune, everything = (next(documents(path)) for path in paths)
    raced = {name_of(one): one for one in everything["evidence"]["finalists"] if one.get("family")}
    best = min(raced.values(), key=lambda one: one["ratio"])
    found = raced[name_of(tune["winner"])]
    print(f"{found['family']}: {everything['evidence']['tried']} tried in all, the tune's winner ({tune['evidence']['tried']} tried) against the "
          f"best of the final rounds: {100 * (found['ratio'] / best['ratio'] - 1):+.2f} %" + (", a tie" if found["tie"] else ""))


def named(paths):
    """A table of one family: its tuned winner and the fastest named configs, which raced together."""
    for table in documents(paths[0]):
        raced = [row for row in table["rows"] if row["measured"] == "rounds" and row["name"] != "winner"]
        best = min(raced, key=lambda row: row["ratio_to_first"])
        print(f"{best['family']} {table['problem']['shape']}: the best named config {best['name']} takes {best['ratio_to_first']:.4f} "
              f"({best['ratio_low']:.4f} .. {best['ratio_high']:.4f}) of the winner's time")


if __name__ == "__main__":
    {"agreement": agreement, "duels": duels, "fresh": fresh, "regret": regret, "exhausted": exhausted, "named": named}[sys.argv[1]](sys.argv[2:])
