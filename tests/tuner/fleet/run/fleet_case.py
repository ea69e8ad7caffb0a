"""What tests of a whole fleet share. The first word of the command line is the build folder."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import fleet_machine
from fleet_machine import Host, Postgres

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
LIBRARY = BUILD / "src/runtime/libautotune.so"
BUDGET = "--budget=2s,6t"
LIMIT_S = 300  # of one wait: a tune takes two seconds on an idle machine, and much longer on a crowded one
LEASE_S = 4
# Extents of additions that the scripted driver does not compute: it answers at once, so a tune costs 0.7 s of processor time.
EXTENTS = [2**18 + 256 * each for each in range(1, 2000)]


class FleetCase(unittest.TestCase):
    """A store in a database of its own, with a role for each part: worker, client, curator."""

    SETTINGS = ()  # of the server

    @classmethod
    def setUpClass(cls):
        cls.server = Postgres(*cls.SETTINGS)

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
        self.set(lease_s=LEASE_S, poll_s=0.3, retry_s=1, sick_losses=50)

    def new_host(self, **how):
        host = Host(BUILD, **how)
        self.addCleanup(host.close)
        return host

    def set(self, **settings):
        for name, value in settings.items():
            self.server.sql(f"UPDATE autotune.setting SET value = {value} WHERE name = '{name}'")

    def number(self, sql):
        return int(self.server.sql(sql))

    def start(self, host, *words, store=None, before=()):
        worker = host.worker(store or self.server.address("worker"), BUDGET, *words, before=before)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def want(self, count, op="hadd", first=0):
        shapes = ",".join(str(each) for each in EXTENTS[first:first + count])
        return self.host.autotune("fleet", "want", "--op", op, "--shape", shapes, "--store", self.server.address("client"))

    def queue_is_empty(self):
        return self.number("SELECT count(*) FROM autotune.item") == 0

    def probe(self, host, count, order, *words, **variables):
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("probe.py"), LIBRARY, str(count), order, *words],
                              env=host.environment(**variables), capture_output=True, text=True, timeout=110)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


def main():
    if fleet_machine.programs() is None:
        print("skipped: PostgreSQL's server is not installed (Debian: postgresql-15)")
        sys.exit(1 if os.environ.get("AUTOTUNE_REQUIRE_POSTGRES") else 77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
