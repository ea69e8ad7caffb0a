#!/usr/bin/env python3
"""A fleet with real programs: a PostgreSQL server, workers and programs on the scripted driver.

usage: fleet_run_test.py BUILD [TEST...]. Exits 77 where PostgreSQL's server is not installed, unless AUTOTUNE_REQUIRE_POSTGRES is set.
AUTOTUNE_FLEET_KILLS, AUTOTUNE_FLEET_PROBLEMS, AUTOTUNE_FLEET_SEED, AUTOTUNE_FLEET_PLANS: sizes of the longer form.
"""
import contextlib
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

import fleet_case
from fleet_case import BUILD, EXTENTS, LEASE_S, LIBRARY, LIMIT_S, FleetCase
from fleet_machine import DEVICE, ROOT, Postgres, children, until

KILLS = int(os.environ.get("AUTOTUNE_FLEET_KILLS", "6"))
PROBLEMS = int(os.environ.get("AUTOTUNE_FLEET_PROBLEMS", "16"))
PLANS = int(os.environ.get("AUTOTUNE_FLEET_PLANS", "40"))
IDLE_TUNE_S = 2  # of a tune on an idle machine of two cores, generously


class Fleet(FleetCase):
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
        self.assertIn("warning: the store is back", self.host.said())
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

    def one_tune_s(self, extent):
        """Seconds of a tune without a fleet: how crowded the machine is."""
        begun = time.monotonic()
        self.new_host().autotune("tune", "--op", "hadd", "--shape", extent, "--budget", "2s,6t")
        return time.monotonic() - begun

    def kill_a_child(self, chance, worker):
        """Of a worker's lanes, GPU workers and compile workers, one that a random descent finds."""
        below = children(worker.pid)
        victims = [pid for child in below for pid in [child, *children(child)]]
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)

    def test_any_process_may_be_killed(self):
        seed = int(os.environ.get("AUTOTUNE_FLEET_SEED", "1"))
        chance = random.Random(seed)
        # Kills say nothing about a problem or a worker here, so neither is set aside.
        self.set(poison_attempts=1000, poison_attempts_of_one=1000, sick_losses=1000)
        for first in range(0, PROBLEMS, 50):
            self.want(min(50, PROBLEMS - first), first=first)
        alone_s = self.one_tune_s(EXTENTS[-1])
        hosts = [self.new_host() for _ in range(8)]
        workers = [self.start(host) for host in hosts]
        killed = {"worker": 0, "lane or child": 0, "server process": 0, "server": 0}
        begun, crowd = time.monotonic(), 0.0
        done = lambda: self.number("SELECT count(*) FROM autotune.outcome WHERE what = 'done'")  # noqa: E731
        for each in range(KILLS):
            # Distributes the kills over the whole run.
            goal = PROBLEMS * each // (KILLS + 1)
            until(lambda: done() >= goal, LIMIT_S, f"{goal} results after {each} kills")
            time.sleep(chance.uniform(0, 0.5))
            what = chance.choice(["worker", "lane or child", "server process", "server"] if each % 4 == 3 else ["worker", "lane or child"])
            index = chance.randrange(len(workers))
            if what == "worker":
                workers[index].kill()
                workers[index].wait()
                workers[index] = self.start(hosts[index])
            elif what == "lane or child":
                self.kill_a_child(chance, workers[index])
            elif what == "server process":
                os.kill(chance.choice(children(self.server.process.pid)), signal.SIGKILL)
                until(self.answers, 60, "the server after one of its processes was killed")
            else:
                self.server.stop(chance.choice([signal.SIGQUIT, signal.SIGKILL]))
                self.server.start()
            killed[what] += 1
            crowd = max(crowd, os.getloadavg()[0])
        until(self.queue_is_empty, LIMIT_S, "every problem ends")
        took = time.monotonic() - begun
        # Eight workers alone make a load of about eight.
        load = max(1.0, max(alone_s, self.one_tune_s(EXTENTS[-2])) / IDLE_TUNE_S, crowd / len(workers))
        # Nothing is lost or closed twice.
        self.assertEqual(self.number("SELECT count(DISTINCT shape) FROM autotune.winners"), PROBLEMS)
        self.assertEqual(done(), PROBLEMS)
        # An item is claimed again only after its lease ended without a result, and tuned twice only then.
        self.assertEqual(self.number("SELECT count(*) FROM autotune.outcome d WHERE d.what = 'done' AND d.fence <> 1 + (SELECT count(DISTINCT e.fence)"
                                     " FROM autotune.outcome e WHERE e.item = d.item AND e.fence < d.fence AND e.what <> 'done')"), 0)
        self.assertEqual(self.number("SELECT count(*) FROM autotune.result r WHERE r.late AND NOT EXISTS (SELECT FROM autotune.outcome o"
                                     " WHERE o.what = 'expired' AND o.worker = r.worker AND o.shape = r.shape)"), 0)
        ended = dict(line.split("|") for line in self.server.sql("SELECT what, count(*) FROM autotune.outcome GROUP BY 1 ORDER BY 1").splitlines())
        # Of an item whose holder was killed twice, since the second time.
        gaps = self.server.sql("SELECT round(extract(epoch FROM d.at - max(e.at))::numeric, 1) FROM autotune.outcome e JOIN autotune.outcome d"
                               " ON d.item = e.item AND d.what = 'done' WHERE e.what = 'expired' GROUP BY e.item, d.at ORDER BY 1")
        recovered = sorted(float(each) for each in gaps.split()) or [0.0]
        print(f"\n{PROBLEMS} problems, 8 workers, seed {seed}, killed {killed}: {took:.0f} s; leases ended {ended}; from the end of a lease to the result"
              f" median {recovered[len(recovered) // 2]} s, slowest {recovered[-1]} s; one tune alone {alone_s:.1f} s, load average {crowd:.0f}, so bounds times {load:.1f}")
        # A killed worker is silent for one term first.
        self.assertLessEqual(LEASE_S + recovered[-1], 60 * load)

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
        # The second host has other winners, a full cache and another history, which must not matter.
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
        # The message names the difference.
        self.host.autotune("fleet", "freeze", "next", *curator)
        two.autotune("tune", "--op", "hgemm", "--shape", "8x64x128", "--beta", "zero", "--budget", "4t")
        other = self.probe(two, 1, "forward", AUTOTUNE_LABEL="prod", AUTOTUNE_PIN="gemm/simt")
        self.assertEqual({name for name in mine["parts"] if mine["parts"][name] != other["parts"][name]}, {"pin"})

    def verdicts(self, host, *given, **variables):
        """Those that a program on the host reads; `given` are stored first."""
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("verdicts.py"), LIBRARY, *given], env=host.environment(**variables),
                              capture_output=True, text=True, timeout=110)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_verdicts_come_with_the_label(self):
        tuned, user = self.new_host(), self.new_host()
        client, curator = ("--store", self.server.address("client")), ("--store", self.server.address("curator"))
        self.assertEqual(self.verdicts(tuned, "x=1.5", "y=0.5"), ["x=1.5", "y=0.5"])
        self.assertIn("verdicts: 2 new to the fleet, 0 known, 0 refused", tuned.autotune("sync", *client).stdout)
        self.assertIn("verdicts: 2, posted already", tuned.autotune("sync", *client).stdout)
        self.assertNotIn("verdicts", user.autotune("sync", *client).stdout)
        self.fill_and_freeze("one", shapes=("1x64x128",))
        self.assertIn("torch", self.host.autotune("fleet", "list", "verdicts", *curator).stdout)
        self.assertIn("label bare: 1 winners, digest", self.host.autotune("fleet", "freeze", "bare", "--no-verdicts", *curator).stdout)
        self.assertEqual(self.server.sql("SELECT rows, verdicts FROM autotune.labels ORDER BY name"), "1|0\n3|2")
        self.assertIn("label one: 1 winners and 2 verdicts, new here", user.autotune("sync", "--label", "one", *client).stdout)
        user.autotune("sync", "--label", "bare", *client)
        self.verdicts(user, "z=9")
        self.assertEqual(self.verdicts(user, AUTOTUNE_LABEL="one"), ["x=1.5", "y=0.5"])
        self.assertEqual(self.verdicts(user, AUTOTUNE_LABEL="bare"), [])
        self.assertEqual(self.verdicts(user), ["z=9"])
        # The winner beside them answers, without a warning.
        found = self.probe(user, 1, "forward", AUTOTUNE_LABEL="one")
        self.assertEqual((found["plans"]["1x64x128"].split()[0], found["warnings"]), ("label", []))

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
        # Makes a store that serves lines that it should not.
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

    def test_a_back_up_is_restored_as_written(self):
        """Into another cluster, which knows none of the roles."""
        page = (ROOT / "docs/fleet.md").read_text()
        save, restore = re.findall(r"```sh\n(pg_dump.*?|psql.*?)```", page[page.index("**Back-up.**"):], re.S)[:2]
        self.want(3)
        self.start(self.host, "--exit-when-idle", "2s").wait(LIMIT_S)
        self.want(2, first=3)
        other = Postgres()
        self.addCleanup(other.close)

        def run(script, server):
            environment = {**server.environment(), "PATH": f"{server.bin}:{BUILD}/tools:/usr/bin:/bin", "AUTOTUNE_STORE": server.address(),
                           "HOME": str(server.folder), "LD_LIBRARY_PATH": str(BUILD / "tests/support/fake/lib")}
            done = subprocess.run(["bash", "-euc", script], env=environment, cwd=self.host.home, capture_output=True, text=True, timeout=110)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        run(save, self.server)
        self.assertIn("the store has schema", run(restore, other))
        self.assertEqual(other.sql("SELECT count(*) FROM autotune.winners"), "3")
        self.start(self.host, "--exit-when-idle", "2s", store=other.address("worker")).wait(LIMIT_S)
        self.assertEqual(other.sql("SELECT count(*) FROM autotune.winners"), "5")

    def test_recipes_run_as_they_stand(self):
        """The command lines of the units, of the Job and of the array job, without their paths and waits."""
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
        self.assertIn("schema 2", self.host.autotune("fleet", "doctor", *curator).stdout)
        self.want(2)
        self.assertIn("! no worker is there for the problems", self.host.autotune("fleet", "doctor", *curator, expect=7).stdout)
        for view in ("queue", "failures", "workers", "winners", "labels", "channels", "verdicts"):
            self.host.autotune("fleet", "list", view, *curator)
            json.loads(self.host.autotune("fleet", "list", view, "--json", *curator).stdout)
        self.assertIn(DEVICE, self.host.autotune("fleet", "list", *curator).stdout)
        self.assertIn("GRANT EXECUTE", self.host.autotune("fleet", "migrate", "--dry-run", "--store", self.server.address()).stdout)


if __name__ == "__main__":
    fleet_case.main()
