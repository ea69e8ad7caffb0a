"""The `autotune` command that came with the package, as a child process."""

import errno
import json
import os
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from ._checked import argument
from ._library import FOLDER
from ._nvrtc import nvrtc_of_this_python
from .errors import CommandError


LineFunction = Callable[[str], None]
_REMEDIES = {
    errno.ENOENT: "; install the package again",
    errno.EACCES: "; install the package again, on a file system that allows programs",
    errno.E2BIG: "; give fewer or shorter arguments",
    errno.EAGAIN: "; the system allows no more processes: ulimit -u",
    errno.ENOMEM: "; the system has no memory left for it",
}
Document = Dict[str, Any]


def command_path() -> str:
    """The path of the command's program."""
    return str(FOLDER / "bin" / "autotune")


def command_environment() -> Dict[str, str]:
    """This process's environment, plus the compiler of this Python's packages if nothing else selects one."""
    environment = dict(os.environ)
    compiler = nvrtc_of_this_python()
    if compiler:
        environment["AUTOTUNE_NVRTC"] = compiler
    elif sys.prefix != sys.base_prefix:
        # So that the command searches there, and reports if the environment cannot be used
        environment.setdefault("VIRTUAL_ENV", sys.prefix)
    return environment


class Command:
    """A run of the command with --json. CUDA contexts are made in its processes, not in this one.

    `on_line` hears each line of standard error. Ctrl-C stops the command as it does in a shell: what was measured is kept.
    """

    def __init__(self, arguments: Sequence[str], on_line: Optional[LineFunction] = None):
        environment = command_environment()
        if on_line is not None:
            environment["AUTOTUNE_LOG"] = "info"
        self._errors: List[str] = []
        self._on_line = on_line
        words = [argument(f"argument {i}", each) for i, each in enumerate(arguments)]
        self._process = _started([command_path(), *words, "--json"], environment)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._failure: Optional[BaseException] = None
        self._reader.start()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.rstrip("\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self._errors.append(text)
            if self._on_line is None or self._failure is not None:
                continue
            try:
                self._on_line(text)
            except BaseException as failure:  # an exception of the caller's code: raised again in the caller's thread
                self._failure = failure
                self._process.terminate()

    def lines(self) -> Iterator[str]:
        """Standard output, a line at a time, as it comes."""
        assert self._process.stdout is not None
        try:
            yield from self._process.stdout
        except BaseException:
            self._process.terminate()
            raise

    def finish(self, allowed: Sequence[int] = (0,)) -> int:
        """Waits for the end. Raises what `on_line` raised, or CommandError for an exit code that is not allowed."""
        try:
            code = self._process.wait()
        except BaseException:
            self._process.terminate()
            self._process.wait()
            raise
        finally:
            self._reader.join()
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
        if self._failure is not None:
            raise self._failure
        if code not in allowed:
            said = [line for line in self._errors if not line.startswith(("trial:", "warning:", "note:"))]
            message = said[-1] if said else f"autotune ended with exit code {code}"
            raise CommandError(message, code, "\n".join(self._errors))
        return code


def _started(words: List[str], environment: Dict[str, str]) -> "subprocess.Popen[str]":
    """Raises CommandError if the system cannot start it."""
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",  # keeps paths in its output unchanged
            env=environment,
        )
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "")
        code = 127 if isinstance(error, FileNotFoundError) else 126
        raise CommandError(f"cannot start {words[0]}: {error.strerror or error}{remedy}", code) from error


def run_json(arguments: Sequence[str], on_line: Optional[LineFunction] = None, allowed: Sequence[int] = (0,)) -> Any:
    """The document that the command prints. Raises CommandError."""
    command = Command(arguments, on_line)
    text = "".join(command.lines())
    command.finish(allowed)
    return json.loads(text) if text.strip() else None


def run_json_items(
    arguments: Sequence[str], on_item: Callable[[Document], None], allowed: Sequence[int] = (0,), on_line: Optional[LineFunction] = None
) -> Document:
    """Like run_json, for a document whose first member is a list; calls `hear` for each element as it arrives."""
    command = Command(arguments, on_line)
    text: List[str] = []
    try:
        for line in command.lines():
            text.append(line)
            if line.startswith('{"problem"'):
                on_item(json.loads(line.rstrip().rstrip(",")))
    except BaseException:
        command.finish(range(-64, 256))
        raise
    command.finish(allowed)
    document: Document = json.loads("".join(text))
    return document


if sys.platform != "linux":
    raise ImportError("autotune runs on Linux alone")
