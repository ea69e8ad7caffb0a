"""libautotune.so from Python, by ctypes: as much of include/autotune/autotune.h as the comparisons here need."""
import ctypes
import pathlib

TYPES = {"f16": 1, "bf16": 2, "f32": 3}  # autotune_dtype


class AddProblem(ctypes.Structure):
    """autotune_add_problem."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("length", ctypes.c_int64), ("type", ctypes.c_int),
                ("align_a", ctypes.c_int), ("align_b", ctypes.c_int), ("align_c", ctypes.c_int)]


class GemmProblem(ctypes.Structure):
    """autotune_gemm_problem."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
                ("batch", ctypes.c_int64), ("ab_type", ctypes.c_int), ("c_type", ctypes.c_int), ("accumulator", ctypes.c_int),
                ("order", ctypes.c_int), ("trans_a", ctypes.c_int), ("trans_b", ctypes.c_int), ("lda", ctypes.c_int64),
                ("ldb", ctypes.c_int64), ("ldc", ctypes.c_int64), ("stride_a", ctypes.c_int64), ("stride_b", ctypes.c_int64),
                ("stride_c", ctypes.c_int64), ("beta", ctypes.c_int), ("align_a", ctypes.c_int), ("align_b", ctypes.c_int),
                ("align_c", ctypes.c_int)]


def find_library(root):
    """Returns the library of the first build folder that has one, or None."""
    for build in ("portable", "release"):
        path = pathlib.Path(root) / "build" / build / "src" / "runtime" / "libautotune.so"
        if path.exists():
            return path
    return None


class Library:
    """A handle with the settings of the `autotune` command: its database and its cache of compiled kernels."""

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
        """`align`: the address of each operand is a multiple of this many bytes."""
        return AddPlan(self, length, dtype, align)

    def gemm_plan(self, shape, dtype, layout):
        """C = A B with beta = 0, f32 sums and dense rows; `shape` is (m, n, k), `layout` has two letters as in `autotune
        --layout`.
        """
        return GemmPlan(self, shape, dtype, layout)


class Plan:
    """The common part of plans of all ops. REQUIRES: the CUDA context is current, which a first call of torch on the GPU
    ensures.
    """

    def __init__(self, library):
        self.library = library
        self.raw = ctypes.c_void_p()

    def candidate(self):
        return self.library.c.autotune_plan_candidate(self.raw).decode()

    def origin(self):
        origin = ctypes.c_int()
        self.library.check(self.library.c.autotune_plan_origin(self.raw, ctypes.byref(origin)))
        return self.library.c.autotune_origin_string(origin).decode()


class GemmPlan(Plan):
    """A plan of C = A B."""

    def __init__(self, library, shape, dtype, layout):
        super().__init__(library)
        m, n, k = shape
        problem = GemmProblem(struct_size=ctypes.sizeof(GemmProblem), m=m, n=n, k=k, ab_type=TYPES[dtype], c_type=TYPES[dtype],
                              accumulator=TYPES["f32"], trans_a=layout[0] == "t", trans_b=layout[1] == "t", beta=1)
        library.check(library.c.autotune_gemm_plan(library.handle, ctypes.byref(problem), ctypes.byref(self.raw)))

    def workspace_bytes(self):
        """Bytes that a call needs; they must be zero before the first call."""
        size = ctypes.c_size_t()
        self.library.check(self.library.c.autotune_plan_workspace(self.raw, ctypes.byref(size)))
        return size.value

    def run(self, a, b, c, workspace, stream):
        """Enqueues C = A B. Operands are addresses, and `workspace` is (address, bytes)."""
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self.library.check(self.library.c.autotune_gemm(
            self.raw, ctypes.byref(one), ctypes.c_void_p(a), ctypes.c_void_p(b), ctypes.byref(zero), ctypes.c_void_p(c),
            ctypes.c_void_p(workspace[0]), ctypes.c_size_t(workspace[1]), ctypes.c_void_p(stream)))


class AddPlan(Plan):
    """A plan of c = a + b."""

    def __init__(self, library, length, dtype, align):
        super().__init__(library)
        problem = AddProblem(struct_size=ctypes.sizeof(AddProblem), length=length, type=TYPES[dtype], align_a=align,
                             align_b=align, align_c=align)
        library.check(library.c.autotune_add_plan(library.handle, ctypes.byref(problem), ctypes.byref(self.raw)))

    def call(self, a, b, c, stream):
        """Returns a function without arguments that enqueues c = a + b. Arguments are converted for C once, here."""
        function = self.library.c.autotune_add
        arguments = (self.raw, *(ctypes.c_void_p(x) for x in (a, b, c, stream)))

        def enqueue():
            status = function(*arguments)
            if status != 0:
                self.library.check(status)

        return enqueue
