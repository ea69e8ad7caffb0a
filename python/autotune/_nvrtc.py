"""Finds the compiler that pip installed for this Python; the library's own search finds it only if the environment is activated."""

import os
import re
import sys
from pathlib import Path
from typing import Iterable, Optional, Tuple

from ._driver import driver_major


def _candidates(folders: Iterable[str]) -> Iterable[Tuple[int, int, str]]:
    for folder in folders:
        for place in ("nvidia/cu*/lib", "nvidia/cuda_nvrtc/lib"):
            for path in Path(folder).glob(f"{place}/libnvrtc.so.*"):
                version = re.fullmatch(r"libnvrtc\.so\.(\d+)(?:\.(\d+))?", path.name)
                if version:
                    yield int(version.group(1)), int(version.group(2) or 0), str(path)


def _is_named_elsewhere() -> bool:
    """Whether the user or a toolkit selects the compiler."""
    return bool(os.environ.get("AUTOTUNE_NVRTC") or os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME"))


def nvrtc_of_this_python() -> Optional[str]:
    """The newest libnvrtc among this Python's packages that the driver can use; None if the user or a toolkit selects one."""
    if _is_named_elsewhere():
        return None
    most = driver_major()
    usable = [found for found in _candidates(sys.path) if most is None or found[0] <= most]
    return max(usable)[2] if usable else None


def why_not_this_pythons() -> str:
    """Why the driver cannot use the compiler of this Python's packages, and the remedy, in the library's words; empty if there
    is no such compiler or if it can be used.
    """
    most, found = driver_major(), list(_candidates(sys.path))
    if _is_named_elsewhere() or most is None or not found or any(each[0] <= most for each in found):
        return ""
    major, _, path = max(found)
    package = "nvidia-cuda-nvrtc-cu12" if most == 12 else "nvidia-cuda-nvrtc"
    release = "of release 580 or newer, which supports CUDA 13" if major == 13 else f"that supports CUDA {major}"
    return (
        f"NVRTC {major} ({path}) was found, but the driver supports CUDA {most} and cannot load kernels of a newer compiler: "
        f"install NVRTC {most} with `pip install {package}`, or a driver {release}"
    )


_NONE_FOUND = "no NVRTC, the compiler that kernels need: "  # the beginning of the library's message if there is no compiler


def with_this_pythons(message: str) -> str:
    """The library's message, plus the compiler of this environment, which the library did not find because the environment is
    not activated.
    """
    before, none_found, after = message.partition(_NONE_FOUND)
    why = why_not_this_pythons() if none_found else ""
    return f"{before}{why}; {after}" if why else message
