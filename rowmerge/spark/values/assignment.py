"""SQL of values as columns store them: cast by the rules of ANSI store assignment, and checked for range and length."""

from __future__ import annotations

import json
from functools import partial

from rowmerge.errors import TypeMismatch
from rowmerge.plan.lengths import Lengths, NestedLengths, TextLength, lengths
from rowmerge.plan.schema_evolution import evolved_type, with_missing_fields
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.spark.failures import STOP_PREFIX, Stop
from rowmerge.spark.values.nested import SqlValue, has_fixed_length, reshape_value, transform_parts
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Field, Fixed, Struct, sql_name, stored_types


def store_assignment_sql(
    value: SqlValue,
    column: Field,
    table: str,
    *,
    old_value: SqlValue | None = None,
    adds_fields: bool = False,
    parses_strings: bool = False,
) -> str:
    """Return SQL for a value as a column stores it, by the rules of ANSI store assignment.

    An overflow, a string that is too long, and a string that is no value of the column's type stop the statement at run time.

    Args:
        value: The value and its type before the assignment.
        column: The column that stores the value.
        table: The name of the table, for messages.
        old_value: The column's old value, from which a struct takes fields that it lacks. Without old value, these fields are NULL.
        adds_fields: Whether a struct may lack fields of the column, as under schema evolution.
        parses_strings: Whether a string is assignable to types that Spark can parse from a text.

    Raises:
        TypeMismatch: The column cannot store values of this type (see `why_not_assignable`).
    """
    value_sql, type_ = value
    if value_sql == "null":
        return value_sql
    if type_ != column.type or old_value is not None:
        _check_assignable(type_, column, table, adds_fields=adds_fields, parses_strings=parses_strings)
        value_sql = reshape_value(value, column.type, partial(_cast, column, table), old_value=old_value)
    if declared_type := column.metadata.get(CHAR_VARCHAR):
        value_sql = _with_char_lengths(value_sql, column.type, lengths(str(declared_type)), column, table)
    (stored_column,) = stored_types(Struct((column,)))
    return _with_fixed_lengths(value_sql, stored_column.type, column, table)


def _check_assignable(type_: DataType, column: Field, table: str, *, adds_fields: bool, parses_strings: bool) -> None:
    """Raise TypeMismatch if a column cannot store values of a type."""
    complete_type = with_missing_fields(type_, column.type) if adds_fields else type_
    if reason := why_not_assignable(complete_type, column.type, casts_strings=parses_strings):
        problem = f"Cannot store a value of type {sql_name(type_)} in the column `{column.name}` of {table}, which is {column.sql_type}"
        raise TypeMismatch(f"{problem}: {reason}. {_advice(type_, column, adds_fields=adds_fields)}.")


def evolved_value_sql(value: SqlValue, column: Field, table: str) -> str:
    """Return SQL for a column's old value in the column's type after a change of the table's schema. New fields of structs are NULL.

    Args:
        value: The old value, with the type of the column before the change.
        column: The column after the change.
        table: The name of the table, for messages.
    """
    return reshape_value(value, column.type, partial(_cast, column, table))


def stop_sql(why: Stop, table: str, violated: str, value_sql: str) -> str:
    """Return SQL that stops the statement with a message that `rowmerge.spark.failures` parses.

    Args:
        why: The kind of the error.
        table: The name of the table.
        violated: The rule or the column that the value violates, as text.
        value_sql: SQL for the value or the row that the error shows.
    """
    # Hexadecimal digits cannot be mistaken for Spark's own words around the message.
    details = json.dumps([why.value, table, violated]).encode().hex()
    return f"raise_error(concat('{STOP_PREFIX} {details} ', hex(coalesce(cast({value_sql} as string), 'NULL')), '.'))"


def _advice(type_: DataType, column: Field, *, adds_fields: bool) -> str:
    """Return advice for a value that a column cannot store: a cast, or schema evolution if its struct would then be assignable."""
    cast = f"Cast it to {column.sql_type} in the statement"
    if adds_fields or why_not_assignable(with_missing_fields(type_, column.type), evolved_type(column.type, type_)):
        return cast
    return f"{cast}, or let its fields go by name and new ones be added: write MERGE or INSERT WITH SCHEMA EVOLUTION"


def _cast(column: Field, table: str, value_sql: str, source: DataType, target: DataType) -> str:
    """Return SQL that casts a column's value, or a value nested in it, and stops the statement if it is out of range."""
    type_name = sql_name(target)
    if is_lossless(source, target):
        return f"cast({value_sql} as {type_name})"
    violated = column if target == column.type else Field(column.name, target)
    stop = _stop_at_column(Stop.OUT_OF_RANGE, violated, table, value_sql)
    return f"coalesce(try_cast({value_sql} as {type_name}), if({value_sql} is null, null, {stop}))"


def _with_char_lengths(value_sql: str, type_: DataType, limits: Lengths | None, column: Field, table: str, depth: int = 0) -> str:
    """Return SQL that fits strings into char(n) and varchar(n), as in the SQL standard. `depth`: see `transform_parts`.

    A char is padded with spaces. Trailing spaces beyond the length are cut. Other characters beyond it stop the statement.
    """
    if isinstance(limits, TextLength):
        too_long = _stop_at_column(Stop.TOO_LONG, column, table, value_sql)
        length = limits.characters
        cut_sql = f"if(char_length(rtrim({value_sql})) > {length}, {too_long}, substring({value_sql}, 1, {length}))"
        return f"rpad({cut_sql}, {length}, ' ')" if limits.padded else cut_sql
    if not isinstance(limits, NestedLengths):
        return value_sql

    def fit_part(name: str, part_sql: str, part_type: DataType) -> str:
        return _with_char_lengths(part_sql, part_type, limits.get(name), column, table, depth + 1)

    return transform_parts(value_sql, type_, fit_part, depth)


def _with_fixed_lengths(value_sql: str, type_: DataType, column: Field, table: str, depth: int = 0) -> str:
    """Return SQL that checks each UUID and each binary of fixed length in a value. UUIDs become lower-case, as in a scan.

    `type_`: the type in data files; `depth`: see `transform_parts`.
    """
    if not isinstance(type_, Fixed):
        return transform_parts(
            value_sql, type_, lambda _, sql, part_type: _with_fixed_lengths(sql, part_type, column, table, depth + 1), depth
        )
    violated = f"the column `{column.name}` of {table} ({type_})"
    stop = stop_sql(Stop.WRONG_FORM, table, violated, value_sql if type_.uuid else f"hex({value_sql})")
    normalized_sql = f"lower({value_sql})" if type_.uuid else value_sql
    return f"case when {value_sql} is null then null when {has_fixed_length(value_sql, type_)} then {normalized_sql} else {stop} end"


def _stop_at_column(why: Stop, column: Field, table: str, value_sql: str) -> str:
    """Return SQL that stops the statement at a value that a column cannot store."""
    return stop_sql(why, table, f"the column `{column.name}` of {table} ({column.sql_type})", value_sql)
