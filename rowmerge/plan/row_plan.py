"""RowPlan, the common form of all row-level commands: an ordered list of clauses over (target row?, source row?).

MERGE, UPDATE, DELETE and INSERT are ordered lists of WHEN clauses. The first clause whose condition is true applies to a row pair. UPDATE
and DELETE have no source, and INSERT has only NOT MATCHED clauses. Modules after planning therefore handle one shape. The functions
return which columns of the target's matching rows a MERGE has to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.column_refs import has_query, parse, references
from rowmerge.plan.expressions.conditions import Condition, Side, nondeterministic_function, resolve
from rowmerge.plan.schema_evolution import added_or_changed_columns
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.snapshots.files import FileMask


class Effect(Enum):
    """What a clause does to its row. The values are the codes in the rows that Spark passes to the writer."""

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
    """One WHEN clause with resolved names.

    `values` maps exact column names of the table to SQL text over the aliases of the plan's sides. A generated column that is absent is
    computed. Any other absent column keeps its value (UPDATE) or is NULL (INSERT). With `keeps_fields`, the same is true of the fields
    that the value of a struct column lacks.
    """

    match: Match
    effect: Effect
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict, hash=False)
    keeps_fields: bool = False

    def describe(self, *, has_source: bool) -> str:
        """Return the clause as a line of EXPLAIN. UPDATE and DELETE have no source, and get WHERE instead of WHEN."""
        values = ", ".join(f"{column} = {value}" for column, value in self.values.items())
        if not has_source:
            set_list = f"SET {values} " if values else ""
            return set_list + (f"WHERE {self.condition}" if self.condition else "of every row")
        condition = f" AND {self.condition}" if self.condition else ""
        action = f"{self.effect.name} {values}" if values else self.effect.name
        return f"{self.match.value}{condition} THEN {action}"


@dataclass(frozen=True)
class RowPlan:
    """The plan of a row-level command, made before any data file is read.

    `on`: the condition that connects source and target, None without a source. `files`: the mask of the files that can have touched rows,
    according to the conditions; it needs the bounds of `bound_columns`. `whole_files`: the mask of the files that the command removes as
    a whole, if this is known. `schema`: the table's schema after the command. `evolved_from`: the table's schema before the command, None
    if the command cannot change it.
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
    """The conditions that `files` tests. The command touches only rows for which all of them are true."""
    whole_files: FileMask | None = None
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    evolved_from: Struct | None = None
    rules: Rules = field(default_factory=Rules)
    """The rules for each row that the command writes."""

    @property
    def old_schema(self) -> Struct:
        """Return the table's schema before the command."""
        return self.schema if self.evolved_from is None else self.evolved_from

    @property
    def new_schema(self) -> Struct | None:
        """Return the table's schema after the command, None if it stays."""
        return self.schema if self.old_schema != self.schema else None

    def of(self, match: Match) -> tuple[Clause, ...]:
        """Return the clauses of one kind, in order."""
        return tuple(clause for clause in self.clauses if clause.match is match)

    @property
    def duplicates_allowed(self) -> bool:
        """Return whether a second match does no harm: to one unconditional DELETE, as in Delta and the SQL standard."""
        matched = self.of(Match.MATCHED)
        return len(matched) == 1 and matched[0].effect is Effect.DELETE and matched[0].condition is None

    def __str__(self) -> str:
        """Return the lines of EXPLAIN: the condition with its keys, the clauses, new columns and generated columns."""
        lines = [f"{self.operation} {self.table}"]
        if self.on is not None:
            lines.append(f"  ON {self.on.text}")
            lines += [f"    key {key.column} {key.op} {key.source}" for key in self.on.keys]
        lines += [f"  {clause.describe(has_source=self.source is not None)}" for clause in self.clauses]
        if self.new_schema is not None:
            lines += [f"  new column {column}" for column in added_or_changed_columns(self.old_schema, self.new_schema)]
        if self.source_rows is SourceRows.ALL:
            lines.append("  every source row is inserted")
        lines += [f"  generated {column} = {expression}" for column, expression in self.rules.generated.items()]
        return "\n".join(lines)


def needed_columns(plan: RowPlan) -> frozenset[str] | None:
    """Return the target's columns that a MERGE reads of a matching row: those that ON or a MATCHED clause uses, or that an UPDATE keeps.

    The result is None if that is uncertain: for a subquery, a nondeterministic function, an ambiguous name, or text that sqlglot cannot
    parse.
    """
    assert plan.on is not None and plan.source is not None
    matched_clauses = plan.of(Match.MATCHED)
    expressions = [plan.on.text, *chain.from_iterable(map(_texts_of, matched_clauses))]
    used_columns = [_target_columns(plan, expression) for expression in expressions]
    if None in used_columns:
        return None
    kept_columns = [_kept_columns(clause, plan.old_schema) for clause in matched_clauses if clause.effect is Effect.UPDATE]
    return frozenset[str]().union(*filter(None, used_columns), *kept_columns)


def _kept_columns(update: Clause, schema: Struct) -> set[str]:
    """Return the columns that keep their old value, in whole or in part, in an updated row."""
    return {name for name in schema.names if update.keeps_fields or name not in update.values}


def is_upsert(plan: RowPlan) -> bool:
    """Return whether each source row becomes the same new row, whether or not it matches a target row.

    Such a plan has one UPDATE and one INSERT, both without a condition. Both assign the same values of the source to all columns.
    """
    updates, inserts = plan.of(Match.MATCHED), plan.of(Match.NOT_MATCHED)
    if len(updates) != 1 or len(inserts) != 1 or len(plan.clauses) != 2:
        return False
    update, insert = updates[0], inserts[0]
    if update.condition is not None or insert.condition is not None or update.effect is not Effect.UPDATE or update.keeps_fields:
        return False
    has_all_columns = {*insert.values, *plan.rules.generated} >= set(plan.schema.names)
    return dict(update.values) == dict(insert.values) and has_all_columns and _is_of_source_alone(plan, insert)


def keys_decide(plan: RowPlan) -> bool:
    """Return whether a MERGE whose ON condition compares keys alone has to read only the position of a matching target row."""
    if plan.duplicates_allowed and plan.source_rows is not SourceRows.UNMATCHED:
        return not plan.of(Match.NOT_MATCHED_BY_SOURCE)
    return is_upsert(plan) or source_decides(plan)


def source_decides(plan: RowPlan) -> bool:
    """Return whether the clauses use columns of the source alone, so that a MERGE has to read only the ON columns of target rows.

    Each UPDATE must also assign every column, and no clause can be WHEN NOT MATCHED BY SOURCE.
    """
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) or not all(_is_of_source_alone(plan, clause) for clause in plan.clauses):
        return False
    updates = [clause for clause in plan.clauses if clause.effect is Effect.UPDATE]
    return all(not clause.keeps_fields and set(clause.values) >= set(plan.schema.names) for clause in updates)


def _is_of_source_alone(plan: RowPlan, clause: Clause) -> bool:
    """Return whether the condition and the values of a clause certainly use no column of the target."""
    return all(_target_columns(plan, text) == set() for text in _texts_of(clause))


def values_of_all(plan: RowPlan) -> Mapping[str, str] | None:
    """Return the values of every row that the command writes. Return None if the clauses have different values, or if none writes rows."""
    clause_values = [dict(clause.values) for clause in plan.clauses if clause.effect is not Effect.DELETE]
    return clause_values[0] if clause_values and all(values == clause_values[0] for values in clause_values) else None


def _texts_of(clause: Clause) -> list[str]:
    """Return the SQL texts of a clause: its condition, if any, and its values."""
    return [*([] if clause.condition is None else [clause.condition]), *clause.values.values()]


def _target_columns(plan: RowPlan, text: str) -> set[str] | None:
    """Return the target's columns that an expression uses, or None if they are uncertain."""
    tree = parse(text)
    if tree is None or has_query(tree) or nondeterministic_function(text):
        return None
    column_references = references(tree, text)
    if column_references is None:
        return None
    sides = [side for side in (plan.target, plan.source) if side is not None]
    resolved_references = [resolve(reference.parts, sides) for reference in column_references]
    if None in resolved_references:
        return None
    return {resolved.column for resolved in resolved_references if resolved is not None and resolved.side is plan.target}
