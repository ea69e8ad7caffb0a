#!/usr/bin/env python3
"""How fast the queue is: 1,000 simulated workers on 125 connections claim and complete items at a given rate, by pgbench.

usage: queue_rate.py BUILD [--seconds 600] [--rate 200] [--workers 1000] [--connections 125] [--most-p99-ms 50]
Prints the 99th percentile of each tenth of the time. Exits 1 if the rate is not kept, or if the last third of the time is slower than twice
the first (and slower than --most-p99-ms); 77 where PostgreSQL's server is not installed.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

import fleet_machine

LINE = ('{"op":"add","arch":"sm_90a","problem":{"class":"add dtype=f16 align=16,16,16","extents":{"n":SHAPE}},"device":{"cc_major":9,'
        '"cc_minor":0,"sm_count":132,"l2_mib":60,"memory_gib":140,"bus_bits":6016,"name":"NVIDIA H200"},"template":"43e692f5dc6ad62d",'
        '"family":"add/vector","config":{"vec":8},"timing":{"median_us":1.5},"provenance":{"driver":"580","nvrtc":"13.0","method":"m",'
        '"date":"2026-11-23T18:51:56Z"},"note":"PADDING"}')
# A line of a tune has 11 KB; a worker renews its leases about as often as it claims items.
SCRIPT = """\\set worker random(1, {workers})
SELECT id AS item, fence, shape FROM autotune.claim(('00000000-0000-4000-8000-' || lpad(:worker::text, 12, '0'))::uuid, 'GPU-' || :client_id,
    '{device}', ARRAY['{catalogue}'], '{{}}') LIMIT 1 \\gset
SELECT * FROM autotune.beat(('00000000-0000-4000-8000-' || lpad(:worker::text, 12, '0'))::uuid, ARRAY[:item], ARRAY[:fence]);
SELECT autotune.complete(('00000000-0000-4000-8000-' || lpad(:worker::text, 12, '0'))::uuid, :item, :fence,
    replace(replace('{line}', 'SHAPE', :shape::text), 'PADDING', repeat('x', 10500)));
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    for name, default in (("seconds", 600), ("rate", 200), ("workers", 1000), ("connections", 125), ("most-p99-ms", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if fleet_machine.programs() is None:
        print("skipped: PostgreSQL's server is not installed")
        sys.exit(77)
    server, host = fleet_machine.Postgres(), fleet_machine.Host(options.build)
    catalogue = "a" * 64
    try:
        server.sql("CREATE DATABASE fleet", "postgres")
        host.autotune("fleet", "migrate", "--store", server.address())
        items = options.rate * options.seconds * 12 // 10 + 1000
        server.sql(f"UPDATE autotune.setting SET value = 1e9 WHERE name = 'most_items'; INSERT INTO autotune.item(class, shape, device, catalogue,"
                   f" calls, priority) SELECT 'add dtype=f16 align=16,16,16', n, '{fleet_machine.DEVICE}', '{catalogue}', 1, 100 + n % 7"
                   f" FROM generate_series(1, {items}) AS n; SELECT count(e.lease_s) FROM generate_series(1, {options.workers}) AS n,"
                   f" LATERAL autotune.enlist(('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'host', '0.1.0') AS e; ANALYZE autotune.item")
        script = SCRIPT.format(workers=options.workers, device=fleet_machine.DEVICE, catalogue=catalogue, line=LINE)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "script").write_text(script)
            done = subprocess.run(
                [server.bin / "pgbench", "-n", "-f", f"{folder}/script", "-c", str(options.connections), "-j", "2", "-T", str(options.seconds),
                 "-R", str(options.rate), "-l", "--log-prefix", f"{folder}/log", "-M", "simple", "fleet"],
                env=server.environment(), capture_output=True, text=True)
            print(done.stdout.strip(), done.stderr[-2000:].strip())
            rows = []
            for log in pathlib.Path(folder).glob("log*"):
                for line in log.read_text().splitlines():
                    words = line.split()
                    if words[2].isdigit():
                        lag_us = int(words[6]) if len(words) > 6 else 0
                        rows.append((int(words[4]) + int(words[5]) / 1e6, (int(words[2]) - lag_us) / 1000))
        rows.sort()
        tenths = []
        for tenth in range(10):
            part = sorted(ms for at, ms in rows if tenth <= (at - rows[0][0]) / options.seconds * 10 < tenth + 1)
            if part:
                tenths.append(part[len(part) * 99 // 100])
                print(f"tenth {tenth + 1}: {len(part)} claims completed, median {statistics.median(part):.1f} ms, p99 {tenths[-1]:.1f} ms")
        sizes = server.sql("SELECT pg_size_pretty(pg_total_relation_size('autotune.item')) || ', ' || pg_size_pretty(pg_relation_size('autotune.item_ready'))")
        span = rows[-1][0] - rows[0][0]
        print(f"{len(rows) / span:.0f} a second over {span:.0f} s; queue and its index at the end: {sizes}; "
              f"closed twice: {server.sql('SELECT count(*) - count(DISTINCT item) FROM autotune.outcome')}")
        first, last = statistics.median(tenths[:3]), statistics.median(tenths[-3:])
        kept = len(rows) > 0.97 * options.rate * span and span > 0.9 * options.seconds
        sys.exit(0 if kept and (last <= 2 * first or last <= options.most_p99_ms) else 1)
    finally:
        server.close()
        host.close()


main()
