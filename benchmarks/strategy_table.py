#!/usr/bin/env python3
"""Every search strategy on every recorded space, as a table in Markdown: strategy_table.py AUTOTUNE FILE... [--runs N] [--seed N]

A cell is the median number of evaluations to within `--percent` of the optimum with its 95 % interval, and in brackets the runs that got
there, where not all did. The last column is the default's median over that of the best other strategy. One process, one thread; a row is
printed when its space is done.
"""
import argparse
import json
import pathlib
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("autotune", help="the command, such as build/release/tools/autotune")
    parser.add_argument("files", nargs="+", help="spaces that `autotune simulate` reads")
    parser.add_argument("--runs", type=int, default=200, help="of each strategy; run r uses seed + r")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluations", type=int, default=1000, help="limit of a run")
    parser.add_argument("--strategy", default="all")
    parser.add_argument("--percent", type=int, choices=(10, 5, 2, 1), default=5)
    return parser.parse_args()


def simulate(options, path):
    command = [options.autotune, "simulate", path, "--json", "--strategy", options.strategy, "--until", str(options.percent)]
    for flag in ("runs", "seed", "evaluations"):
        command += [f"--{flag}", str(getattr(options, flag))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: `autotune simulate` ended with exit code {done.returncode}; its message is above")
    return json.loads(done.stdout)


def cell(strategy, percent):
    median, low, high = (strategy[f"median_{part}evaluations_to_{percent}pct"] for part in ("", "low_", "high_"))
    solved = strategy[f"runs_solved_{percent}pct"]
    return f"{median:g} ({low:g} .. {high:g})" + ("" if solved == strategy["runs"] else f" [{solved}]")


def row(simulation, path, percent):
    other = next((one for one in simulation["best_other"] if one["percent"] == percent), None)
    cells = [pathlib.Path(path).name.split(".")[0], f"{simulation['points']:,}"]
    cells += [cell(strategy, percent) for strategy in simulation["strategies"]]
    return cells + [f"{other['ratio']:.2f} {other['name']}" if other else "-"]


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    options = arguments()
    for number, path in enumerate(options.files):
        simulation = simulate(options, path)
        if number == 0:
            names = [strategy["name"] for strategy in simulation["strategies"]]
            line(["space", "points", *names, f"{names[0]} / best other"])
            line(["---"] * (len(names) + 3))
        line(row(simulation, path, options.percent))


if __name__ == "__main__":
    main()
