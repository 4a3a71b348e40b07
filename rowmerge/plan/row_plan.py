"""RowPlan: any row-level command as one shape, an ordered list of clauses over (target row?, source row?).

MERGE, UPDATE, DELETE and INSERT are ordered lists of WHEN clauses. The first clause whose condition is true applies to a row pair. UPDATE
and DELETE have no source, and INSERT has only NOT MATCHED clauses. Modules after planning therefore handle one shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.conditions import Condition, Side
from rowmerge.plan.schema_evolution import new_columns
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.snapshots.files import FileMask


class Effect(Enum):
    """What a clause does to its row. The values are the codes that travel to the writer."""

    UPDATE = 1
    DELETE = 2
    INSERT = 3


class SourceRows(Enum):
    """Which source rows become new rows when no target row is involved."""

    NONE = "none"
    UNMATCHED = "those that match nothing"
    ALL = "all"


@dataclass(frozen=True)
class Clause:
    """One WHEN clause, its names settled.

    `values` maps exact column names of the table to SQL text over the aliases of the plan's sides. A generated column that is absent is
    computed, another one keeps its value (UPDATE) or is NULL (INSERT). With `keeps_fields`, so do the fields that the value of a struct
    column lacks.
    """

    match: Match
    effect: Effect
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict, hash=False)
    keeps_fields: bool = False

    def alone(self) -> str:
        """The clause of a statement without a source."""
        values = ", ".join(f"{column} = {value}" for column, value in self.values.items())
        return f"  {f'SET {values} ' if values else ''}{f'WHERE {self.condition}' if self.condition else 'of every row'}"

    def __str__(self) -> str:
        guard = f" AND {self.condition}" if self.condition else ""
        values = ", ".join(f"{column} = {value}" for column, value in self.values.items())
        return f"{self.match.value}{guard} THEN {self.effect.name}{f' {values}' if values else ''}"


@dataclass(frozen=True)
class RowPlan:
    """What a row-level command does, before any file is looked at.

    `on` ties source to target (None without a source); `files` is true for the files whose rows can be touched, judged by the
    conditions alone, and needs the bounds of `bound_columns`; `whole_files`, where set, is true for files that leave as a whole.
    `schema` is the table's after the command; `evolved_from` what it was before, None where the command may not change it.
    """

    operation: str
    table: str
    schema: Struct
    target: Side
    clauses: tuple[Clause, ...]
    files: FileMask
    bound_columns: tuple[str, ...]
    source: Side | None = None
    on: Condition | None = None
    source_rows: SourceRows = SourceRows.NONE
    conjuncts: tuple[str, ...] = ()
    """The conditions that `files` is made of, all of which a row must fulfil to be touched."""
    whole_files: FileMask | None = None
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    evolved_from: Struct | None = None
    rules: Rules = field(default_factory=Rules)
    """What each row that the command writes must satisfy."""

    @property
    def new_schema(self) -> Struct | None:
        """What the command makes of the table's schema, None when it stays."""
        return self.schema if self.evolved_from is not None and self.evolved_from != self.schema else None

    def of(self, match: Match) -> tuple[Clause, ...]:
        """The clauses of one kind, in order."""
        return tuple(clause for clause in self.clauses if clause.match is match)

    @property
    def duplicates_allowed(self) -> bool:
        """One unconditional DELETE cannot be done twice in two ways, so a second match does no harm (as in Delta and the SQL standard)."""
        matched = self.of(Match.MATCHED)
        return len(matched) == 1 and matched[0].effect is Effect.DELETE and matched[0].condition is None

    def __str__(self) -> str:
        lines = [f"{self.operation} {self.table}"]
        if self.on is not None:
            lines.append(f"  ON {self.on.text}")
            lines += [f"    key {key.column} {key.op} {key.source}" for key in self.on.keys]
        lines += [clause.alone() if self.source is None else f"  {clause}" for clause in self.clauses]
        if self.evolved_from is not None and self.new_schema is not None:
            lines += [f"  new column {column}" for column in new_columns(self.evolved_from, self.new_schema)]
        if self.source_rows is SourceRows.ALL:
            lines.append("  every source row is inserted")
        lines += [f"  generated {column} = {text}" for column, text in self.rules.generated.items()]
        return "\n".join(lines)
