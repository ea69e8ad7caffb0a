"""The C kernels of the patch (python/torch_calls.cpp): which operators they serve, the table of what they take over, and their misses."""

import ctypes
import pathlib
import threading
import warnings
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch

from ..errors import InvalidArgument
from ..problem import Problem, Tensor

Words = Tuple[int, ...]
# The kernels in the order of the bits of autotune_torch_install(), from the lowest
KERNELS = ("mm", "bmm", "mm.out", "bmm.out", "softmax", "flash", "cudnn", "efficient")
OPERATORS = {"mm": ("mm", "mm.out"), "bmm": ("bmm", "bmm.out"), "softmax": ("softmax",), "attention": ("flash", "cudnn", "efficient")}
_CODES = {"mm": 1, "bmm": 2, "mm.out": 3, "bmm.out": 4, "softmax": 5, "flash": 16, "cudnn": 17, "efficient": 18}
_NAMES = {code: name for name, code in _CODES.items()}
_DTYPES = {"f16": 5, "f32": 6, "bf16": 15}  # torch's numbers of its types
_MOST_WORDS = 1 << 17
_LIBRARY = pathlib.Path(__file__).resolve().parents[1] / "lib" / "torch_calls.so"


class EntryStruct(ctypes.Structure):
    _fields_ = [
        ("plan", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("workspace_zero_bytes", ctypes.c_size_t),
        ("in_stream", ctypes.c_int32),
        ("in_graphs", ctypes.c_int32),
        ("strides", ctypes.c_int64 * 4),
    ]


class Entry(NamedTuple):
    """A call that our kernel takes over: the address of its plan, its requirements, and where the kernel has won."""

    plan: int
    workspace_bytes: int = 0
    workspace_zero_bytes: int = 0
    in_stream: bool = True
    in_graphs: bool = True
    strides: Words = ()  # the strides of attention's output


_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def _library() -> ctypes.CDLL:
    global _loaded
    with _lock:
        if _loaded is None:
            library = ctypes.CDLL(str(_LIBRARY))
            library.autotune_torch_install.restype = ctypes.c_char_p
            library.autotune_torch_install.argtypes = [
                ctypes.c_char_p,
                ctypes.c_uint32,
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.POINTER(ctypes.c_uint32),
            ]
            library.autotune_torch_remove.restype = None
            library.autotune_torch_set_table.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(EntryStruct), ctypes.c_size_t]
            library.autotune_torch_counts.argtypes = [ctypes.POINTER(ctypes.c_uint64)] * 2
            library.autotune_torch_counts.restype = None
            library.autotune_torch_misses.restype = ctypes.c_size_t
            library.autotune_torch_misses.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t]
            library.autotune_torch_clear_misses.restype = None
            library.autotune_torch_note_misses.restype = None
            library.autotune_torch_note_misses.argtypes = [ctypes.c_int]
            _loaded = library
        return _loaded


def install(kernels: Iterable[str], gemm: int, run: int, key: str = "CUDA") -> Dict[str, str]:
    """Registers those of our C kernels that this list of KERNELS names; kernels that are registered already stay so. `gemm`
    and `run` are the addresses of autotune_gemm() and autotune_run(). Returns the reason for each kernel that cannot be
    served.
    """
    wanted = {name: 1 << KERNELS.index(name) for name in kernels}
    try:
        library = _library()
    except OSError as error:
        return {name: f"the package has no C kernels here: {error}" for name in wanted}
    installed = ctypes.c_uint32(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Oo]verrid.*")  # replacing kernels is intended here
        missing = library.autotune_torch_install(key.encode(), sum(wanted.values()), gemm, run, ctypes.byref(installed))
    return {name: _reason(missing) for name, bit in wanted.items() if not installed.value & bit}


def _reason(missing: Optional[bytes]) -> str:
    if missing == b"libcuda.so.1":
        return "no NVIDIA driver: libcuda.so.1 is not found; `python -m autotune doctor` tells what this machine lacks"
    if missing == b"libtorch_cuda.so":
        return f"torch {torch.__version__} is without CUDA"
    return f"torch {torch.__version__} lacks {missing.decode()}" if missing else "torch refused the kernel"


def note_misses(does: bool) -> None:
    """Sets whether calls of registered kernels that are not in the table are kept for missed_keys(). This costs some tenths of
    a microsecond per call.
    """
    _library().autotune_torch_note_misses(int(does))


def kernels_of(problem: Problem) -> Set[str]:
    """The kernels that calls of this problem may use."""
    return {_NAMES[key[0]] for key in keys_of(problem, 0)}


def is_there() -> bool:
    return _LIBRARY.exists()


def remove() -> None:
    _library().autotune_torch_remove()


def set_table(entries: Dict[Words, Entry]) -> None:
    """Replaces the table. Calls that are running now may still read the previous one."""
    words: List[int] = []
    for key in entries:
        words += [len(key), *key]
    structs = (EntryStruct * max(len(entries), 1))(*(EntryStruct(*each[:5], (ctypes.c_int64 * 4)(*each.strides)) for each in entries.values()))
    if _library().autotune_torch_set_table((ctypes.c_int64 * max(len(words), 1))(*words), structs, len(entries)):
        raise MemoryError("the table of the patch")


def counts() -> Tuple[int, int]:
    """The number of calls that our kernels have run since the process began, and of launches that failed, after which aten ran
    the call.
    """
    taken, failed = ctypes.c_uint64(0), ctypes.c_uint64(0)
    _library().autotune_torch_counts(ctypes.byref(taken), ctypes.byref(failed))
    return taken.value, failed.value


def clear_misses() -> None:
    _library().autotune_torch_clear_misses()


def missed_keys() -> List[Words]:
    """Keys of calls that were not in the table, each once, the first 2048 since clear_misses()."""
    buffer = (ctypes.c_int64 * _MOST_WORDS)()
    used = min(_library().autotune_torch_misses(buffer, _MOST_WORDS), _MOST_WORDS)
    keys, at = [], 0
    while at < used:
        size = buffer[at]
        keys.append(tuple(buffer[at + 1 : at + 1 + size]))
        at += 1 + size
    return keys


def missed_problems() -> List[Tuple[Problem, int]]:
    """The problems of missed_keys(), with their devices. Calls that are not problems of ours, for example with an expanded
    operand, are left out.
    """
    found = []
    for key in missed_keys():
        try:
            found.append(problem_of(key))
        except InvalidArgument:
            continue
    return found


def _of_tensor(tensor: Tensor) -> Words:
    return (*tensor.shape, *tensor.strides, tensor.align)


def keys_of(problem: Problem, index: int) -> List[Words]:
    """The keys of torch's calls that a plan of this problem serves on a device."""
    if problem.op == "softmax":
        x = problem.tensors["x"]
        # The C kernel gives y the strides of x, and writes no logarithms.
        if set(problem.tensors) != {"x", "y"} or x.strides != problem.tensors["y"].strides or problem.attributes.get("scale", 1.0) != 1.0:
            return []
        return [(_CODES["softmax"], _DTYPES[x.dtype], index, *_of_tensor(x))]
    if problem.op == "attention":
        return _keys_of_attention(problem, index)
    if problem.op != "gemm":
        return []
    a, b, c = (problem.tensors[name] for name in "abc")
    name = "mm" if len(a.shape) == 2 else "bmm"
    head = *_compute(problem, a.dtype), index
    inputs = *_of_tensor(a), *_of_tensor(b)
    return [(_CODES[name], *head, *inputs), (_CODES[f"{name}.out"], *head, *inputs, *_of_tensor(c))]


def _compute(problem: Problem, dtype: str) -> Words:
    """The type of a key and, for f32, whether torch allows tf32."""
    return (_DTYPES[dtype],) if dtype != "f32" else (_DTYPES[dtype], int(problem.attributes.get("compute") == "tf32"))


def _keys_of_attention(problem: Problem, index: int) -> List[Words]:
    """Keys for those of aten's operators whose output has the problem's layout."""
    q, k, v, o = (problem.tensors[name] for name in "qkvo")
    mask, with_lse = problem.attributes["mask"], "lse" in problem.tensors
    if mask not in ("none", "causal"):
        return []
    key = (*_compute(problem, q.dtype), index, int(mask == "causal"), int(with_lse), *_of_tensor(q), *_of_tensor(k), *_of_tensor(v))
    names = [name for name in (("flash", "cudnn") if with_lse else ("cudnn", "efficient")) if _output_strides(name, q, v) == o.strides]
    return [(_CODES[name], *key) for name in names]


def _output_strides(name: str, q: Tensor, v: Tensor) -> Words:
    batch, heads, length, size = *q.shape[:3], v.shape[3]
    if name == "efficient":
        return length * heads * size, size, heads * size, 1
    like = torch.empty_strided(q.shape, q.strides, device="meta")
    if q.shape[3] == size:
        return torch.empty_like(like).stride()
    order = sorted(range(4), key=lambda i: q.strides[i], reverse=True)
    shape = (batch, heads, length, size)
    return like.new_empty([shape[i] for i in order]).permute([order.index(i) for i in range(4)]).stride()


def problem_of(key: Words) -> Tuple[Problem, int]:
    """The problem of a call of torch, and its device."""
    code, number, *rest = key
    name = _NAMES[code]
    dtype = {number: word for word, number in _DTYPES.items()}[number]
    attributes: Dict[str, Any] = {}
    if dtype == "f32" and name != "softmax":
        attributes["compute"] = "tf32" if rest.pop(0) else "f32"
    index = rest.pop(0)
    flags, dims = [], {"softmax": (len(rest) - 1) // 2, "mm": 2, "mm.out": 2, "bmm": 3, "bmm.out": 3}.get(name, 4)
    if code >= _CODES["flash"]:
        flags, rest = rest[:2], rest[2:]
    size = 2 * dims + 1
    tensors = [Tensor(dtype, tuple(rest[at : at + dims]), tuple(rest[at + dims : at + 2 * dims]), rest[at + 2 * dims]) for at in range(0, len(rest), size)]
    if name == "softmax":
        return Problem("softmax", {"x": tensors[0], "y": Tensor(dtype, tensors[0].shape)}), index
    if flags:
        q, k, v = tensors
        named = {"q": q, "k": k, "v": v, "o": Tensor(dtype, (*q.shape[:3], v.shape[3]), _output_strides(name, q, v))}
        if flags[1]:
            named["lse"] = Tensor("f32", q.shape[:3])
        return Problem("attention", named, {"mask": "causal" if flags[0] else "none", **attributes}), index
    a, b = tensors[:2]
    c = tensors[2] if len(tensors) > 2 else Tensor(dtype, (*a.shape[:-1], b.shape[-1]))
    return Problem("gemm", {"a": a, "b": b, "c": c}, {"beta": "zero", **attributes}), index
