#!/usr/bin/env python3
"""A fleet with real programs: a PostgreSQL server, workers and programs on the scripted driver.

usage: fleet_run_test.py BUILD [TEST...]. Exits 77 where PostgreSQL's server is not installed, unless AUTOTUNE_REQUIRE_POSTGRES is set.
AUTOTUNE_FLEET_KILLS, AUTOTUNE_FLEET_PROBLEMS, AUTOTUNE_FLEET_SEED, AUTOTUNE_FLEET_PLANS: sizes of the longer form.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import fleet_machine
from fleet_machine import DEVICE, ROOT, Host, Postgres, children, until

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
LIBRARY = BUILD / "src/runtime/libautotune.so"
KILLS = int(os.environ.get("AUTOTUNE_FLEET_KILLS", "6"))
PROBLEMS = int(os.environ.get("AUTOTUNE_FLEET_PROBLEMS", "16"))
PLANS = int(os.environ.get("AUTOTUNE_FLEET_PLANS", "40"))
BUDGET = "--budget=2s,6t"
LIMIT_S = 300  # of one wait: a tune takes two seconds on an idle machine, and a minute on a crowded one
SMALL = [256 * each for each in range(1, 2000)]  # extents of additions, which tune fast on the scripted driver


class Fleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Postgres()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        self.server.sql("DROP DATABASE IF EXISTS fleet WITH (FORCE)", "postgres")
        self.server.sql("CREATE DATABASE fleet", "postgres")
        self.host = self.new_host()
        self.host.autotune("fleet", "migrate", "--store", self.server.address())
        self.server.sql("DO $$ BEGIN CREATE ROLE worker LOGIN; CREATE ROLE client LOGIN; CREATE ROLE curator LOGIN;"
                        " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
                        " GRANT autotune_worker TO worker; GRANT autotune_client TO client; GRANT autotune_curator TO curator;")
        self.set(lease_s=4, poll_s=0.3, retry_s=1, sick_losses=50)

    def new_host(self, **how):
        host = Host(BUILD, **how)
        self.addCleanup(host.close)
        return host

    def set(self, **settings):
        for name, value in settings.items():
            self.server.sql(f"UPDATE autotune.setting SET value = {value} WHERE name = '{name}'")

    def number(self, sql):
        return int(self.server.sql(sql))

    def start(self, host, *words):
        worker = host.worker(self.server.address("worker"), BUDGET, *words)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def want(self, count, op="hadd", first=0):
        shapes = ",".join(str(each) for each in SMALL[first:first + count])
        return self.host.autotune("fleet", "want", "--op", op, "--shape", shapes, "--store", self.server.address("client"))

    def queue_is_empty(self):
        return self.number("SELECT count(*) FROM autotune.item") == 0

    def probe(self, host, count, order, *words, **variables):
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("probe.py"), LIBRARY, str(count), order, *words],
                              env=host.environment(**variables), capture_output=True, text=True, timeout=110)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    # ---- a worker ----

    def test_ends_when_all_is_tuned_and_keeps_its_winners(self):
        self.want(3)
        worker = self.start(self.host, "--exit-when-idle", "2s")
        self.assertEqual(worker.wait(LIMIT_S), 0, self.host.said())
        self.assertEqual(self.number("SELECT count(*) FROM autotune.winners"), 3)
        self.assertEqual(len(self.host.winners()), 3)
        self.assertIn("3 tuned, 0 tuned before, 0 failed, 0 given back", self.host.said())

    def test_a_winner_of_the_local_database_is_not_tuned_again(self):
        self.want(2)
        self.start(self.host, "--exit-when-idle", "2s").wait(LIMIT_S)
        self.server.sql("TRUNCATE autotune.winner, autotune.outcome; ALTER TABLE autotune.result DISABLE TRIGGER ALL;"
                        " DELETE FROM autotune.result")
        self.want(2)
        self.assertEqual(self.start(self.host, "--exit-when-idle", "2s").wait(LIMIT_S), 0)
        self.assertIn("0 tuned, 2 tuned before, 0 failed, 0 given back", self.host.said())
        self.assertEqual(self.number("SELECT count(*) FROM autotune.winners"), 2)

    def test_goes_on_while_the_server_is_away(self):
        self.want(6)
        worker = self.start(self.host)
        until(lambda: self.number("SELECT count(*) FROM autotune.result") >= 1, 60, "a first result")
        self.server.stop()
        before = len(self.host.winners())
        try:
            until(lambda: len(self.host.winners()) > before, 30, "the item in hand is finished and kept")
        finally:
            self.server.start()
        until(self.queue_is_empty, 60, "the rest")
        self.assertIsNone(worker.poll(), self.host.said())
        self.assertEqual(self.number("SELECT count(*) FROM autotune.winners"), 6)
        self.assertIn("winners are kept in the local database and are sent when the store is back", self.host.said())
        self.assertIn("the store is back", self.host.said())
        self.assertEqual(self.number("SELECT count(*) FROM autotune.outcome WHERE what = 'done'"), 6)

    def test_a_signal_gives_the_item_back(self):
        self.want(40)
        worker = self.start(self.host)
        until(lambda: self.number("SELECT count(*) FROM autotune.result") >= 1, 60, "a first result")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(LIMIT_S), 130, self.host.said())
        self.assertEqual(self.number("SELECT count(*) FROM autotune.lease"), 0)
        self.assertEqual(self.number("SELECT count(*) FROM autotune.item WHERE state <> 'ready'"), 0)

    def test_a_kernel_files_problem_is_for_workers_that_have_the_file(self):
        kernel = ROOT / "examples/kernels/transpose.toml"
        self.host.autotune("fleet", "want", "--kernel", kernel, "--shape", "64x64", "--store", self.server.address("client"))
        self.start(self.host, "--exit-when-idle", "1s").wait(LIMIT_S)
        self.assertEqual(self.number("SELECT count(*) FROM autotune.item WHERE state = 'ready' AND attempts = 0"), 1)
        self.assertEqual(self.start(self.host, "--kernel", str(kernel), "--exit-when-idle", "2s").wait(LIMIT_S), 0, self.host.said())
        self.assertEqual(self.server.sql("SELECT split_part(class, ' ', 1) FROM autotune.winners"), "user_transpose")

    def test_a_problem_that_no_op_knows_is_set_aside(self):
        self.want(1)
        self.server.sql("UPDATE autotune.item SET class = 'add dtype=f16 align=16,16,16 x=\'\'; DROP TABLE a', shape = '7x7'")
        self.start(self.host, "--exit-when-idle", "1s").wait(LIMIT_S)
        self.assertEqual(self.server.sql("SELECT state FROM autotune.item"), "impossible")
        self.assertIn("which no op here knows; it is set aside", self.host.said())

    def test_a_wrong_store_is_an_error_at_once(self):
        for address, words in (("host=/nonexistent dbname=x", "the store cannot be reached"),
                               (self.server.address("client"), "permission denied")):
            done = self.host.autotune("worker", "--store", address, "--idle", "0", expect=5)
            self.assertIn(words, done.stderr)
        self.assertIn("no store is named", self.host.autotune("sync", expect=2).stderr)

    # ---- death ----

    def test_any_process_may_be_killed(self):
        chance = random.Random(int(os.environ.get("AUTOTUNE_FLEET_SEED", "1")))
        for first in range(0, PROBLEMS, 50):
            self.want(min(50, PROBLEMS - first), first=first)
        hosts = [self.new_host() for _ in range(8)]
        workers = [self.start(host) for host in hosts]
        killed = {"worker": 0, "lane": 0, "server process": 0, "server": 0}
        begun = time.monotonic()
        done = lambda: self.number("SELECT count(*) FROM autotune.outcome WHERE what = 'done'")  # noqa: E731
        for each in range(KILLS):
            # Kills are spread over the whole run.
            goal = PROBLEMS * each // (KILLS + 1)
            until(lambda: done() >= goal or self.queue_is_empty(), 120, "progress after a kill")
            time.sleep(chance.uniform(0, 0.5))
            what = chance.choice(["worker", "worker", "lane", "lane", "server process", "server"] if each % 4 == 3 else ["worker", "lane"])
            index = chance.randrange(len(workers))
            if what == "worker":
                workers[index].kill()
                workers[index].wait()
                workers[index] = self.start(hosts[index])
            elif what == "lane":
                victims = [pid for child in children(workers[index].pid) for pid in [child, *children(child)]]
                if victims:
                    os.kill(chance.choice(victims), signal.SIGKILL)
            elif what == "server process":
                victims = children(self.server.process.pid)
                os.kill(chance.choice(victims), signal.SIGKILL)
                until(self.answers, 60, "the server after one of its processes was killed")
            else:
                self.server.stop()
                self.server.start()
            killed[what] += 1
        until(self.queue_is_empty, 150, "every problem ends")
        took = time.monotonic() - begun
        self.assertEqual(self.number("SELECT count(DISTINCT shape) FROM autotune.winners"), PROBLEMS)
        twice = self.number("SELECT count(*) FROM (SELECT item FROM autotune.outcome WHERE what = 'done' GROUP BY item HAVING count(*) > 1) AS t")
        self.assertEqual(twice, 0)
        # A result beyond the first needs a lease that had ended.
        self.assertEqual(self.number("SELECT count(*) FROM autotune.item WHERE state = 'poison'"), 0)
        self.assertEqual(self.number("SELECT count(*) FROM autotune.result r WHERE r.late AND NOT EXISTS (SELECT FROM autotune.outcome o"
                                     " WHERE o.what = 'expired' AND o.worker = r.worker AND o.shape = r.shape)"), 0)
        again = self.number("SELECT count(*) FROM autotune.outcome WHERE what NOT IN ('done', 'late')")
        gap = self.server.sql("SELECT coalesce(round(max(extract(epoch FROM d.at - e.at))::numeric, 1), 0) FROM autotune.outcome e JOIN autotune.outcome d"
                              " ON d.item = e.item AND d.what = 'done' WHERE e.what = 'expired'")
        print(f"\n{PROBLEMS} problems, 8 workers, killed {killed}: {took:.0f} s, {again} leases ended without a result, "
              f"slowest recovery {gap} s after its lease had ended")

    def answers(self):
        try:
            return self.server.sql("SELECT 1") == "1"
        except RuntimeError:
            return False

    # ---- labels ----

    def fill_and_freeze(self, label="2026-12-01", shapes=("1x64x128", "8x64x128", "15x128x128")):
        words = [word for shape in shapes for word in ("--shape", shape)]
        self.host.autotune("fleet", "want", "--op", "hgemm", *words, "--beta", "zero", "--store", self.server.address("client"))
        self.assertEqual(self.start(self.host, "--exit-when-idle", "2s").wait(LIMIT_S), 0, self.host.said())
        return self.host.autotune("fleet", "freeze", label, "--note", "test", "--store", self.server.address("curator"))

    def test_misses_become_winners_everywhere(self):
        user = self.new_host()
        self.probe(user, 3, "forward")
        said = user.autotune("sync", "--store", self.server.address("client"))
        self.assertIn("misses: 3 new to the fleet, 0 counted, 0 tuned already, 0 refused", said.stdout)
        said = user.autotune("sync", "--store", self.server.address("client"))
        self.assertIn("misses: 0 new to the fleet, 0 counted", said.stdout)
        self.assertEqual(self.start(self.host, "--exit-when-idle", "2s").wait(LIMIT_S), 0, self.host.said())
        self.assertIn("3 winners", self.host.autotune("fleet", "freeze", "one", "--store", self.server.address("curator")).stdout)
        self.host.autotune("fleet", "publish", "prod", "one", "--store", self.server.address("curator"))
        said = user.autotune("sync", "--label", "prod", "--store", self.server.address("client"))
        self.assertIn("label one: 3 winners, new here", said.stdout)
        plans = self.probe(user, 3, "forward", AUTOTUNE_LABEL="prod")["plans"]
        self.assertEqual({each.split()[0] for each in plans.values()}, {"label"})
        self.assertIn("here already", user.autotune("sync", "--label", "prod", "--store", self.server.address("client")).stdout)
        user.autotune("sync", "--label", "nothing", "--store", self.server.address("client"), expect=5)

    def test_processes_under_one_label_agree(self):
        self.fill_and_freeze()
        curator = ("--store", self.server.address("curator"))
        self.host.autotune("fleet", "publish", "prod", "2026-12-01", *curator)
        one, two = self.new_host(), self.new_host()
        for host in (one, two):
            host.autotune("sync", "--label", "prod", "--store", self.server.address("client"))
        # The second host has its own winners, a full cache and another history. They do not matter.
        two.autotune("tune", "--op", "hgemm", "--shape", "8x64x128", "--beta", "zero", "--budget", "4t", "--seed", "9")
        free = self.probe(two, PLANS, "backward")
        mine = self.probe(one, PLANS, "forward", AUTOTUNE_LABEL="prod")
        theirs = self.probe(two, PLANS, "backward", "3", AUTOTUNE_LABEL="prod")  # in the background
        same = self.probe(two, PLANS, "backward", AUTOTUNE_LABEL="2026-12-01")
        self.assertEqual(mine["agreement"], same["agreement"])
        self.assertEqual(mine["plans"], same["plans"])
        self.assertEqual(mine["plans"], theirs["plans"])
        self.assertEqual(sum(each.startswith("label") for each in mine["plans"].values()), 3)
        self.assertNotEqual(free["plans"], mine["plans"])
        print(f"\n{len(mine['plans'])} plans, {sum(mine['plans'][each] == same['plans'][each] for each in mine['plans'])} equal")
        # What differs is named.
        self.host.autotune("fleet", "freeze", "next", *curator)
        two.autotune("tune", "--op", "hgemm", "--shape", "8x64x128", "--beta", "zero", "--budget", "4t")
        other = self.probe(two, 1, "forward", AUTOTUNE_LABEL="prod", AUTOTUNE_PIN="gemm/simt")
        self.assertEqual({name for name in mine["parts"] if mine["parts"][name] != other["parts"][name]}, {"pin"})

    def test_a_label_goes_over_an_air_gap(self):
        self.fill_and_freeze()
        self.host.autotune("sync", "--label", "2026-12-01", "--store", self.server.address("client"))
        file = self.host.home / ".local/share/autotune/fleet/2026-12-01.jsonl"
        user = self.new_host()
        said = user.autotune("sync", "--from", file, "--label", "prod")
        self.assertIn("label 2026-12-01: 3 winners, new here", said.stdout)
        self.assertEqual(self.probe(user, 1, "forward", AUTOTUNE_LABEL="prod")["plans"]["1x64x128"].split()[0], "label")

    def test_a_hostile_label_is_refused_and_the_old_one_stays(self):
        self.fill_and_freeze()
        client = ("--store", self.server.address("client"))
        self.host.autotune("sync", "--label", "2026-12-01", *client)
        folder = self.host.home / ".local/share/autotune/fleet"
        good = (folder / "2026-12-01.jsonl").read_bytes()
        head, lines = good.split(b"\n", 1)
        first = lines.split(b"\n")[0]
        hostile = {
            "cut": good[:-200], "cut between lines": head + b"\n" + lines.split(b"\n", 1)[1], "empty": b"", "no head": lines,
            "another digest": good.replace(b'"digest":"', b'"digest":"0', 1), "a bit": good.replace(b'"median_us":', b'"median_us":9', 1),
            "more": good + first + b"\n", "another name": good.replace(b'"name":"2026', b'"name":"../x', 1), "noise": os.urandom(4096),
        }
        user = self.new_host()
        mine = user.home / ".local/share/autotune/fleet"
        user.autotune("sync", "--from", folder / "2026-12-01.jsonl")
        for what, content in hostile.items():
            with self.subTest(what):
                (user.home / "bad.jsonl").write_bytes(content)
                self.assertIn("is not used", user.autotune("sync", "--from", user.home / "bad.jsonl", expect=5).stderr)
                self.assertEqual((mine / "2026-12-01.jsonl").read_bytes(), good)
                found = self.probe(user, 1, "forward", AUTOTUNE_LABEL=str(user.home / "bad.jsonl"))
                self.assertEqual(found["parts"]["label"], "none")
                self.assertEqual(len([each for each in found["warnings"] if "bad.jsonl is not used" in each]), 1, found["warnings"])
        # A store that serves what it should not.
        self.server.sql("ALTER TABLE autotune.label_line DISABLE TRIGGER ALL; UPDATE autotune.label_line SET line = 'x' WHERE n = 2")
        fresh = self.new_host()
        self.assertIn("its lines do not have its digest", fresh.autotune("sync", "--label", "2026-12-01", *client, expect=5).stderr)
        self.assertFalse((fresh.home / ".local/share/autotune/fleet/2026-12-01.jsonl").exists())
        self.server.sql("ALTER TABLE autotune.label DISABLE TRIGGER ALL; UPDATE autotune.label SET digest ="
                        " (SELECT sha256(convert_to(string_agg(line || E'\\n', '' ORDER BY n), 'UTF8')) FROM autotune.label_line)")
        self.assertIn("winner 2: ", fresh.autotune("sync", "--label", "2026-12-01", *client, expect=5).stderr)

    def test_an_impossible_result_is_in_no_label(self):
        self.fill_and_freeze()
        line = self.server.sql("SELECT line FROM autotune.result LIMIT 1")
        record = json.loads(line)
        for name in ("median_us", "low_us", "high_us", "min_us"):
            record["timing"][name] = 0.00001
        record["evidence"] = {**record["evidence"], "finalists": []}
        text = json.dumps(record, separators=(",", ":")).replace("'", "''")
        self.server.sql("INSERT INTO autotune.result(class, shape, device, catalogue, template, median_us, driver, nvrtc, method, measured, worker,"
                        f" late, digest, line) SELECT class, shape, device, catalogue, template, 0.00001, driver, nvrtc, method, measured, worker,"
                        f" false, sha256('x'), '{text}' FROM autotune.result WHERE line = '{line.replace(chr(39), chr(39) * 2)}'")
        number = self.server.sql("SELECT max(id) FROM autotune.result")
        self.server.sql(f"SELECT autotune.elect(class, shape, device, template) FROM autotune.result WHERE id = {number}")
        curator = ("--store", self.server.address("curator"))
        done = self.host.autotune("fleet", "freeze", "bad", *curator, expect=7)
        self.assertIn(f"result {number} is left out: ", done.stderr)
        self.assertIn("label bad: 2 winners", done.stdout)
        self.assertIn("is withdrawn", self.host.autotune("fleet", "withdraw", number, "--note", "too fast", *curator).stdout)
        self.assertIn("label good: 3 winners", self.host.autotune("fleet", "freeze", "good", *curator).stdout)

    # ---- documents ----

    def test_the_ten_minutes_work_as_written(self):
        page = (ROOT / "docs/fleet.md").read_text()
        section = page[page.index("## Run a fleet in ten minutes"):page.index("## Labels and agreement")]
        commands = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.S))
        user = self.new_host()
        shutil.copytree(user.build / "tests/support/fake/lib", user.home / "lib")
        shutil.copy(user.build / "tools/autotune", user.home / "autotune")
        for path in [user.home, *user.home.rglob("*")]:
            if self.server.user:
                os.chown(path, self.server.user["user"], self.server.user["group"])
        stop = "/usr/lib/postgresql/15/bin/pg_ctl -D $PGHOST/data -m immediate stop > /dev/null"
        script = f"set -euo pipefail\nexport PATH={user.home}:$PATH\nexport PGHOST=$HOME/fleet-store\ntrap '{stop}' EXIT\n{commands}"
        variables = user.environment(LD_LIBRARY_PATH=str(user.home / "lib"), AUTOTUNE_SHIPPED=str(user.home / "none"))
        done = subprocess.run(["bash", "-c", script], env=variables, cwd=user.home, capture_output=True, text=True, timeout=400, **self.server.user)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for words in ("3 problems added", "3 tuned, 0 tuned before", "label 2026-12-01: 3 winners", "channel prod shows 2026-12-01",
                      "label 2026-12-01: 3 winners, new here"):
            self.assertIn(words, done.stdout)

    def test_recipes_run_as_they_stand(self):
        """The command lines of the units, of the Job and of the array, without their paths and waits."""
        self.want(2)
        unit = (ROOT / "examples/fleet/autotune-fleet-worker.service").read_text()
        words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.M).group(1).replace("--idle 30s", "--idle 0") + " --exit-when-idle 1s"
        self.host.autotune(*words.split(), AUTOTUNE_STORE=self.server.address("worker"))
        words = json.loads(re.search(r"^ +args: (.*)$", (ROOT / "examples/fleet/kubernetes.yaml").read_text(), re.M).group(1))
        self.host.autotune(*["1s" if each == "10m" else each for each in words], AUTOTUNE_STORE=self.server.address("worker"))
        unit = (ROOT / "examples/fleet/autotune-sync.service").read_text()
        self.host.autotune(*re.search(r"^ExecStart=\S+ (.*)$", unit, re.M).group(1).split(), AUTOTUNE_STORE=self.server.address("client"))
        (self.host.home / "srun").write_text(f'#!/bin/sh\nshift\nexec {BUILD}/tools/autotune "$@"\n')
        (self.host.home / "srun").chmod(0o755)
        script = (ROOT / "examples/fleet/slurm.sh").read_text().replace("--exit-when-idle 10m", "--exit-when-idle 1s")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100,
                              env=self.host.environment(PATH=f"{self.host.home}:/usr/bin:/bin", SLURM_JOB_END_TIME=str(int(time.time()) + 3600),
                                                        AUTOTUNE_STORE=self.server.address("worker")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.number("SELECT count(*) FROM autotune.winners"), 2)

    def test_doctor_and_lists_say_how_it_is(self):
        curator = ("--store", self.server.address("curator"))
        self.assertIn("schema 1", self.host.autotune("fleet", "doctor", *curator).stdout)
        self.want(2)
        self.assertIn("! no worker is there for the problems", self.host.autotune("fleet", "doctor", *curator, expect=7).stdout)
        for view in ("queue", "failures", "workers", "winners", "labels", "channels"):
            self.host.autotune("fleet", "list", view, *curator)
            json.loads(self.host.autotune("fleet", "list", view, "--json", *curator).stdout)
        self.assertIn(DEVICE, self.host.autotune("fleet", "list", *curator).stdout)
        self.assertIn("GRANT EXECUTE", self.host.autotune("fleet", "migrate", "--dry-run", "--store", self.server.address()).stdout)


if __name__ == "__main__":
    if fleet_machine.programs() is None:
        print("skipped: PostgreSQL's server is not installed (Debian: postgresql-15)")
        sys.exit(1 if os.environ.get("AUTOTUNE_REQUIRE_POSTGRES") else 77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
