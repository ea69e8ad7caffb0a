#!/usr/bin/env python3
"""How the winners of shape sets compare with the better of their rivals, from `autotune bench --json`.

usage: benchmarks/scripts/set_ratios.py [--rows] BENCH.out...

Prints a Markdown table with a row a file: the geometric mean over its problems of the better rival's time over ours (above 1: ours
is faster) with its 95 % interval, and the worst, in a stream of other kernels; the same after itself and after a kernel that triggers early, in blocks of a
second and in joules, where the tables have them. --rows: after it a table with a row a problem.
"""
import math
import pathlib
import sys

from json_documents import documents

# Times besides those that decide: the key of a row, and the column's head.
BESIDE = [("after_itself_us", "after itself"), ("after_trigger_us", "after a trigger"), ("sustained_us", "in blocks"),
          ("joules_per_launch", "joules")]
Z95 = 1.96


def timed(row):
    return row.get("median_us") is not None and row.get("measured") == "rounds"


class Problem:
    """One table: our row, the rivals, and the ratio to the fastest rival with its interval."""

    def __init__(self, table):
        self.shape = table["problem"]["shape"]
        self.label = "{} {}".format(table["problem"].get("op", ""), self.shape)
        rows = [row for row in table["rows"] if timed(row)]
        ours = [row for row in rows if row["family"] is not None and row["name"] == table["first"]]
        rivals = [row for row in rows if row["family"] is None]
        self.ours = ours[0] if ours else None
        self.rival = min(rivals, key=lambda row: row["ratio_to_first"]) if rivals else None
        self.rivals = rivals

    def usable(self):
        return self.ours is not None and self.rival is not None

    def ratio(self, name):
        """The fastest rival's value / ours; None if it was not measured."""
        values = [row[name] for row in self.rivals if row.get(name)]
        return min(values) / self.ours[name] if values and self.ours.get(name) else None

    def log_error(self):
        return (math.log(self.rival["ratio_high"]) - math.log(self.rival["ratio_low"])) / (2 * Z95)


def geomean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def text_of(ratio):
    return "-" if ratio is None else "{:.3f}".format(ratio)


def summary(path, problems):
    ratios = [p.rival["ratio_to_first"] for p in problems]
    mean = geomean(ratios)
    error = math.sqrt(sum(p.log_error() ** 2 for p in problems)) / len(problems)
    worst = min(problems, key=lambda p: p.rival["ratio_to_first"])
    cells = [pathlib.Path(path).stem, str(len(problems)),
             "**{:.3f}** ({:.3f} .. {:.3f})".format(mean, mean * math.exp(-Z95 * error), mean * math.exp(Z95 * error)),
             "{:.3f} ({:.3f} .. {:.3f}), {}".format(worst.rival["ratio_to_first"], worst.rival["ratio_low"],
                                                   worst.rival["ratio_high"], worst.shape)]
    for name, _ in BESIDE:
        known = [r for r in (p.ratio(name) for p in problems) if r is not None]
        cells += ["{} ({:.3f})".format(text_of(geomean(known)), min(known)) if known else "-"]
    return cells


def line(cells):
    return "| " + " | ".join(cells) + " |"


def print_summary(sets):
    head = ["set", "problems", "stream time, geomean (95 %)", "worst (95 %)"] + [name + " (worst)" for _, name in BESIDE]
    print(line(head))
    print("|---" * len(head) + "|")
    for path, problems in sets:
        print(line(summary(path, problems)))


def interval(row):
    return "{:.4g} ({:.4g} .. {:.4g})".format(row["median_us"], row["low_us"], row["high_us"])


def print_rows(problems):
    print()
    head = ["problem", "ours us (95 %)", "rivals us (95 %)", "ratio (95 %)"] + [name for _, name in BESIDE]
    print(line(head))
    print("|---" * len(head) + "|")
    for p in problems:
        rivals = ", ".join("{} {}".format(row["name"], interval(row)) for row in p.rivals)
        ratio = "{:.3f} ({:.3f} .. {:.3f})".format(*(p.rival[k] for k in ("ratio_to_first", "ratio_low", "ratio_high")))
        print(line([p.label, interval(p.ours), rivals, ratio] + [text_of(p.ratio(name)) for name, _ in BESIDE]))


def main(words):
    rows = "--rows" in words
    paths = [word for word in words if word != "--rows"]
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    sets = []
    for path in paths:
        problems = [p for p in map(Problem, documents(path)) if p.usable()]
        if problems:
            sets.append((path, problems))
        else:
            print("{}: no table with ours and a rival in the rounds".format(path), file=sys.stderr)
    print_summary(sets)
    if rows:
        for _, problems in sets:
            print_rows(problems)
    return 0 if sets else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
