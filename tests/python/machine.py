"""The scripted driver as a test sees it: a private home, a context, arrays in device memory, the log of what the driver was asked."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HEADER_BYTES, LOG_BYTES = 64, 32 << 20  # sizes of the log: tests/support/fake/call_log.h
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
TYPES = {"<f2": "e", "<f4": "f"}


class Entries:
    """The driver's entry points by cuGetProcAddress, found in the way in which the library finds them."""

    def __init__(self, raw):
        self._raw = raw

    def __getattr__(self, name):
        address = ctypes.c_void_p()
        found = ctypes.c_int()
        status = self._raw.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), 12000, ctypes.c_uint64(0), ctypes.byref(found))
        if status != 0 or not address.value:
            raise AttributeError(f"the driver has no {name}")
        function = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
        function.argtypes = None
        setattr(self, name, function)
        return function


class Driver:
    """The driver calls that tests need. Made once per process; its context is the primary one of device 0."""

    _only = None

    def __init__(self):
        self.library = Entries(ctypes.CDLL("libcuda.so.1"))
        self.check(self.library.cuInit(0))
        context = ctypes.c_void_p()
        self.check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.context = context
        self.make_current()

    @classmethod
    def only(cls):
        if cls._only is None:
            cls._only = cls()
        return cls._only

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"the driver answered {status}")

    def make_current(self, context=True):
        self.check(self.library.cuCtxSetCurrent(self.context if context else None))

    def stream(self):
        stream = ctypes.c_void_p()
        self.check(self.library.cuStreamCreate(ctypes.byref(stream), 1))
        return stream.value

    def synchronize(self):
        self.check(self.library.cuCtxSynchronize())


class Array:
    """A dense array in device memory, with __cuda_array_interface__."""

    def __init__(self, shape, values=None, typestr="<f2", strides=None):
        self.shape, self.typestr, self.strides = tuple(shape), typestr, strides
        self.count = 1
        for extent in self.shape:
            self.count *= extent
        self.format = f"<{self.count}{TYPES[typestr]}"
        self.driver = Driver.only()
        address = ctypes.c_uint64()
        self.driver.check(self.driver.library.cuMemAlloc(ctypes.byref(address), ctypes.c_size_t(struct.calcsize(self.format))))
        self.address = address.value
        self.upload(values if values is not None else [0] * self.count)

    def upload(self, values):
        data = struct.pack(self.format, *values)
        self.driver.check(self.driver.library.cuMemcpyHtoD(ctypes.c_uint64(self.address), data, ctypes.c_size_t(len(data))))

    def values(self):
        data = ctypes.create_string_buffer(struct.calcsize(self.format))
        self.driver.synchronize()
        self.driver.check(self.driver.library.cuMemcpyDtoH(data, ctypes.c_uint64(self.address), ctypes.c_size_t(len(data))))
        return list(struct.unpack(self.format, data.raw))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3, "strides": self.strides}


def integers(count, seed):
    """Numbers from -2 to 2. Their products are exact in f16, and so are sums of few products."""
    values = []
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) % 2**32
        values.append((seed >> 16) % 5 - 2)
    return values


def product(a, b, m, n, k):
    """A B of row-major lists."""
    return [sum(a[i * k + p] * b[p * n + j] for p in range(k)) for i in range(m) for j in range(n)]


class MachineTest(unittest.TestCase):
    """Each test has its own home, database and cache. REQUIRES: the process was started with the scripted driver."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="autotune-python-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        for name, inner in (("HOME", "home"), ("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")):
            (self.folder / inner).mkdir()
            os.environ[name] = str(self.folder / inner)
        os.environ["AUTOTUNE_LOCK_DIR"] = str(self.folder / "locks")
        # There are no winners here, because shipped winners must not affect a test
        os.environ["AUTOTUNE_SHIPPED"] = str(self.folder / "home")

    def run_python(self, code, script="", **environment):
        """Runs code in another process, on a machine with this script. Returns (exit code, output, the driver's log)."""
        (self.folder / "script").write_text(script)
        with open(self.folder / "calls", "wb") as log:
            log.truncate(LOG_BYTES)
        variables = dict(os.environ, AUTOTUNE_FAKE_SCRIPT=str(self.folder / "script"), AUTOTUNE_FAKE_LOG=str(self.folder / "calls"))
        for name, value in environment.items():
            variables[name] = value
        ended = subprocess.run(
            [sys.executable, "-c", "import machine\n" + code],
            env=variables,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=Path(__file__).parent,
        )
        data = (self.folder / "calls").read_bytes()
        used = int.from_bytes(data[:8], "little")
        return ended.returncode, ended.stdout + ended.stderr, data[HEADER_BYTES : HEADER_BYTES + used].decode().splitlines()
