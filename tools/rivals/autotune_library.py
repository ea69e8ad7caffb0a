"""libautotune.so from Python, by ctypes: as much of include/autotune/autotune.h as the comparisons here need."""
import ctypes
import pathlib

ADD_TYPES = {"f16": 0, "bf16": 1, "f32": 2}


class AddProblem(ctypes.Structure):
    """autotune_add_problem."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("length", ctypes.c_int64), ("type", ctypes.c_int),
                ("align_a", ctypes.c_int), ("align_b", ctypes.c_int), ("align_c", ctypes.c_int)]


def find_library(root):
    """The library of the first build folder that has one, or None."""
    for build in ("portable", "release"):
        path = pathlib.Path(root) / "build" / build / "src" / "runtime" / "libautotune.so"
        if path.exists():
            return path
    return None


class Library:
    """A handle with the set-up of the `autotune` command: its database, its cache of compiled kernels."""

    def __init__(self, path):
        self.c = ctypes.CDLL(str(path))
        self.c.autotune_last_error.restype = ctypes.c_char_p
        self.c.autotune_plan_candidate.restype = ctypes.c_char_p
        self.c.autotune_origin_string.restype = ctypes.c_char_p
        self.c.autotune_version_string.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.check(self.c.autotune_create(ctypes.byref(self.handle), None))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.autotune_last_error(self.handle).decode() or f"autotune status {status}")

    def version(self):
        return self.c.autotune_version_string().decode()

    def add_plan(self, length, dtype, align=16):
        """`align`: bytes that the address of each operand is a multiple of."""
        return AddPlan(self, length, dtype, align)


class AddPlan:
    """A plan of c = a + b. The CUDA context must be current: a first torch call on the GPU makes it so."""

    def __init__(self, library, length, dtype, align):
        self.library = library
        self.raw = ctypes.c_void_p()
        problem = AddProblem(struct_size=ctypes.sizeof(AddProblem), length=length, type=ADD_TYPES[dtype], align_a=align,
                             align_b=align, align_c=align)
        library.check(library.c.autotune_add_plan(library.handle, ctypes.byref(problem), ctypes.byref(self.raw)))

    def candidate(self):
        return self.library.c.autotune_plan_candidate(self.raw).decode()

    def origin(self):
        origin = ctypes.c_int()
        self.library.check(self.library.c.autotune_plan_origin(self.raw, ctypes.byref(origin)))
        return self.library.c.autotune_origin_string(origin).decode()

    def call(self, a, b, c, stream):
        """A function of no arguments that enqueues c = a + b. Arguments are turned into C once, here."""
        function = self.library.c.autotune_add
        arguments = (self.raw, *(ctypes.c_void_p(x) for x in (a, b, c, stream)))

        def enqueue():
            status = function(*arguments)
            if status != 0:
                self.library.check(status)

        return enqueue
