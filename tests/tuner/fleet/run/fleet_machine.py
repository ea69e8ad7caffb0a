"""A PostgreSQL server and hosts with the scripted driver, for tests of a whole fleet."""

import contextlib
import glob
import json
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
DEVICE = "cc9.0-sm132-l2_60-mem144-bus6016"
CARD = 'device name="NVIDIA H200" cc=9.0 sms=132 l2_mib=60 memory_mib=143360 bus=6016\nnvml driver=580.159.04\n'


def programs():
    """The folder with PostgreSQL's server programs, or None."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    return pathlib.Path(found[-1]).parent if found else None


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in text.split()]


class Postgres:
    """A server on a Unix socket in a temporary folder, run as an ordinary user. `settings`: such as "max_connections=12"."""

    def __init__(self, *settings):
        self.settings = settings
        self.bin = programs()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="autotune-pg-", dir="/tmp"))
        self.user = {}
        if os.geteuid() == 0:
            who = pwd.getpwnam("postgres")
            os.chown(self.folder, who.pw_uid, who.pw_gid)
            self.user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        self.log = open(self.folder / "log", "ab")
        self.make_data()
        self.start()

    def make_data(self):
        self.run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")

    def environment(self):
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PGHOST": str(self.folder), "PGUSER": "postgres"}

    def run(self, program, *arguments, text=None):
        done = subprocess.run([self.bin / program, *arguments], input=text, capture_output=True, text=True, env=self.environment(),
                              cwd="/", **self.user)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr}")
        return done.stdout

    def sql(self, text, database="fleet"):
        return self.run("psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, text=text).strip()

    def start(self):
        until(lambda: not self.remains(), 60, "the processes of the server before")
        self.process = subprocess.Popen(
            [self.bin / "postgres", "-D", self.folder / "data", "-k", self.folder,
             *[word for each in ("listen_addresses=", "fsync=off", "shared_buffers=64MB", "max_connections=200", *self.settings) for word in ("-c", each)]],
            stdout=self.log, stderr=subprocess.STDOUT, env=self.environment(), cwd="/", **self.user)
        for _ in range(600):
            try:
                return self.sql("SELECT 1", "postgres")
            except RuntimeError:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL does not start: " + pathlib.Path(self.folder, "log").read_text()[-2000:])

    def remains(self):
        """Whether a process of a killed server is still there: with shared memory of its own, another one cannot start."""
        words = os.fsencode(self.folder / "data")
        for each in pathlib.Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if os.fsencode(os.readlink(each)) == words:
                    return True
        return False

    def stop(self, how=signal.SIGQUIT):
        self.process.send_signal(how)
        self.process.wait()

    def address(self, role="postgres"):
        return f"host={self.folder} dbname=fleet user={role}"

    def close(self):
        if self.process.poll() is None:
            self.stop()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Standby(Postgres):
    """A copy of a server that follows it until promote()."""

    def __init__(self, primary):
        self.primary = primary
        super().__init__()

    def make_data(self):
        self.run("pg_basebackup", "-h", self.primary.folder, "-D", self.folder / "data", "-R", "-c", "fast", "--no-sync")

    def promote(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-w", "promote")


class Proxy:
    """A TCP proxy before a server's socket that can keep all bytes back, or reset its connections and refuse others."""

    def __init__(self, server):
        self.target = str(server.folder / ".s.PGSQL.5432")
        self.stalls = self.cuts = self.ends = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ends:
            if self.cuts:
                for client, server in self.pairs:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                    client.close()
                    server.close()
                self.pairs = []
            if self.stalls:
                time.sleep(0.02)
                continue
            ready, _, _ = select.select([self.listener, *[each for pair in self.pairs for each in pair]], [], [], 0.05)
            if self.listener in ready:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self.target)
                    self.pairs.append((client, server))
                except OSError:
                    client.close()
            for pair in list(self.pairs):
                for one, other in (pair, pair[::-1]):
                    if one in ready and pair in self.pairs:
                        try:
                            data = one.recv(65536)
                            other.sendall(data)
                        except OSError:
                            data = b""
                        if not data:
                            self.pairs.remove(pair)
                            one.close()
                            other.close()

    def close(self):
        self.ends = True
        self.thread.join()
        self.listener.close()


class Host:
    """A host: its own home and scripted driver."""

    def __init__(self, build, fakes=True, script=CARD):
        self.build = pathlib.Path(build).resolve()
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="autotune-host-"))
        pathlib.Path(self.home, "script").write_text(script)
        pathlib.Path(self.home, "none").mkdir()
        self.variables = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                          "AUTOTUNE_FAKE_SCRIPT": str(self.home / "script"), "AUTOTUNE_LOCK_DIR": str(self.home / "locks"),
                          "LD_LIBRARY_PATH": str(self.build / "tests/support/fake/lib"), "AUTOTUNE_SHIPPED": str(self.home / "none"),
                          "AUTOTUNE_JOBS": "1"}

    def environment(self, **more):
        return {**self.variables, **{name: value for name, value in more.items() if value is not None}}

    def autotune(self, *words, expect=0, **more):
        done = subprocess.run([self.build / "tools/autotune", *map(str, words)], env=self.environment(**more), capture_output=True,
                              text=True, timeout=400, cwd=self.home)
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"autotune {' '.join(map(str, words))}: exit {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
        return done

    def worker(self, store, *words, before=()):
        """`before`: a command that runs it."""
        with open(self.home / "worker.txt", "ab") as log:
            return subprocess.Popen([*before, self.build / "tools/autotune", "worker", "--store", store, "--idle", "0", *words],
                                    env=self.environment(), stdout=log, stderr=log, cwd=self.home)

    def said(self):
        return pathlib.Path(self.home, "worker.txt").read_text(errors="replace")

    def winners(self):
        text = self.autotune("export", expect=None).stdout
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)


def until(condition, limit_s, what):
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > limit_s:
            raise AssertionError(f"{what}: not within {limit_s} s")
        time.sleep(0.1)
    return time.monotonic() - begun
