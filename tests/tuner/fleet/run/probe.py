"""A program that uses the library: plans products in an order and prints which kernel serves each.

usage: probe.py LIBRARY COUNT forward|backward [POLICY]. Prints {"plans": {...}, "agreement": hex, "parts": {...}, "warnings": [...],
"slowest_s": of a plan}.
"""
import ctypes
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from machine import Driver  # noqa: E402


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("database", ctypes.c_char_p), ("cache_folder", ctypes.c_char_p),
                ("shipped", ctypes.c_char_p), ("nvrtc", ctypes.c_char_p), ("pin", ctypes.c_char_p), ("on_miss", ctypes.c_int),
                ("read_environment", ctypes.c_int), ("record_misses", ctypes.c_int), ("log", ctypes.c_void_p),
                ("log_user", ctypes.c_void_p), ("label", ctypes.c_char_p)]


class Gemm(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
                ("batch", ctypes.c_int64), ("ab_type", ctypes.c_int), ("c_type", ctypes.c_int), ("accumulator", ctypes.c_int),
                ("order", ctypes.c_int), ("trans_a", ctypes.c_int), ("trans_b", ctypes.c_int), ("lda", ctypes.c_int64),
                ("ldb", ctypes.c_int64), ("ldc", ctypes.c_int64), ("stride_a", ctypes.c_int64), ("stride_b", ctypes.c_int64),
                ("stride_c", ctypes.c_int64), ("beta", ctypes.c_int), ("align_a", ctypes.c_int), ("align_b", ctypes.c_int),
                ("align_c", ctypes.c_int)]


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.autotune_plan_candidate.restype = library.autotune_origin_string.restype = ctypes.c_char_p
    library.autotune_last_error.restype = ctypes.c_char_p
    Driver.only()
    warnings = []
    log = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda _, level, text: warnings.append(text.decode()) if level == 2 else None)
    options = Options(ctypes.sizeof(Options), read_environment=1, record_misses=1)
    options.on_miss = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    options.log = ctypes.cast(log, ctypes.c_void_p)
    handle = ctypes.c_void_p()

    def check(status):
        if status != 0:
            raise SystemExit(f"status {status}: {library.autotune_last_error(None).decode()}")

    check(library.autotune_create(ctypes.byref(handle), ctypes.byref(options)))
    digest, size = ctypes.create_string_buffer(32), ctypes.c_size_t(4096)
    text = ctypes.create_string_buffer(size.value)
    check(library.autotune_agreement(handle, digest, text, ctypes.byref(size)))
    count = int(sys.argv[2])
    # Few weights with many row counts, as in a model.
    problems = [(1 + 7 * (i // 5), 64 * (1 + i % 5), 128) for i in range(count)]
    if sys.argv[3] == "backward":
        problems.reverse()
    plans, slowest = {}, 0.0
    for m, n, k in problems:
        problem = Gemm(ctypes.sizeof(Gemm), m=m, n=n, k=k, beta=1)
        plan, origin = ctypes.c_void_p(), ctypes.c_int()
        begun = time.monotonic()
        check(library.autotune_gemm_plan(handle, ctypes.byref(problem), ctypes.byref(plan)))
        slowest = max(slowest, time.monotonic() - begun)
        check(library.autotune_plan_origin(plan, ctypes.byref(origin)))
        plans[f"{m}x{n}x{k}"] = library.autotune_origin_string(origin).decode() + " " + library.autotune_plan_candidate(plan).decode()
        library.autotune_plan_destroy(plan)
    library.autotune_flush_misses(handle)
    library.autotune_destroy(handle)
    parts = dict(line.split(" ", 1) for line in text.value.decode().splitlines())
    print(json.dumps({"plans": plans, "agreement": digest.raw.hex(), "parts": parts, "warnings": warnings, "slowest_s": slowest}))


main()
