"""RowPlan, the common form of all row-level commands: an ordered list of clauses over pairs of an optional target and source row.

MERGE, UPDATE, DELETE and INSERT are ordered lists of WHEN clauses. The first clause whose condition is true applies to a row pair. UPDATE
and DELETE have no source, and INSERT has only NOT MATCHED clauses. The modules that execute plans therefore handle only one form. The
functions determine which columns of target rows a MERGE has to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from sqlglot import exp

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.column_refs import has_query, may_hide_column, parse, references
from rowmerge.plan.expressions.conditions import Condition, nondeterministic_function
from rowmerge.plan.expressions.sides import Side, resolve
from rowmerge.plan.schema_evolution import added_or_changed_columns
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.snapshots.files import FileMask


class Effect(Enum):
    """What a clause does to a row. The enum values are the codes in the rows that Spark passes to the writer."""

    UPDATE = 1
    DELETE = 2
    INSERT = 3


class SourceRows(Enum):
    """Which source rows can become new rows without a target row."""

    NONE = "none"
    UNMATCHED = "those that match nothing"
    ALL = "all"


class Cardinality(Enum):
    """The rule by which a MERGE rejects target rows that match several source rows. The enum values are those of the Spark setting."""

    CONDITIONS = "conditions"
    """Two clauses must not change one target row. A match counts only if the condition of a WHEN MATCHED clause is true."""
    DELTA = "delta"
    """The rule of Delta Lake on Spark: every match counts in a MERGE that changes target rows."""
    ICEBERG = "iceberg"
    """The rule of Iceberg on Spark: every match counts in a MERGE with a WHEN MATCHED clause."""


@dataclass(frozen=True)
class Clause:
    """One WHEN clause with resolved names.

    `values` maps exact column names of the table to SQL text, in which the aliases of the plan's sides qualify columns. A generated column
    without an entry is computed. Any other column without an entry keeps its value (UPDATE) or is NULL (INSERT). If `keeps_fields` is true,
    the same applies to the fields that the value of a struct column lacks.
    """

    match: Match
    effect: Effect
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict, hash=False)
    keeps_fields: bool = False

    def describe(self, *, has_source: bool) -> str:
        """Return the clause as a line of EXPLAIN, with WHERE instead of WHEN for UPDATE and DELETE, which have no source."""
        values = ", ".join(f"{column} = {value}" for column, value in self.values.items())
        if not has_source:
            set_list = f"SET {values} " if values else ""
            return set_list + (f"WHERE {self.condition}" if self.condition else "of every row")
        condition = f" AND {self.condition}" if self.condition else ""
        action = f"{self.effect.name} {values}" if values else self.effect.name
        return f"{self.match.value}{condition} THEN {action}"


@dataclass(frozen=True)
class RowPlan:
    """The plan of a row-level command, created before any data file is read.

    `operation` and `parameters`: the operation and the operationParameters in Delta's commitInfo. `on`: the condition that connects source
    and target, or None without a source. `files`: the mask of the files that can contain affected rows, according to the conditions. The
    mask uses the column bounds of `bound_columns`. `whole_files`: the mask of the files that the command removes as a whole, or None if
    unknown. `schema`: the table's schema after the command. `evolved_from`: the schema before the command, or None if the command cannot
    change it.
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
    """The conditions that `files` tests. The command affects only rows for which all these conditions are true."""
    whole_files: FileMask | None = None
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    evolved_from: Struct | None = None
    rules: Rules = field(default_factory=Rules)
    """The constraints, defaults and generated columns that apply to each row that the command writes."""
    cardinality: Cardinality = Cardinality.CONDITIONS
    metadata_columns: Struct = field(default_factory=Struct)
    """The metadata columns of the target that conditions and values use."""

    @property
    def old_schema(self) -> Struct:
        """Return the table's schema before the command."""
        return self.schema if self.evolved_from is None else self.evolved_from

    @property
    def new_schema(self) -> Struct | None:
        """Return the table's schema after the command, or None if the command cannot change the schema."""
        return self.schema if self.old_schema != self.schema else None

    def of(self, match: Match) -> tuple[Clause, ...]:
        """Return the clauses that apply to one kind of match, in order."""
        return tuple(clause for clause in self.clauses if clause.match is match)

    @property
    def duplicates_allowed(self) -> bool:
        """Return whether several source rows may match one target row: only for one unconditional DELETE, as in Delta."""
        matched = self.of(Match.MATCHED)
        return len(matched) == 1 and matched[0].effect is Effect.DELETE and matched[0].condition is None

    @property
    def counts_every_match(self) -> bool:
        """Return whether several source rows must not match one target row even if no clause changes the row."""
        checked_kinds = {
            Cardinality.CONDITIONS: (),
            Cardinality.DELTA: (Match.MATCHED, Match.NOT_MATCHED_BY_SOURCE),
            Cardinality.ICEBERG: (Match.MATCHED,),
        }[self.cardinality]
        return not self.duplicates_allowed and any(clause.match in checked_kinds for clause in self.clauses)

    def __str__(self) -> str:
        """Return the lines of EXPLAIN: the condition with its keys, the clauses, the new columns and the generated columns."""
        lines = [f"{self.operation} {self.table}"]
        if self.on is not None:
            lines.append(f"  ON {self.on.text}")
            lines += [f"    key {'.'.join(key.path)} {key.op} {key.source}" for key in self.on.keys]
        lines += [f"  {clause.describe(has_source=self.source is not None)}" for clause in self.clauses]
        if self.new_schema is not None:
            lines += [f"  new column {column}" for column in added_or_changed_columns(self.old_schema, self.new_schema)]
        if self.source_rows is SourceRows.ALL:
            lines.append("  every source row is inserted")
        lines += [f"  generated {column} = {expression}" for column, expression in self.rules.generated.items()]
        return "\n".join(lines)


def needed_columns(plan: RowPlan) -> frozenset[str] | None:
    """Return the target columns that a statement reads from target rows.

    These are the columns that ON or a clause for target rows uses, or that an UPDATE keeps. Return None if they are uncertain because of a
    subquery, a nondeterministic function, an ambiguous name, or text that sqlglot cannot parse.
    """
    used_columns = _columns_used_for_target_rows(plan)
    if used_columns is None:
        return None
    return used_columns.union(*(_kept_columns(clause, plan.old_schema) for clause in plan.clauses if clause.effect is Effect.UPDATE))


def only_kept_columns(plan: RowPlan) -> frozenset[str]:
    """Return the target columns that every UPDATE keeps, and that no condition, value, constraint or generated column uses.

    The values of these columns do not influence the statement. The result is empty if the used columns are uncertain, or if the statement
    changes the schema.
    """
    updates = [clause for clause in plan.clauses if clause.effect is Effect.UPDATE]
    used_columns = _columns_used_for_target_rows(plan)
    if not updates or used_columns is None or plan.new_schema is not None or any(update.keeps_fields for update in updates):
        return frozenset()
    kept_columns = set.intersection(*(_kept_columns(update, plan.schema) for update in updates)) - used_columns
    rule_texts = [*(check.expression for check in plan.rules.checks), *plan.rules.generated.values()]
    columns_of_rules = [_names_in(text, plan.schema.names) for text in rule_texts]
    if None in columns_of_rules:
        return frozenset()
    names_in_rules = {name.lower() for names in (plan.rules.generated, *filter(None, columns_of_rules)) for name in names}
    return frozenset(name for name in kept_columns if name.lower() not in names_in_rules)


def _names_in(text: str, columns: Sequence[str]) -> set[str] | None:
    """Return the parts of all names in an expression of a rule. None if it may use columns that sqlglot does not see.

    Args:
        text: The SQL text of the expression.
        columns: The names of all columns of the table.
    """
    tree = parse(text)
    column_references = None if tree is None else references(tree, text)
    if tree is None or column_references is None or may_hide_column(tree, text, column_references, columns):
        return None
    return {part for reference in column_references for part in reference.parts}


def _columns_used_for_target_rows(plan: RowPlan) -> frozenset[str] | None:
    """Return the target columns that ON or a clause for target rows uses, or None if they are uncertain (see `needed_columns`)."""
    clauses = (clause for clause in plan.clauses if clause.match is not Match.NOT_MATCHED)
    texts = [*([] if plan.on is None else [plan.on.text]), *chain.from_iterable(map(_texts_of, clauses))]
    used_columns = [_target_columns(plan, text) for text in texts]
    return None if None in used_columns else frozenset[str]().union(*filter(None, used_columns))


def needed_source_columns(plan: RowPlan) -> frozenset[str] | None:
    """Return the source columns that the ON condition or a clause of a MERGE uses, or None if they are uncertain (see `needed_columns`)."""
    assert plan.on is not None and plan.source is not None
    used_columns = [_columns_of(plan.source, plan, text) for text in (plan.on.text, *chain.from_iterable(map(_texts_of, plan.clauses)))]
    return None if None in used_columns else frozenset[str]().union(*filter(None, used_columns))


def _kept_columns(update: Clause, schema: Struct) -> set[str]:
    """Return the columns that keep all or part of their old value in an updated row."""
    return {name for name in schema.names if update.keeps_fields or name not in update.values}


def is_upsert(plan: RowPlan) -> bool:
    """Return whether each source row becomes the same new row, whether or not it matches a target row.

    Such a plan has one UPDATE and one INSERT, both without a condition. Both assign the same source values to all columns.
    """
    updates, inserts = plan.of(Match.MATCHED), plan.of(Match.NOT_MATCHED)
    if len(updates) != 1 or len(inserts) != 1 or len(plan.clauses) != 2:
        return False
    update, insert = updates[0], inserts[0]
    # An UPDATE that keeps fields depends on the target row.
    if update.condition is not None or insert.condition is not None or update.effect is not Effect.UPDATE or update.keeps_fields:
        return False
    has_all_columns = {*insert.values, *plan.rules.generated} >= set(plan.schema.names)
    return dict(update.values) == dict(insert.values) and has_all_columns and _uses_only_source_columns(plan, insert)


def keys_decide(plan: RowPlan) -> bool:
    """Return whether a MERGE whose ON condition compares only keys has to read nothing but the positions of matching target rows."""
    if plan.duplicates_allowed and plan.source_rows is not SourceRows.UNMATCHED:
        return not plan.of(Match.NOT_MATCHED_BY_SOURCE)
    return is_upsert(plan) or source_decides(plan)


def source_decides(plan: RowPlan) -> bool:
    """Return whether the clauses use only source columns, so that a MERGE needs to read only the ON columns of target rows.

    Each UPDATE must also assign every column, and the plan must have no WHEN NOT MATCHED BY SOURCE clause.
    """
    if plan.of(Match.NOT_MATCHED_BY_SOURCE) or not all(_uses_only_source_columns(plan, clause) for clause in plan.clauses):
        return False
    updates = [clause for clause in plan.clauses if clause.effect is Effect.UPDATE]
    return all(not clause.keeps_fields and set(clause.values) >= set(plan.schema.names) for clause in updates)


def _uses_only_source_columns(plan: RowPlan, clause: Clause) -> bool:
    """Return whether it is certain that the condition and the values of a clause do not use target columns."""
    return all(_target_columns(plan, text) == set() for text in _texts_of(clause))


def inserts_keys(plan: RowPlan) -> bool:
    """Return whether it is certain that each inserted row has the keys of its source row, in the columns that the ON condition compares.

    Casts are ignored, so the caller must also compare the types of keys, values and columns.
    """
    assert plan.on is not None
    inserts = plan.of(Match.NOT_MATCHED)
    if len(inserts) != 1 or inserts[0].condition is not None:
        return False
    inserted_keys = [(key.source, inserts[0].values.get(key.column, "")) for key in plan.on.keys]
    return all(key == inserted or _is_same_source_column(plan, key, inserted) for key, inserted in inserted_keys)


def _is_same_source_column(plan: RowPlan, first: str, second: str) -> bool:
    """Return whether it is certain that two expressions are the same column of the source."""
    column = _source_column(plan, first)
    return column is not None and column == _source_column(plan, second)


def _source_column(plan: RowPlan, text: str) -> str | None:
    """Return the source column whose value an expression is, perhaps in a cast, or None for any other expression."""
    tree = parse(text)
    column_references = None if tree is None else references(tree, text)
    is_column = isinstance(tree.this if isinstance(tree, exp.Cast) else tree, exp.Column)
    if not is_column or column_references is None or len(column_references) != 1:
        return None
    sides = [side for side in (plan.target, plan.source) if side is not None]
    resolved = resolve(column_references[0].parts, sides)
    return resolved.column if resolved is not None and resolved.side is plan.source and resolved.field_count == 0 else None


def values_of_all(plan: RowPlan) -> Mapping[str, str] | None:
    """Return the values that all clauses assign, or None if the clauses assign different values or no clause writes rows."""
    clause_values = [dict(clause.values) for clause in plan.clauses if clause.effect is not Effect.DELETE]
    return clause_values[0] if clause_values and all(values == clause_values[0] for values in clause_values) else None


def _texts_of(clause: Clause) -> list[str]:
    """Return the SQL texts of a clause: the condition, if the clause has one, and the values."""
    return [*([] if clause.condition is None else [clause.condition]), *clause.values.values()]


def _target_columns(plan: RowPlan, text: str) -> set[str] | None:
    """Return the target columns that an expression uses, or None if the columns are uncertain."""
    return _columns_of(plan.target, plan, text)


def _columns_of(side: Side, plan: RowPlan, text: str) -> set[str] | None:
    """Return the columns of one side, the target or the source, that an expression uses, or None if the columns are uncertain."""
    tree = parse(text)
    if tree is None or has_query(tree) or nondeterministic_function(text):
        return None
    column_references = references(tree, text)
    sides = [side for side in (plan.target, plan.source) if side is not None]
    if column_references is None or may_hide_column(tree, text, column_references, [name for side in sides for name in side.columns]):
        return None
    resolved_references = [resolve(reference.parts, sides) for reference in column_references]
    if None in resolved_references:  # an unknown or ambiguous name
        return None
    return {resolved.column for resolved in resolved_references if resolved is not None and resolved.side is side}
