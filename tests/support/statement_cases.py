"""SQL files with cases: statements with their expected rows or error.

A case begins with `--- claim`, and statements follow, each ended by `;` at the end of a line. Lines after a statement state its result.
`=> cell | cell` is one row, in order, and `=> -` is an empty result. `~> text` is a part of one of the rows, for long results.
`!> ErrorClass: part of the message` is an error. `using delta` stands for the format. `--- delta: claim` applies only to Delta tables, and
`--- iceberg: claim` only to Iceberg tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import rowmerge
from rowmerge import errors

FORMATS = ("delta", "iceberg")


@dataclass
class Step:
    text: str
    rows: list[str] | None = None
    parts: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass
class Case:
    """A claim and its statements. `name` is unique among all files. `format` is the only format to which the claim applies, if any."""

    name: str
    claim: str
    format: str | None = None
    steps: list[Step] = field(default_factory=list)

    def formats(self) -> tuple[str, ...]:
        """Return the formats in which the case runs, or `-` if its statements do not name one."""
        if not any("using delta" in step.text for step in self.steps):
            return (self.format or "-",)
        return (self.format,) if self.format else FORMATS


def cases(path: Path) -> list[Case]:
    """Return the cases of a file."""
    parsed_cases: list[Case] = []
    statement: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("--- "):
            parsed_cases.append(_case(path.stem, line[4:].strip()))
        elif line.startswith("=>"):
            step = parsed_cases[-1].steps[-1]
            step.rows = (step.rows or []) + ([] if line.strip() == "=> -" else [line[2:].strip()])
        elif line.startswith("~>"):
            parsed_cases[-1].steps[-1].parts.append(line[2:].strip())
        elif line.startswith("!>"):
            parsed_cases[-1].steps[-1].error = line[2:].strip()
        elif (line.strip() or statement) and parsed_cases:
            statement.append(line)
            if line.rstrip().endswith(";"):
                parsed_cases[-1].steps.append(Step("\n".join(statement).rstrip().removesuffix(";")))
                statement = []
    assert not statement, f"{path.name}: the last statement has no semicolon"
    return parsed_cases


def _case(file: str, title: str) -> Case:
    format_, separator, claim = title.partition(": ")
    if not separator or format_ not in FORMATS:
        format_, claim = "", title
    return Case(f"{file}-{re.sub(r'[^a-zA-Z0-9]+', '_', claim)}", claim, format_ or None)


def run_case(session: rowmerge.Session, case: Case, text_of: Callable[[str], str]) -> None:
    """Execute the statements of a case, after `text_of` has replaced their placeholders, and compare their results."""
    checked = 0
    for step in case.steps:
        text = text_of(step.text)
        if step.error is not None:
            kind, _, part = step.error.partition(":")
            with pytest.raises(getattr(errors, kind.strip())) as caught:
                session.sql(text).collect()
            assert part.strip() in str(caught.value)
            checked += 1
            continue
        result = session.sql(text)
        if step.rows is None and not step.parts:
            continue
        rows = [" | ".join(format_cell(cell) for cell in row).rstrip() for row in result.collect()]
        assert step.rows in (None, rows), text
        for part in step.parts:
            assert any(text_of(part) in row for row in rows), (part, rows)
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
