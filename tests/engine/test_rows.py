"""The cases in tests/rows: statements with their expected rows or error, in each format and write mode.

A file contains cases. A case begins with `--- claim`, and statements follow, each ended by `;` at the end of a line. Lines after a
statement state its result: `=> cell | cell` is one row, in order; `=> -` is an empty result; `!> ErrorClass: part of the message` is
an error. `{mode}` stands for the write mode and `using delta` for the format; a case without both runs once.
`--- delta: claim` applies only to Delta tables, and so do all cases of the files in DELTA_ALONE.

The full suite runs each case in both formats and both write modes. The gate runs each case in one combination of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import rowmerge
from rowmerge import errors

FOLDER = Path(__file__).parent.parent / "rows"
MODES = ("copy-on-write", "merge-on-read")
FORMATS = ("delta", "iceberg")
DELTA_ALONE = frozenset({"change_feed", "column_mapping", "constraints", "defaults", "generated", "row_tracking"})
"""What Iceberg tables do not have, or have without asking."""


@dataclass
class Step:
    text: str
    rows: list[str] | None = None
    error: str | None = None


@dataclass
class Case:
    """A claim and its statements. `name` is unique among all files."""

    name: str
    delta_alone: bool = False
    steps: list[Step] = field(default_factory=list)


def cases(path: Path) -> list[Case]:
    parsed_cases: list[Case] = []
    statement: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("--- "):
            claim = line[4:].strip()
            words = re.sub(r"[^a-zA-Z0-9]+", "_", claim.removeprefix("delta: "))
            parsed_cases.append(Case(f"{path.stem}-{words}", claim.startswith("delta: ") or path.stem in DELTA_ALONE))
        elif line.startswith("=>"):
            step = parsed_cases[-1].steps[-1]
            step.rows = (step.rows or []) + ([] if line.strip() == "=> -" else [line[2:].strip()])
        elif line.startswith("!>"):
            parsed_cases[-1].steps[-1].error = line[2:].strip()
        elif line.strip() or statement:
            statement.append(line)
            if line.rstrip().endswith(";"):
                parsed_cases[-1].steps.append(Step("\n".join(statement).rstrip().removesuffix(";")))
                statement = []
    assert not statement, f"{path.name}: the last statement has no semicolon"
    return parsed_cases


def parameters() -> list[Any]:
    """Return each case with each format and write mode that its statements leave open. `-` stands for a format or mode that they name."""
    variants = []
    for path in sorted(FOLDER.glob("*.sql")):
        for case in cases(path):
            both = FORMATS[:1] if case.delta_alone else FORMATS
            formats = both if any("using delta" in step.text for step in case.steps) else ("-",)
            modes = MODES if any("{mode}" in step.text for step in case.steps) else ("-",)
            variants += [pytest.param(case, *each, id="-".join([case.name, *each])) for each in product(formats, modes)]
    return variants


@pytest.mark.one_of("format_", "mode")
@pytest.mark.parametrize(("case", "format_", "mode"), parameters())
def test_case(session: rowmerge.Session, case: Case, format_: str, mode: str) -> None:
    if needs_spark_4_1(case) and session.spark.version.startswith("4.0."):
        with pytest.raises(errors.SparkTooOld, match=r"needs (Py)?Spark 4\.1 or newer"):
            session.sql(case.steps[0].text)
        return
    checked = 0
    for step in case.steps:
        text = step.text.replace("{mode}", f"'rowmerge.write.mode' = '{mode}'").replace("using delta", f"using {format_}")
        if step.error is not None:
            kind, _, part = step.error.partition(":")
            with pytest.raises(getattr(errors, kind.strip())) as caught:
                session.sql(text).collect()
            assert part.strip() in str(caught.value)
            checked += 1
            continue
        result = session.sql(text)
        if step.rows is not None:
            assert [" | ".join(format_cell(cell) for cell in row).rstrip() for row in result.collect()] == step.rows, text
            checked += 1
    assert checked, "a case must say what comes of it"


def format_cell(cell: Any) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float | int | Decimal):
        return str(cell)
    return str(cell)


def needs_spark_4_1(case: Case) -> bool:
    """Return whether Spark 4.0 rejects the first statement of a case."""
    text = case.steps[0].text
    return text.startswith("create aggregate function") and "language python" in text
