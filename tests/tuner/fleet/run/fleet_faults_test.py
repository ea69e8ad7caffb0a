#!/usr/bin/env python3
"""A fleet whose store fails in every way that docs/fleet.md speaks of: real programs on the scripted driver.

usage: fleet_faults_test.py BUILD [TEST...]. AUTOTUNE_FLEET_AWAY_S: how long a store is away, 30 by default. A full disk and a network that is cut need
root; without it their tests are skipped.
"""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import fleet_case
from fleet_case import LIMIT_S, FleetCase
from fleet_machine import Proxy, Standby, until

AWAY_S = float(os.environ.get("AUTOTUNE_FLEET_AWAY_S", "30"))
IS_ROOT = os.geteuid() == 0


class FaultCase(FleetCase):
    def begin(self, count=12, **how):
        """A worker that has sent its first result, and a program beside it."""
        # Leases outlast the fault, so whatever is tuned twice is the fault of something else.
        self.set(lease_s=3 * AWAY_S)
        self.want(count)
        self.count = count
        self.program = self.new_host()
        self.calm_s = self.probe(self.program, 10, "forward")["slowest_s"]
        worker = self.start(self.host, **how)
        until(lambda: self.number("SELECT count(*) FROM autotune.result") >= 1, LIMIT_S, "a first result")
        # Without the store these many are done all the same.
        self.kept = self.number("SELECT (SELECT count(*) FROM autotune.result) + (SELECT count(*) FROM autotune.lease)")
        return worker

    def stays_away(self, words, sync=5):
        """The worker goes on without the store, programs notice nothing, and sync says that the store is away."""
        begun = time.monotonic()
        if sync is not None:
            at = time.monotonic()
            done = self.program.autotune("sync", "--store", self.store, expect=sync)
            self.sync_s = time.monotonic() - at
            self.assertLess(self.sync_s, 30, done.stderr)
        fault_s = self.probe(self.program, 10, "backward")["slowest_s"]
        until(lambda: len(self.host.winners()) >= self.kept, LIMIT_S, "the item in hand is finished and kept")
        time.sleep(max(0.0, AWAY_S - (time.monotonic() - begun)))
        until(lambda: words in self.host.said(), LIMIT_S, words)
        if sync != 0:
            self.assertNotIn("warning: the store is back", self.host.said())
        print(f"\n    away for {time.monotonic() - begun:.0f} s; sync said so after {getattr(self, 'sync_s', 0):.1f} s; slowest plan of a program {fault_s * 1000:.0f}"
              f" ms, before {self.calm_s * 1000:.0f} ms", end="")

    def recovers(self, worker, server=None):
        """Everything is done once, and by nobody twice."""
        sql = (server or self.server).sql
        begun = time.monotonic()
        until(lambda: "warning: the store is back" in self.host.said(), LIMIT_S, "the store is back")
        back_s = time.monotonic() - begun
        until(lambda: sql("SELECT count(*) FROM autotune.item") == "0", LIMIT_S, "the rest")
        self.assertIsNone(worker.poll(), self.host.said())
        self.assertEqual(sql("SELECT count(*), count(DISTINCT shape) FROM autotune.outcome WHERE what = 'done'"), f"{self.count}|{self.count}")
        self.assertEqual(sql("SELECT count(*) FROM autotune.outcome WHERE what <> 'done'"), "0")
        self.assertEqual(sql("SELECT count(*) FROM autotune.result"), str(self.count))
        print(f"; the worker was back {back_s:.1f} s after it ... ", end="")

    @property
    def store(self):
        return self.server.address("client")


class Faults(FaultCase):
    # Few, so that they can be used up.
    SETTINGS = ("max_connections=12",)

    def test_unreachable(self):
        worker = self.begin()
        self.server.stop()
        try:
            self.stays_away("the connection to the store is lost")
        finally:
            self.server.start()
        self.recovers(worker)

    def test_read_only(self):
        worker = self.begin()
        self.server.sql("ALTER DATABASE fleet SET default_transaction_read_only = on")
        self.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'autotune%'", "postgres")
        self.stays_away("the connection to the store is lost")
        self.assertIn("session is read-only", self.program.autotune("sync", "--store", self.store, expect=5).stderr)
        self.program.autotune("sync", "--no-misses", "--store", self.store)  # labels are served all the same
        self.server.sql("SET default_transaction_read_only = off; ALTER DATABASE fleet RESET default_transaction_read_only")
        self.recovers(worker)

    def test_at_max_connections(self):
        worker = self.begin()
        others = [subprocess.Popen([self.server.bin / "psql", "-X", "-q", "-d", "postgres", "-U", "curator", "-c", "SELECT pg_sleep(3600)"],
                                   env=self.server.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(20)]
        try:
            until(lambda: self.server.sql("SELECT count(*) >= 8 FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND usename = 'curator'", "postgres") == "t",
                  LIMIT_S, "connections")
            self.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'autotune%'", "postgres")
            others += [subprocess.Popen([self.server.bin / "psql", "-X", "-q", "-d", "postgres", "-U", "curator", "-c", "SELECT pg_sleep(3600)"],
                                        env=self.server.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
            time.sleep(1)
            self.stays_away("the connection to the store is lost")
            self.assertIn("connection slots are reserved", self.program.autotune("sync", "--store", self.store, expect=5).stderr)
        finally:
            for each in others:
                each.kill()
                each.wait()
        # A killed client's backend sleeps on.
        self.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'curator'", "postgres")
        self.recovers(worker)

    @unittest.skipUnless(IS_ROOT, "mounts a file system")
    def test_disk_full(self):
        with tempfile.TemporaryDirectory(prefix="autotune-small-", dir="/tmp") as small:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", small], check=True)
            try:
                os.chown(small, self.server.user["user"], self.server.user["group"])
                self.server.sql(f"CREATE TABLESPACE small LOCATION '{small}'", "postgres")
                self.server.sql("ALTER TABLE autotune.result SET TABLESPACE small")
                worker = self.begin()
                filler = pathlib.Path(small, "filler")
                with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                    while file.write(b"x" * 4096):
                        pass
                until(lambda: "No space left on device" in self.host.said(), LIMIT_S, "the disk is full")
                self.stays_away("the store cannot answer now: could not extend file", sync=0)
                self.count += 10  # the program's misses, which were posted all the same
                filler.unlink()
                self.recovers(worker)
                worker.kill()
                worker.wait()
                self.server.sql("DROP DATABASE fleet WITH (FORCE)", "postgres")
                self.server.sql("DROP TABLESPACE small", "postgres")
            finally:
                subprocess.run(["umount", "-l", small], check=True)

    def test_failed_over_to_a_standby(self):
        standby = Standby(self.server)
        try:
            # What is acknowledged is on both.
            self.server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "postgres")
            self.server.sql("SELECT pg_reload_conf()", "postgres")
            both = f"host={self.server.folder},{standby.folder} dbname=fleet user=worker"
            worker = self.begin(store=both)
            self.program.autotune("sync", "--no-misses", "--store", standby.address("client"))  # a standby serves labels
            self.server.stop()
            self.stays_away("the connection to the store is lost")
            standby.promote()
            self.recovers(worker, standby)
            self.program.autotune("sync", "--store", both.replace("worker", "client"))
        finally:
            standby.close()
            self.server.start()
            self.server.sql("ALTER SYSTEM RESET synchronous_standby_names", "postgres")
            self.server.sql("SELECT pg_reload_conf()", "postgres")

    def through(self, proxy, role):
        return f"host=127.0.0.1 port={proxy.port} dbname=fleet user={role}"

    def test_stalled(self):
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        worker = self.begin(store=self.through(proxy, "worker"))
        proxy.stalls = True
        at = time.monotonic()
        done = self.program.autotune("sync", "--store", self.through(proxy, "client"), expect=5)
        self.sync_s = time.monotonic() - at
        self.assertIn("the store cannot be reached", done.stderr)
        self.assertLess(self.sync_s, 30)
        self.stays_away("the connection to the store is lost: no answer to ", sync=None)
        proxy.stalls = False
        self.recovers(worker)

    def test_reset(self):
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        worker = self.begin(store=self.through(proxy, "worker"))
        proxy.cuts = True
        done = self.program.autotune("sync", "--store", self.through(proxy, "client"), expect=5)
        self.assertIn("the store cannot be reached", done.stderr)
        self.stays_away("the connection to the store is lost", sync=None)
        proxy.cuts = False
        self.recovers(worker)


@unittest.skipUnless(IS_ROOT, "makes a network namespace")
class CutNetwork(FaultCase):
    """The worker is in a network of its own, whose cable is pulled."""

    NAME, HERE, THERE = f"at{os.getpid()}", "10.213.77.1", "10.213.77.2"
    SETTINGS = (f"listen_addresses={HERE}",)

    @classmethod
    def ip(cls, words):
        subprocess.run(["ip", *words.split()], check=True)

    @classmethod
    def setUpClass(cls):
        cls.ip(f"netns add {cls.NAME}")
        cls.ip(f"link add {cls.NAME}a type veth peer name {cls.NAME}b netns {cls.NAME}")
        cls.ip(f"addr add {cls.HERE}/24 dev {cls.NAME}a")
        cls.ip(f"link set {cls.NAME}a up")
        cls.ip(f"-n {cls.NAME} addr add {cls.THERE}/24 dev {cls.NAME}b")
        cls.ip(f"-n {cls.NAME} link set {cls.NAME}b up")
        super().setUpClass()
        with open(cls.server.folder / "data/pg_hba.conf", "a") as file:
            file.write(f"host all all {cls.HERE}/24 trust\n")
        cls.server.sql("SELECT pg_reload_conf()", "postgres")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.ip(f"netns del {cls.NAME}")

    def test_cut(self):
        worker = self.begin(store=f"host={self.HERE} dbname=fleet user=worker", before=("ip", "netns", "exec", self.NAME))
        self.ip(f"link set {self.NAME}a down")
        self.stays_away("the connection to the store is lost", sync=None)
        self.ip(f"link set {self.NAME}a up")
        self.recovers(worker)


if __name__ == "__main__":
    fleet_case.main()
