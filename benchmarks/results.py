"""The results of a run as JSON: all repetitions, and the medians in the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines.registry import ENGINES
from benchmarks.scenarios import SCENARIOS


@dataclass
class Case:
    """The results of one scenario on one engine.

    Attributes:
        repetitions: The fields of `Measured` for each repetition. The first repetition opens the table for the first time.
        cold: The durations of processes that run one repetition, from their start to its end, in seconds.
    """

    scenario: str
    engine: str
    repetitions: list[dict[str, Any]] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    rows: str | None = None
    answers: dict[str, str] = field(default_factory=dict)
    failed: str | None = None

    @property
    def first(self) -> float | None:
        return sum(self.repetitions[0]["seconds"].values()) if self.repetitions else None

    @property
    def warm(self) -> float | None:
        """The median of all repetitions except the first."""
        return median(sum(r["seconds"].values()) for r in self.repetitions[1:]) if len(self.repetitions) > 1 else None

    def of(self, name: str) -> float | None:
        """Return the median of a measurement over the later repetitions."""
        values = [r[name] for r in self.repetitions[1:] if r.get(name) is not None]
        return median(values) if values else None

    def part(self, label: str) -> float | None:
        """Return the median seconds of one label."""
        seconds = [r["seconds"][label] for r in self.repetitions[1:] if label in r["seconds"]]
        return median(seconds) if seconds else None

    def ratio(self, label: str, other: str) -> float | None:
        """Return the median ratio of two labels' seconds in one repetition, because the machine's speed can change between repetitions."""
        ratios = [r["seconds"][label] / r["seconds"][other] for r in self.repetitions[1:] if {label, other} <= r["seconds"].keys()]
        return median(ratios) if ratios else None


@dataclass
class Run:
    """All cases of a run, with date and machine. `skipped`: why engines could not run; `started`: the seconds of their last start."""

    scale: float
    date: str
    machine: dict[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)

    def case(self, scenario: str, engine: str) -> Case | None:
        return next((case for case in self.cases if (case.scenario, case.engine) == (scenario, engine)), None)

    def without(self, scenarios: Sequence[str], engines: Sequence[str]) -> Run:
        """Return the run without these scenarios of these engines."""
        return replace(self, cases=[case for case in self.cases if case.scenario not in scenarios or case.engine not in engines])

    def scenarios(self) -> list[str]:
        """Return the scenarios, in the order of the benchmark."""
        return sorted({case.scenario for case in self.cases}, key=list(SCENARIOS).index)

    def engines(self) -> list[str]:
        """Return the engines, in the order of the benchmark."""
        return sorted({case.engine for case in self.cases}, key=list(ENGINES).index)

    def disagreements(self) -> list[str]:
        """Return sentences about the scenarios in which engines ended with different rows or results."""
        sentences = []
        for scenario in self.scenarios():
            ended: dict[str, list[str]] = {}
            for case in self.cases:
                if case.scenario == scenario and (case.rows or case.answers):
                    ended.setdefault(f"{case.rows} {case.answers}", []).append(case.engine)
            if len(ended) > 1:
                sentences.append(f"scenario {scenario}: " + "; ".join(f"{', '.join(who)}: {what}" for what, who in ended.items()))
        return sentences

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Run:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "cases": [Case(**case) for case in fields["cases"]]})


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the results in a file with one line of JSON for each, or an empty list if the file does not exist."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
