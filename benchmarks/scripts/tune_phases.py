#!/usr/bin/env python3
"""Prints where the wall time of tunes went: a row per tune from what `autotune tune|sweep --json` printed. `isolation` is what the
search waited for the GPU worker over what the worker itself took, which is what it would take in the process that tunes.

    benchmarks/scripts/tune_phases.py FILE...
"""
import sys

from json_documents import documents

COLUMNS = ["total_s", "first_verified_s", "start_s", "setup_s", "search_s", "starved_s", "loaded_s", "busy_s", "verify_s", "measure_s", "second_rung_s",
           "warm_s", "rounds_s", "neighbours_s"]


def tunes(path):
    return (tune for tune in documents(path) if "phases" in tune)


def isolation(phases):
    return (phases["verify_s"] + phases["measure_s"]) / phases["busy_s"] if phases["busy_s"] > 0 else float("nan")


def evidence_text(tune):
    evidence = tune.get("evidence")
    return "" if evidence is None else f"{evidence['tried']} tried, {evidence['rounds']} rounds, {evidence['stopped_by']}"


def main(paths):
    print(f"{'problem':<20}" + "".join(f"{name[:-2]:>15}" for name in COLUMNS) + f"{'isolation':>15}")
    for path in paths:
        for tune in tunes(path):
            phases = tune["phases"]
            print(f"{tune['problem']['shape']:<20}" + "".join(f"{phases[name]:>15.2f}" for name in COLUMNS) + f"{isolation(phases):>15.3f}  " + evidence_text(tune))


if __name__ == "__main__":
    main(sys.argv[1:])
