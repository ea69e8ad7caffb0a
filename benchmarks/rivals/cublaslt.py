"""cuBLASLt from Python, by ctypes: every algorithm that its heuristics return for one row-major product."""
import ctypes
import pathlib

COMPUTE_32F, REAL_32F = 68, 0
TYPES = {"f16": 2, "bf16": 14, "e4m3": 28}
TRANSPOSE_A, SCALE_OF_A, SCALE_OF_B, FAST_ACCUMULATION = 3, 17, 18, 25  # attributes of a matmul description
SCALE_MODE_OF_A, SCALE_MODE_OF_B = 31, 32
# For cuBLASLt's A, which is our B, and for its B
SCALE_MODES = {"none": (0, 0), "tensor": (0, 0), "row": (3, 3), "block": (5, 4)}
WORKSPACE_LIMIT = 1         # attribute of a preference
WORKSPACE_BYTES = 64 << 20


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace_bytes", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def find_library():
    """The path of the library that comes with torch, or its plain name."""
    try:
        import nvidia
    except ImportError:
        return "libcublasLt.so.13"
    for folder in nvidia.__path__:
        for path in pathlib.Path(folder).glob("**/libcublasLt.so.1[23]"):
            return str(path)
    return "libcublasLt.so.13"


class CublasLt:
    def __init__(self):
        self.c = ctypes.CDLL(find_library())
        self.handle = ctypes.c_void_p()
        self.check(self.c.cublasLtCreate(ctypes.byref(self.handle)))

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"cuBLASLt status {status}")

    def product(self, shape, dtype, layout, most=64):
        return Product(self, shape, (dtype, dtype), layout, most)

    def fp8_product(self, shape, out, scale, is_fast, most=64):
        """e4m3 operands in layout nt. `scale`: none, tensor, row or block; block scales of A have no gaps between columns."""
        first, second = SCALE_MODES[scale]
        attributes = [(FAST_ACCUMULATION, ctypes.c_int8(is_fast))]
        if scale != "none":  # the heuristics check whether there is a scale, not its address
            attributes += [(SCALE_OF_A, ctypes.c_uint64(256)), (SCALE_OF_B, ctypes.c_uint64(256)),
                           (SCALE_MODE_OF_A, ctypes.c_int32(first)), (SCALE_MODE_OF_B, ctypes.c_int32(second))]
        return Product(self, shape, ("e4m3", out), "nt", most, attributes)


class Product:
    """C = A B with B as stored by the second letter of `layout`: for cuBLAS, which thinks in columns, C^T = B^T A^T."""

    def __init__(self, library, shape, dtypes, layout, most, attributes=()):
        self.library = library
        c = library.c
        m, n, k = shape
        self.description = ctypes.c_void_p()
        library.check(c.cublasLtMatmulDescCreate(ctypes.byref(self.description), COMPUTE_32F, REAL_32F))
        self.set(TRANSPOSE_A, ctypes.c_int32(1 if layout[1] == "t" else 0))
        for attribute, value in attributes:
            self.set(attribute, value)

        def matrix(rows, columns, dtype=dtypes[0]):
            made = ctypes.c_void_p()
            library.check(c.cublasLtMatrixLayoutCreate(ctypes.byref(made), TYPES[dtype], ctypes.c_uint64(rows),
                                                       ctypes.c_uint64(columns), ctypes.c_int64(rows)))
            return made

        self.b = matrix(k, n) if layout[1] == "t" else matrix(n, k)
        self.a, self.out = matrix(k, m), matrix(n, m, dtypes[1])
        preference = ctypes.c_void_p()
        library.check(c.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
        limit = ctypes.c_uint64(WORKSPACE_BYTES)
        library.check(c.cublasLtMatmulPreferenceSetAttribute(preference, WORKSPACE_LIMIT, ctypes.byref(limit), 8))
        self.found = (Heuristic * most)()
        count = ctypes.c_int()
        library.check(c.cublasLtMatmulAlgoGetHeuristic(library.handle, self.description, self.b, self.a, self.out, self.out,
                                                       preference, most, self.found, ctypes.byref(count)))
        self.count = count.value

    def set(self, attribute, value):
        """`value`: a ctypes value with the attribute's size."""
        self.library.check(self.library.c.cublasLtMatmulDescSetAttribute(self.description, attribute, ctypes.byref(value),
                                                                         ctypes.c_size_t(ctypes.sizeof(value))))

    def run(self, index, a, b, c, workspace, stream, scales=()):
        """Enqueues algorithm number `index`; operands are addresses. `scales`: those of A and B."""
        for attribute, address in zip((SCALE_OF_B, SCALE_OF_A), scales):
            self.set(attribute, ctypes.c_uint64(address))
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self.library.check(self.library.c.cublasLtMatmul(
            self.library.handle, self.description, ctypes.byref(one), ctypes.c_void_p(b), self.b, ctypes.c_void_p(a), self.a,
            ctypes.byref(zero), ctypes.c_void_p(c), self.out, ctypes.c_void_p(c), self.out, ctypes.byref(self.found[index].algorithm),
            ctypes.c_void_p(workspace), ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(stream)))
