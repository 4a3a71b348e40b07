"""Seconds of statements: one run that is not measured, then the median of some."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.reads.process import EngineProcess


@dataclass
class Timing:
    """The seconds of one statement in one engine. `opened`: the data files that were opened in the first run, if they were counted."""

    case: str
    engine: str
    format: str
    layout: str
    seconds: list[float] = field(default_factory=list)
    opened: int | None = None
    digest: str | None = None
    error: str | None = None

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None


@dataclass
class Timings:
    """All timings of a part, with a description of the machine and the versions of the engines."""

    machine: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)

    def of(self, case: str, engine: str, format_: str, layout: str = "") -> Timing | None:
        key = (case, engine, format_, layout)
        return next((t for t in self.timings if (t.case, t.engine, t.format, t.layout) == key), None)

    def without(self, engine: str, format_: str, layout: str = "") -> list[Timing]:
        return [t for t in self.timings if (t.engine, t.format, t.layout) != (engine, format_, layout)]

    def cases(self, layout: str = "") -> list[str]:
        return list(dict.fromkeys(t.case for t in self.timings if t.layout == layout))

    def ratio(self, own: tuple[str, str], other: tuple[str, str], layout: str) -> float | None:
        """Return the geometric mean of own seconds divided by those of another engine, over the statements that both ran."""
        ratios = []
        for case in self.cases(layout):
            pair = (self.of(case, *own, layout), self.of(case, *other, layout))
            medians = [t.median for t in pair if t is not None and t.median]
            if len(medians) == 2:
                ratios.append(medians[0] / medians[1])
        return geometric_mean(ratios)

    def disagreements(self) -> list[str]:
        """Return sentences about statements for which engines returned different rows, or failed."""
        digests: dict[tuple[str, str], dict[str, list[str]]] = {}
        for t in self.timings:
            if t.digest is not None:
                digests.setdefault((t.layout, t.case), {}).setdefault(t.digest, []).append(f"{t.engine} ({t.format})")
        differ = [f"{layout} {case}: rows differ: {by_digest}" for (layout, case), by_digest in digests.items() if len(by_digest) > 1]
        return differ + [f"{t.layout} {t.case}: {t.engine} ({t.format}) failed: {t.error}" for t in self.timings if t.error]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Timings:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "timings": [Timing(**timing) for timing in fields["timings"]]})


def geometric_mean(ratios: Iterable[float]) -> float | None:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else None


def timed(
    engines: Sequence[EngineProcess], case: str, layout: str, statement: str, repetitions: int, *, measures_first: bool = False
) -> list[Timing]:
    """Measure a statement in some engines, which run it in turns.

    Args:
        engines: The processes of the engines.
        case: The name of the statement.
        layout: The layout of the tables, or an empty text.
        statement: The SQL statement.
        repetitions: The measured runs in each engine.
        measures_first: Whether the first run is measured too. Otherwise, it precedes the measured ones.
    """
    timings = [Timing(case, engine.engine, engine.format, layout) for engine in engines]
    for run in range(repetitions if measures_first else repetitions + 1):
        for engine, timing in zip(engines, timings, strict=True):
            if timing.error is None:
                answer = engine.run(statement)
                timing.error, timing.digest = answer.get("error"), answer.get("digest")
                if timing.error is None and (measures_first or run > 0):
                    timing.seconds.append(answer["seconds"])
    for timing in timings:
        seconds = f"{timing.median:.3f}" if timing.median is not None else timing.error
        print(f"{layout:<10} {timing.engine:<14} {timing.format:<8} {case:<10} {seconds}", file=sys.stderr, flush=True)
    return timings
