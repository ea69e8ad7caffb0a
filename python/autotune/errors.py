"""Failures as exceptions. Each has the library's message, and `status`, the number of `autotune_status`."""

from typing import Any, Optional, Tuple


class Error(Exception):
    """Any failure of autotune."""

    status: Optional[int] = None


class InvalidArgument(Error, ValueError):
    """An invalid extent, stride, dtype, name or address."""

    status = 1


class Misaligned(Error, ValueError):
    """An address is less aligned than the plan was made for."""

    status = 2


class WorkspaceTooSmall(Error, ValueError):
    """Fewer bytes of workspace than `Plan.workspace_bytes`."""

    status = 3


class NoGpu(Error, RuntimeError):
    """No driver, no device, or none that is supported (compute capability 8.0 or higher)."""

    status = 4


class NoContext(Error, RuntimeError):
    """No CUDA context is current on this thread."""

    status = 5


class NoKernel(Error, NotImplementedError):
    """No kernel family can do this problem on this device; the message has each family's reason."""

    status = 6


class NotPlanned(Error, RuntimeError):
    """No kernel is ready, and the policy or a stream capture forbids making one."""

    status = 7


class CompileFailed(Error, RuntimeError):
    """NVRTC is missing or refused the kernel."""

    status = 8


class OutOfMemory(Error, MemoryError):
    """Not enough memory on the host or the device."""

    status = 9


class DriverError(Error, RuntimeError):
    """A CUDA driver call failed; the message names it."""

    status = 10


class Forked(Error, RuntimeError):
    """The handle or plan was made in the parent process. CUDA does not survive a fork: use the "spawn" start method."""

    status = 11


class InternalError(Error, RuntimeError):
    """A bug of the library."""

    status = 12


class Overlap(Error, ValueError):
    """An output overlaps another array."""

    status = 13


class CommandError(Error, RuntimeError):
    """The `autotune` command failed. `exit_code` is the command's (docs/commands.md lists them), `stderr` what it printed.

    A command that could not be started has exit code 127 where its program is missing, and 126 otherwise, as in a shell.
    """

    def __init__(self, message: str, exit_code: int, stderr: str = ""):
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr = stderr

    def __reduce__(self) -> Tuple[Any, ...]:
        return CommandError, (str(self), self.exit_code, self.stderr)


# Remedies for users of Python; the library's message only describes the state of the machine.
_ADVICE = {
    NoGpu.status: "`python -m autotune doctor` tells what this machine lacks; a container needs its GPUs passed in (docker run --gpus all)",
}
_BY_STATUS = {kind.status: kind for kind in Error.__subclasses__() if kind.status is not None}


def error_of(status: int, message: str) -> Error:
    """The exception for a status."""
    sentence = message or f"autotune failed with status {status}"
    return _BY_STATUS.get(status, Error)(f"{sentence}; {_ADVICE[status]}" if status in _ADVICE else sentence)
