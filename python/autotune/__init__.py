"""The fastest known CUDA kernel for one problem on one GPU, looked up and launched.

    import autotune
    autotune.gemm(a, b, c)                     # C = A B by the tuned kernel; a, b, c: any device arrays
    plan = autotune.default_handle().plan(problem)
    launch = plan.bind(a, b, c, scalars=(1.0, 0.0))
    launch(stream)                             # one foreign call

`autotune.torch` has operators, autograd and a patch for PyTorch; `autotune.tune` and `autotune.sweep` search in processes of their
own. docs/python.md and docs/pytorch.md are the manuals.
"""

from . import arrays, command, errors, ops, tuning
from ._library import version_string as _version_string
from .arrays import ArrayView, DeviceArray, Stream, stream_handle
from .errors import (
    CommandError,
    CompileFailed,
    DriverError,
    Error,
    Forked,
    InternalError,
    InvalidArgument,
    Misaligned,
    NoContext,
    NoGpu,
    NoKernel,
    NotPlanned,
    OutOfMemory,
    Overlap,
    WorkspaceTooSmall,
)
from .handle import U64, Agreement, Handle, Launch, Plan, PlanInfo, Scalar, default_handle
from .kernel import Kernel
from .ops import *  # noqa: F403 - one function for each op
from .problem import Attribute, Problem, Tensor
from .report import Report, report
from .tuning import Finalist, Progress, SweepItem, SweepResult, TuneResult, Winner, sweep, tune

__version__ = _version_string().decode()

__all__ = [
    "Agreement",
    "ArrayView",
    "Attribute",
    "CommandError",
    "CompileFailed",
    "DeviceArray",
    "DriverError",
    "Error",
    "Finalist",
    "Forked",
    "Handle",
    "InternalError",
    "InvalidArgument",
    "Kernel",
    "Launch",
    "Misaligned",
    "NoContext",
    "NoGpu",
    "NoKernel",
    "NotPlanned",
    "OutOfMemory",
    "Overlap",
    "Plan",
    "PlanInfo",
    "Problem",
    "Progress",
    "Report",
    "Scalar",
    "Stream",
    "SweepItem",
    "SweepResult",
    "Tensor",
    "TuneResult",
    "U64",
    "Winner",
    "WorkspaceTooSmall",
    "arrays",
    "command",
    "default_handle",
    "errors",
    "ops",
    "report",
    "stream_handle",
    "sweep",
    "tune",
    "tuning",
]
__all__ += ops.__all__
