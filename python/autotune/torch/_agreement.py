"""Whether all ranks of a job run the same kernels."""

import hashlib
from typing import Any, Dict, List

import torch
import torch.distributed

from . import _verdicts
from ._engine import handle


def _parts() -> Dict[str, str]:
    """The library's parts, and the parts by which the patch decides."""
    rows = sorted(f"{_verdicts.text_of(each.problem)} {each.in_stream} {each.in_graphs}" for each in _verdicts.load())
    verdicts = hashlib.sha256("\n".join(rows).encode()).hexdigest() if rows else "none"
    return {**handle().agreement.parts, "torch": _verdicts.against(), "verdicts": verdicts}


def differences(parts: List[Dict[str, str]]) -> List[str]:
    """One sentence for each part that differs between ranks."""
    found = []
    for name in parts[0]:
        ranks: Dict[str, List[int]] = {}
        for rank, each in enumerate(parts):
            ranks.setdefault(each.get(name, "unknown"), []).append(rank)
        if len(ranks) > 1:
            found.append(f"{name}: " + ", ".join(f"{_ranks(who)} {'has' if len(who) == 1 else 'have'} {value[:64]}" for value, who in ranks.items()))
    return found


def _ranks(ranks: List[int]) -> str:
    shown = ", ".join(str(each) for each in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def check_agreement(group: Any = None) -> None:
    """Raises RuntimeError, naming what differs, unless every rank of the group would run the same kernels. Needs a label: AUTOTUNE_LABEL.

    A collective call: every rank of `group` (None: all) makes it once, before the first product. Nothing is exchanged after it.
    """
    mine = _parts()
    all_parts: List[Any] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(all_parts, mine, group=group)
    found = differences(all_parts)
    if found:
        raise RuntimeError("ranks would run different kernels. " + "; ".join(found))
    if mine["label"] in ("off", "none"):
        because = "no label is set" if mine["label"] == "off" else "its label cannot be used"
        raise RuntimeError(f"ranks may run different kernels, because {because}: set AUTOTUNE_LABEL to a label that `autotune sync` has brought")
