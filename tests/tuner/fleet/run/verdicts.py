"""A program with a patch: stores verdicts, and prints those by which it would decide.

usage: verdicts.py LIBRARY [PROBLEM=RATIO...]. Prints PROBLEM=RATIO for each.
"""
import ctypes
import sys


class Verdict(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("problem", ctypes.c_char_p), ("device", ctypes.c_char_p), ("rival", ctypes.c_char_p),
                ("in_stream", ctypes.c_double), ("in_graphs", ctypes.c_double)]


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.autotune_last_error.restype = ctypes.c_char_p
    library.autotune_last_error.argtypes = [ctypes.c_void_p]

    def check(status):
        if status != 0:
            raise SystemExit(f"status {status}: {library.autotune_last_error(None).decode()}")

    given = [each.split("=") for each in sys.argv[2:]]
    rows = (Verdict * len(given))(*(Verdict(ctypes.sizeof(Verdict), problem.encode(), b"a card", b"torch", float(ratio), float(ratio)) for problem, ratio in given))
    check(library.autotune_put_verdicts(None, rows, ctypes.c_size_t(len(given))))
    use = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Verdict))(
        lambda _, verdict: print(f"{verdict.contents.problem.decode()}={verdict.contents.in_stream:g}"))
    check(library.autotune_read_verdicts(None, b"torch", use, None))


main()
