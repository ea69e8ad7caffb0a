"""Searches: `tune` for one problem, `sweep` for many. They run the command, whose workers have contexts and processes of their own."""

import itertools
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._checked import Path, argument
from .command import LineFunction, run_json, run_json_items
from .problem import Problem

SOME_FAILED, INTERRUPTED = 7, 130


@dataclass(frozen=True)
class Winner:
    """The database's winner for a problem. Times are in microseconds; `low_us` and `high_us` are the 95 % interval."""

    family: str
    config: Dict[str, int]
    median_us: float
    low_us: float
    high_us: float
    rate: Optional[float]
    rate_unit: Optional[str]
    shipped: bool
    provenance: Dict[str, Any] = field(repr=False)

    @property
    def candidate(self) -> str:
        return " ".join([self.family, *(f"{name}={value}" for name, value in self.config.items())])


@dataclass(frozen=True)
class Finalist:
    """A contestant of the final rounds: our kernel, or a vendor library's. `ratio`: its time / the winner's, in the same rounds."""

    name: str
    median_us: float
    ratio: float
    is_rival: bool


@dataclass(frozen=True)
class TuneResult:
    """The result of a tune. `document`: the command's whole output (docs/json.md)."""

    op: str
    shape: str
    key: str
    origin: str
    tuned: bool
    timed: bool
    winner: Optional[Winner]
    finalists: List[Finalist] = field(repr=False)
    document: Dict[str, Any] = field(repr=False)

    @property
    def best_rival(self) -> Optional[Finalist]:
        """The fastest vendor library of the final rounds."""
        rivals = [finalist for finalist in self.finalists if finalist.is_rival]
        return min(rivals, key=lambda rival: rival.ratio) if rivals else None

    def record(self) -> Dict[str, Any]:
        """Flat, for a table."""
        return _record(self.op, self.shape, self.key, self.winner, origin=self.origin)


@dataclass(frozen=True)
class SweepItem:
    """A problem of a sweep. `state`: "tuned", "fresh" (had a winner), "failed", "skipped_for_budget" or "interrupted"."""

    op: str
    shape: str
    key: str
    state: str
    seconds: float
    winner: Optional[Winner]
    detail: str = ""

    def record(self) -> Dict[str, Any]:
        """Flat, for a table."""
        return _record(self.op, self.shape, self.key, self.winner, state=self.state, seconds=self.seconds, detail=self.detail)


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep. `summary` counts the items in each state."""

    items: List[SweepItem]
    summary: Dict[str, int]
    seconds: float

    def records(self) -> List[Dict[str, Any]]:
        """One flat dict per item, as pandas.DataFrame takes them."""
        return [item.record() for item in self.items]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of `records()`."""
        import pandas

        return pandas.DataFrame(self.records())


@dataclass(frozen=True)
class Progress:
    """The argument of a progress function: `done` of `total` problems (None while it is unknown), and the new item or line."""

    done: int
    total: Optional[int]
    text: str
    item: Optional[SweepItem] = None


ProgressFunction = Callable[[Progress], None]


def _record(op: str, shape: str, key: str, winner: Optional[Winner], **more: Any) -> Dict[str, Any]:
    row: Dict[str, Any] = {"op": op, "shape": shape, "key": key, **more}
    if winner is not None:
        row.update(family=winner.family, median_us=winner.median_us, low_us=winner.low_us, high_us=winner.high_us)
        row.update(rate=winner.rate, rate_unit=winner.rate_unit, config=winner.candidate.partition(" ")[2])
    return row


def _winner(document: Optional[Mapping[str, Any]]) -> Optional[Winner]:
    if not document or "median_us" not in document:
        return None
    unit = next((unit for unit in ("tflops", "gb_per_s") if unit in document), None)
    return Winner(
        family=document["family"],
        config=document["config"],
        median_us=document["median_us"],
        low_us=document["low_us"],
        high_us=document["high_us"],
        rate=document.get(unit) if unit else None,
        rate_unit=unit,
        shipped=bool(document.get("shipped")),
        provenance=document.get("provenance", {}),
    )


def _finalists(evidence: Optional[Mapping[str, Any]]) -> List[Finalist]:
    return [
        Finalist(each["name"], each.get("median_us") or each.get("timing", {}).get("median_us", 0.0), each["ratio"], "family" not in each)
        for each in (evidence or {}).get("finalists", [])
    ]


def words_of(problem: Problem) -> Dict[str, str]:
    """A problem in the command's words: {"op": "gemm", "shape": "16x4096x4096", "layout": "nt", ...}."""
    return words_of_key(problem.key)


def words_of_key(key: str) -> Dict[str, str]:
    """The same for a known key."""
    op, *words, shape = key.split(" ")
    return {"op": op, "shape": shape, **dict(word.split("=", 1) for word in words)}


def _flags(options: Mapping[str, Any]) -> List[str]:
    """ "total_budget": "1h" becomes "--total-budget 1h"; True: a flag without a value; a list: a flag for each; None and False: nothing."""
    flags: List[str] = []
    for name, value in options.items():
        flag = "--" + (name if name.startswith("stride_") else name.replace("_", "-"))
        if value is None or value is False:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            flags += [flag] if each is True else [flag, argument(flag, each)]
    return flags


def _request(problem: Union[Problem, str], shape: Optional[str]) -> Dict[str, str]:
    if isinstance(problem, Problem):
        if shape is not None:
            raise TypeError("a Problem has its shape; give none")
        return words_of(problem)
    if shape is None:
        raise TypeError(f'tune("{problem}", ...) wants a shape too, such as "4096x4096x2048"')
    return {"op": problem, "shape": shape}


def _count_trials(progress: ProgressFunction) -> LineFunction:
    count = itertools.count(1)
    return lambda line: progress(Progress(next(count) if line.startswith("trial:") else 0, None, line))


def tune(
    problem: Union[Problem, str],
    shape: Optional[str] = None,
    *,
    budget: Optional[str] = None,
    trials: Optional[int] = None,
    retune: bool = False,
    seed: Optional[int] = None,
    device: Optional[int] = None,
    database: Optional[Path] = None,
    progress: Optional[ProgressFunction] = None,
    **options: Any,
) -> TuneResult:
    """Finds the fastest kernel for one problem and stores it.

    problem: a Problem, or an op's name or alias with a shape: tune("hgemm", "4096x4096x2048", layout="nt").
    budget: "7s", "5m" or "200t" (trials); trials: the most candidates to try; retune: search even if a winner is stored.
    progress: called with a line for each trial, on a thread of its own; an exception raised there ends the search.
    options: any other flag of `autotune tune` or option of the op, with _ for -: family="gemm/mma", layout="nt".
    Raises CommandError, with the command's exit code; without a GPU kernels are compiled and ranked, and `timed` is False.
    """
    known = dict(budget=budget, trials=trials, retune=retune, seed=seed, device=device, db=database)
    arguments = ["tune", *_flags({**_request(problem, shape), **known, **options})]
    heard: Optional[LineFunction] = None
    if progress is not None:
        heard = _count_trials(progress)
    document = run_json(arguments, heard, allowed=(0, INTERRUPTED))
    said = document["problem"]
    return TuneResult(
        op=said["op"],
        shape=said["shape"],
        key=said["key"],
        origin=document.get("origin", "none"),
        tuned=bool(document.get("tuned")),
        timed=bool(document.get("timed")),
        winner=_winner(document.get("winner")),
        finalists=_finalists(document.get("evidence")),
        document=document,
    )


def _item(document: Mapping[str, Any]) -> SweepItem:
    said = document["problem"]
    return SweepItem(
        op=said["op"],
        shape=said["shape"],
        key=said["key"],
        state=document.get("state", "failed"),
        seconds=document.get("seconds", 0.0),
        winner=_winner(document.get("winner")),
        detail=document.get("detail", document.get("error", "")),
    )


def sweep(
    problems: Iterable[Union[Problem, Mapping[str, str]]],
    *,
    budget: Optional[str] = None,
    total_budget: Optional[str] = None,
    trials: Optional[int] = None,
    retune: bool = False,
    device: Optional[int] = None,
    database: Optional[Path] = None,
    progress: Optional[ProgressFunction] = None,
    **options: Any,
) -> SweepResult:
    """Tunes many problems; those with a valid winner are left as they are. After an interruption, the same call continues.

    problems: Problems, or words such as {"op": "hgemm", "shape": "1024:4096:1024x4096x2048", "layout": "nt"}.
    budget: a problem's; total_budget: "30m", "2h": no problem is started after it.
    progress: called with each problem when it ends, in the caller's thread, with `done` and `total`.
    options: any other flag of `autotune sweep`. Raises CommandError; problems that failed are items, no exception.
    """
    lines = [words_of(each) if isinstance(each, Problem) else dict(each) for each in problems]
    if not lines:
        return SweepResult([], {}, 0.0)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape", suffix=".txt", prefix="autotune-shapes-") as file:
        for words in lines:
            shape = words.pop("shape")
            file.write(" ".join([shape, *(f"{name}={value}" for name, value in words.items())]) + "\n")
        file.flush()
        flags = ["--shapes", file.name, *_flags(dict(device=device, db=database, **options))]
        limits = _flags(dict(budget=budget, total_budget=total_budget, trials=trials, retune=retune))
        total = len(run_json(["sweep", "--dry-run", *flags])["problems"]) if progress is not None else None
        items: List[SweepItem] = []

        def hear(document: Mapping[str, Any]) -> None:
            items.append(_item(document))
            if progress is not None:
                last = items[-1]
                progress(Progress(len(items), total, f"{last.op} {last.shape} {last.state}", last))

        document = run_json_items(["sweep", *flags, *limits], hear, allowed=(0, SOME_FAILED, INTERRUPTED))
    return SweepResult(items, document.get("summary", {}), document.get("seconds", 0.0))


def progress_bar() -> ProgressFunction:
    """A progress function that draws tqdm's bar, in a terminal or a notebook. Needs tqdm."""
    from tqdm.auto import tqdm

    bar = tqdm(unit="problem")

    def show(progress: Progress) -> None:
        if progress.total is not None and bar.total != progress.total:
            bar.total = progress.total
        bar.n = progress.done
        bar.set_description_str(progress.text[:60])
        bar.refresh()

    return show


__all__: Sequence[str] = [
    "Finalist",
    "Progress",
    "SweepItem",
    "SweepResult",
    "TuneResult",
    "Winner",
    "progress_bar",
    "sweep",
    "tune",
    "words_of",
]
