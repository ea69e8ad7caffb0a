#!/usr/bin/env python3
"""Prints the lines of a shape set whose winner is not ahead of every rival: what is worth a longer search.

    benchmarks/scripts/behind.py SET.txt BENCH.out [--ahead 1.02]     BENCH.out: `autotune bench --shapes SET.txt --against ... --json`
"""
import argparse

from json_documents import documents


def ratio_to_best_rival(table):
    """The fastest rival's time / the winner's; None if either is missing."""
    ratios = [row["ratio_to_first"] for row in table["rows"] if row["family"] is None and row.get("measured") == "rounds"]
    return min(ratios) if ratios and table["first"] == "winner" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("bench")
    parser.add_argument("--ahead", type=float, default=1.02)
    options = parser.parse_args()
    with open(options.set, encoding="utf-8") as lines:
        shapes = [line.rstrip("\n") for line in lines if line.strip() and not line.startswith("#")]
    tables = [table for table in documents(options.bench) if "rows" in table]
    for line, table in zip(shapes, tables, strict=True):
        if not table["problem"]["shape"].endswith(line.split()[0]):  # in the table a batch comes before the shape
            raise SystemExit(f"behind.py: {options.bench} is not of {options.set}: {line.split()[0]} is {table['problem']['shape']} there")
        ratio = ratio_to_best_rival(table)
        if ratio is None or ratio < options.ahead:
            print(line)


if __name__ == "__main__":
    main()
