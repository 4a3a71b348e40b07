"""Errors of statements: their text, their meaning, and the rows that they write."""

from __future__ import annotations

from collections.abc import Sequence

from rowmerge.errors.base import RowmergeError, mark_position, suggest_names


class StatementError(RowmergeError):
    """Raised when the text of a statement is invalid or unsupported.

    Remedy: Correct the text at the position that the message marks.

    `line` and `column` give the position, counted from 1.
    """

    def __init__(self, reason: str, *, text: str = "", line: int = 1, column: int = 1) -> None:
        self.reason, self.text, self.line, self.column = reason, text, line, column
        super().__init__(f"{reason} (line {line}, column {column}){mark_position(text, line, column)}")


class Unparsable(StatementError):
    """Raised when a statement does not follow the grammar.

    Remedy: Correct the statement at the marked position. docs/sql.md lists every form.
    """


class UnsupportedStatement(StatementError):
    """Raised when the engine understands a statement but does not support it.

    Remedy: Write the statement without the construct that the message names.
    """


class PlanError(RowmergeError):
    """Raised when a well-formed statement does not fit the tables that it names.

    Remedy: Correct the statement or change the table, as the message says.
    """


class UnknownColumn(PlanError):
    """Raised when a statement names a column that does not exist where the statement uses it.

    Remedy: Use one of the columns that the message lists, or add the column to the table.

    `candidates` are the existing columns. `where` names the place in which the column was looked up.
    """

    def __init__(self, name: str, candidates: Sequence[str], *, where: str = "", advice: str = "") -> None:
        self.name, self.candidates, self.where = name, tuple(candidates), where
        place = f" in {where}" if where else ""
        super().__init__(f"There is no column `{name}`{place}. {suggest_names(name, candidates)} {advice}".rstrip())


class AmbiguousColumn(PlanError):
    """Raised when more than one table of the statement has a column with this name.

    Remedy: Put the alias of the table before the column.

    `choices` are the columns that the name may mean.
    """

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        self.name, self.choices = name, tuple(choices)
        super().__init__(f"The column `{name}` is ambiguous: it may be {', '.join(choices)}. Put the alias of the table before it.")


class TypeMismatch(PlanError):
    """Raised when a value cannot be stored in its column, or when an expression combines incompatible types.

    Remedy: Cast the value to a type that the message names, or change the type of the column.
    """


class RowError(RowmergeError):
    """Raised when rows of a statement violate a rule. Nothing is written.

    Remedy: Correct or filter these rows in the source, and run the statement again.
    """


class MultipleSourceRowsMatch(RowError):
    """Raised when more than one source row of a MERGE matches the same target row.

    By default, only matches count for which a WHEN MATCHED clause changes the target row. The setting `spark.rowmerge.merge.cardinality`
    selects the stricter rule of Delta Lake or Iceberg.

    Remedy: Make the source unique on the ON condition, for example with `row_number()`. In dbt, set `merge_deduplicate_by`.

    `keys` are some of the duplicate key values, as strings. `duplicates` is the number of affected target rows.
    """

    def __init__(self, table: str, keys: Sequence[str], duplicates: int) -> None:
        self.table, self.keys, self.duplicates = table, tuple(keys), duplicates
        key_list = "; ".join(keys) if keys else "unknown"
        super().__init__(
            f"MERGE INTO {table}: {duplicates} target row(s) are matched by more than one source row. "
            f"Keys: {key_list}. Make the source unique on the ON condition, for example with "
            f"row_number() over (partition by <key> order by <newest> desc) = 1."
        )


class ConstraintViolated(RowError):
    """Raised when rows violate a constraint of the table. Nothing is written.

    Remedy: Correct or filter the rows. Before a new constraint is added, correct or delete the rows in the table that violate it.

    `constraint` is the name and expression of the constraint, `sample` one violating row, shortened. When a statement adds a constraint,
    `existing` is the number of rows in the table that violate it.
    """

    def __init__(self, table: str, constraint: str, sample: str = "", *, existing: int = 0) -> None:
        self.table, self.constraint, self.sample, self.existing = table, constraint, sample, existing
        rows, advice = f"Rows for {table}", "Nothing was written. Correct or filter these rows."
        if existing:
            rows, advice = f"{existing} row(s) of {table}", "Nothing was changed. Correct or delete these rows first."
        example = f" Violating row: {sample}." if sample else ""
        super().__init__(f"{rows} violate the constraint {constraint}.{example} {advice}")


class ConstraintNotFound(PlanError):
    """Raised when a statement drops a constraint that the table does not have.

    Remedy: Name one of the constraints that the message lists, or add IF EXISTS.

    `candidates` are the constraints of the table.
    """

    def __init__(self, table: str, constraint: str, candidates: Sequence[str]) -> None:
        self.table, self.constraint, self.candidates = table, constraint, tuple(candidates)
        suggestion = suggest_names(constraint, candidates) or "The table has no constraints."
        super().__init__(f"{table} has no constraint `{constraint}`. {suggestion} Use an existing name, or add IF EXISTS.")


class ValueOutOfRange(RowError):
    """Raised when a value does not fit the type of its column (ANSI store assignment). Nothing is written.

    Remedy: Correct the value in the source, or widen the type of the column.
    """
