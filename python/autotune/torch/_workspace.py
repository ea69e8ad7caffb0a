"""A plan's device memory, in torch's allocator: one tensor a stream, and one a captured graph, which is freed when the graph is gone.

Memory comes from another thread. torch routes what the capturing thread allocates to the graph's pool, whose memory other graphs may take
over, and torch.compile's CUDA graphs allow nothing in theirs that they do not know.
"""

import ctypes
import threading
from typing import Dict, List, Optional, Tuple

import torch

from . import _devices
from .._graphs import capture_of, keep_for_graph
from ..errors import DriverError
from ..handle import Plan

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: this thread may allocate while another one captures
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_MOST_CAPTURES = 16  # captures that a plan takes part in at once; with more, a capture may get memory twice


class Workspace:
    """The memory of one plan. Leading bytes that the plan needs to be zero are zeroed when the memory is made; every launch
    leaves them zero.
    """

    def __init__(self, plan: Plan, index: int):
        self.bytes, self.zero_bytes, self.index = plan.workspace_bytes, plan.workspace_zero_bytes, index
        self._of_stream: Dict[int, torch.Tensor] = {}
        self._of_capture: Dict[Tuple[int, int], int] = {}  # addresses, by stream and number of the capture

    def address(self, stream: int) -> int:
        """Memory for a launch on `stream`, a raw stream of the plan's device."""
        if _devices.is_capturing(self.index):
            return self._captured(stream)
        memory = self._of_stream.get(stream)
        if memory is None:
            memory = self._of_stream.setdefault(stream, _allocate(self.bytes, self.zero_bytes, self.index, stream))
        return memory.data_ptr()

    def _captured(self, stream: int) -> int:
        number, graph = capture_of(stream)
        address = self._of_capture.get((stream, number))
        if address is None:
            memory = _allocate(self.bytes, self.zero_bytes, self.index, None)
            keep_for_graph(graph, memory)
            while len(self._of_capture) >= _MOST_CAPTURES:
                self._of_capture.pop(next(iter(self._of_capture)))
            address = self._of_capture[stream, number] = memory.data_ptr()
        return address


def _allocate(size: int, zero_bytes: int, index: int, stream: Optional[int]) -> torch.Tensor:
    """Allocates memory that is ready on the raw stream `stream`, or at once for a captured graph (None)."""
    made: List[torch.Tensor] = []
    failed: List[BaseException] = []

    def work() -> None:
        try:
            _devices.driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_RELAXED)))
            with _devices.on_device(index):
                on = _own_stream(index) if stream is None else _stream(stream, index)
                with torch.cuda.stream(on):
                    memory = torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", index))
                    memory[:zero_bytes].zero_()
                if stream is None:
                    on.synchronize()
            made.append(memory)
        except BaseException as failure:
            failed.append(failure)

    thread = threading.Thread(target=work, name="autotune workspace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _stream(raw: int, index: int) -> torch.cuda.Stream:
    # ExternalStream(0) would be one of the streams in torch's pool.
    return torch.cuda.ExternalStream(raw, device=index) if raw else torch.cuda.default_stream(index)


def _own_stream(index: int) -> torch.cuda.Stream:
    """Makes a stream that nobody else has, because a stream from torch's pool may be the one that is being captured. REQUIRES:
    the device is current.
    """
    with _lock:
        if index not in _own_streams:
            raw = ctypes.c_void_p()
            status = _devices.driver().cuStreamCreate(ctypes.byref(raw), ctypes.c_uint(_NON_BLOCKING))
            if status != 0:
                raise DriverError(f"cuStreamCreate answered {status}")
            _own_streams[index] = torch.cuda.ExternalStream(raw.value or 0, device=index)
        return _own_streams[index]


_lock = threading.Lock()
_own_streams: Dict[int, torch.cuda.Stream] = {}
