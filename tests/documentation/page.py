"""docs/reference_statements.md: every statement of the reference documentations, by format. As a program, it prints the page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.statement_cases import FORMATS, Case, cases

FOLDER = Path(__file__).parent
REJECTED = "rejected: "
INTRODUCTION = """# Statements of the reference documentations

Each statement of the reference pages of Delta Lake, Databricks and Iceberg on Spark, and its result with this engine. `tests/documentation`
runs a case of each row. *Yes* means the documented result. *No* means an error that names an alternative: see [Rejected](#rejected).
A dash means that the statement has no meaning for the format. The examples are in our own words.
"""


@dataclass(frozen=True)
class Reference:
    """A page of a reference documentation, with a case for each statement."""

    title: str
    address: str
    cases: list[Case]


def references() -> list[Reference]:
    """Return all pages, in the order of their files."""
    pages = []
    for path in sorted(FOLDER.glob("*.sql")):
        title, address = (line.removeprefix("# ") for line in path.read_text(encoding="utf-8").splitlines()[:2])
        pages.append(Reference(title, address, cases(path)))
    return pages


def rejected(format_: str) -> list[tuple[str, str]]:
    """Return the statements that the engine rejects for a format, with the error that the case expects."""
    statements = []
    for reference in references():
        for case in reference.cases:
            if case.claim.startswith(REJECTED) and format_ in _formats(case):
                statements.append((case.claim.removeprefix(REJECTED), case.steps[-1].error or ""))
    return statements


def document() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for reference in references():
        lines = [_row(_code(case.claim.removeprefix(REJECTED)), *(_answer(case, each) for each in FORMATS)) for case in reference.cases]
        heading = f"## {reference.title}\n\n[The reference page]({reference.address})."
        parts.append("\n".join([heading, "", "| statement | Delta | Iceberg |", "| --- | --- | --- |", *lines, ""]))
    parts.append("## Rejected\n")
    for format_ in FORMATS:
        lines = [_row(_code(statement), *error.split(": ", 1)) for statement, error in rejected(format_)]
        parts.append("\n".join([f"### {format_.capitalize()}", "", "| statement | error | its text |", "| --- | --- | --- |", *lines, ""]))
    return "\n".join(parts)


def _formats(case: Case) -> tuple[str, ...]:
    return FORMATS if case.formats() == ("-",) else case.formats()


def _answer(case: Case, format_: str) -> str:
    if format_ not in _formats(case):
        return "–"
    return "no" if case.claim.startswith(REJECTED) else "yes"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _code(statement: str) -> str:
    return f"`{statement}`".replace("|", "\\|") if "`" not in statement else f"`` {statement} ``"


if __name__ == "__main__":
    sys.stdout.write(document())
