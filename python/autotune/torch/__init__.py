"""autotune for PyTorch: operators, a patch of aten, a choice for Inductor, and tuning of a model.

    import autotune.torch
    y = autotune.torch.linear(x, weight)           # a differentiable operator by the tuned kernel
    with autotune.torch.patch():                   # or: torch's own functions, where a raced winner is on record
        y = model(x)
    print(autotune.torch.tune(model, (x,)))        # tunes the problems that the model runs; reports the gains

docs/pytorch.md is the manual.
"""

try:
    import torch as _torch
except ImportError as _missing:
    raise ImportError("autotune.torch needs PyTorch 2.8 or newer: pip install torch") from _missing

_LEAST = (2, 8)
if tuple(int(part) for part in _torch.__version__.split("+")[0].split(".")[:2]) < _LEAST:
    raise ImportError(f"autotune.torch needs PyTorch {_LEAST[0]}.{_LEAST[1]} or newer; this is {_torch.__version__}")

from ._agreement import check_agreement
from ._attention import attention
from ._collect import collect
from ._engine import handle, refresh
from ._inductor import autotune_mm, disable_inductor, enable_inductor
from ._masks import SaneMasks, sane_masks
from ._ops import OPERATORS, addmm, bmm, linear, mm, softmax
from ._patch import Patch, clear_misses, misses, patch, status
from ._race import graph_of, race, race_runs, ratio, time_us
from ._scaled import scaled_mm
from ._tune import ModelReport, TunedProblem, tune

__all__ = [
    "ModelReport",
    "OPERATORS",
    "Patch",
    "SaneMasks",
    "TunedProblem",
    "addmm",
    "attention",
    "autotune_mm",
    "bmm",
    "check_agreement",
    "clear_misses",
    "collect",
    "disable_inductor",
    "enable_inductor",
    "graph_of",
    "handle",
    "linear",
    "misses",
    "mm",
    "patch",
    "race",
    "race_runs",
    "ratio",
    "refresh",
    "sane_masks",
    "scaled_mm",
    "softmax",
    "status",
    "time_us",
    "tune",
]
