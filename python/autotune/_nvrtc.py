"""The compiler that pip installed for this Python, which the library's own search finds only where the environment is activated."""

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


def nvrtc_of_this_python() -> Optional[str]:
    """The newest libnvrtc among this Python's packages that the driver can use; None where the user or a toolkit says which."""
    if os.environ.get("AUTOTUNE_NVRTC") or os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME"):
        return None
    most = driver_major()
    usable = [found for found in _candidates(sys.path) if most is None or found[0] <= most]
    return max(usable)[2] if usable else None
