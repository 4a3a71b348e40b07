"""The SQL that strategies render, one file per strategy: each case has a name, a model's configs in YAML, and the statement."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "strategies"
REWRITE = "ROWMERGE_REWRITE_RENDERED"


@dataclass(frozen=True)
class Case:
    """A case of a strategy's file: `-- name`, `-- config: {…}`, the SQL, and an empty line before the next case."""

    strategy: str
    name: str
    said: str
    sql: str

    @property
    def config(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.said))


def cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.sql")) for case in _cases(path)]


def expect(case: Case, sql: str) -> None:
    """Compare with the file. With ROWMERGE_REWRITE_RENDERED=1, write the file instead, to review the difference."""
    if sql != case.sql and os.environ.get(REWRITE):
        path = FOLDER / f"{case.strategy}.sql"
        texts = [(each.name, each.said, sql if each.name == case.name else each.sql) for each in _cases(path)]
        path.write_text(
            "\n\n".join(f"-- {name}\n-- config: {said}\n{text}".rstrip() for name, said, text in texts) + "\n", encoding="utf-8"
        )
        return
    assert sql == case.sql, f"Differs from {case.strategy}.sql; {REWRITE}=1 writes it anew."


def _cases(path: Path) -> list[Case]:
    parsed_cases = []
    for text in path.read_text(encoding="utf-8").removeprefix("-- ").split("\n\n-- "):
        name, said, sql = (*text.split("\n", 2), "")[:3]
        parsed_cases.append(Case(path.stem, name.strip(), said.removeprefix("-- config: "), sql.strip()))
    return parsed_cases
