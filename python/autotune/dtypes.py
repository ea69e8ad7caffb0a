"""Element types: their words, their numbers in the C interface, and their names in other packages."""

from typing import Any

CODES = {"f16": 1, "bf16": 2, "f32": 3, "f64": 4, "e4m3": 5, "e5m2": 6, "i32": 7, "i8": 8, "u8": 9, "i16": 10, "u16": 11, "u32": 12, "i64": 13, "u64": 14}
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1, "i32": 4, "i8": 1}
BYTES |= {"u8": 1, "i16": 2, "u16": 2, "u32": 4, "i64": 8, "u64": 8}

_OTHER_NAMES = {
    "float16": "f16",
    "half": "f16",
    "fp16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "fp32": "f32",
    "float64": "f64",
    "double": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
}
# Codes of __cuda_array_interface__. bf16 and fp8 have none, so they arrive as raw bytes.
TYPESTR = {"<f2": "f16", "<f4": "f32", "<f8": "f64", "<i4": "i32", "|i1": "i8"}
TYPESTR |= {"|u1": "u8", "<i2": "i16", "<u2": "u16", "<u4": "u32", "<i8": "i64", "<u8": "u64"}
# DLPack's codes: (type code, bits).
DLPACK = {(2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (0, 32): "i32", (0, 8): "i8", (10, 8): "e4m3", (12, 8): "e5m2"}
DLPACK |= {(1, 8): "u8", (0, 16): "i16", (1, 16): "u16", (1, 32): "u32", (0, 64): "i64", (1, 64): "u64"}


def dtype_word(dtype: Any) -> str:
    """ "f16", "i32" and the other keys of CODES, of such a word, of a NumPy or torch dtype, or of its name."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or str(dtype)
    name = name.rpartition(".")[2]
    word = _OTHER_NAMES.get(name, name)
    if word not in CODES:
        raise TypeError(f"unknown dtype {str(dtype)!r}; autotune knows {', '.join(CODES)}")
    return word
