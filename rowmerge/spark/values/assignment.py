"""SQL for values as columns store them: cast by the rules of ANSI store assignment, and checked for their range and length."""

from __future__ import annotations

import json
from functools import partial

from rowmerge.errors import TypeMismatch
from rowmerge.plan.lengths import Lengths, NestedLengths, TextLength, lengths
from rowmerge.plan.schema_evolution import evolved_type, with_missing_fields
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.spark.failures import STOP_PREFIX, StopReason
from rowmerge.spark.values.nested import SqlValue, has_fixed_length, reshape_value, transform_parts
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Field, Fixed, Struct, sql_name, stored_types


def store_assignment_sql(
    value: SqlValue, column: Field, table: str, *, old_value: SqlValue | None = None, adds_fields: bool = False, casts_strings: bool = False
) -> str:
    """Return SQL for a value as a column stores it, by the rules of ANSI store assignment.

    The SQL is built in three steps. Each step leaves a value that needs no change as it is:

    1. Cast the value to the type of the column. The statement stops at an overflow, or at a string that Spark cannot parse.
    2. Fit strings into char(n) and varchar(n). The statement stops at a string that is too long.
    3. Normalize UUIDs, and stop at an invalid UUID or at bytes of the wrong length.

    Args:
        value: The value and its type before the assignment.
        column: The column that stores the value.
        table: The name of the table, for messages.
        old_value: The column's old value, which supplies the fields that a struct lacks. If it is None, these fields are NULL.
        adds_fields: Whether a struct may lack fields of the column, as under schema evolution.
        casts_strings: Whether a string is assignable to types that Spark can parse from a string.

    Raises:
        TypeMismatch: The column cannot store values of this type (see `why_not_assignable`).
    """
    value_sql, type_ = value
    if value_sql == "null":
        return value_sql  # every type has NULL. NOT NULL is a rule, which `rowmerge.spark.values.rules` applies
    if type_ != column.type or old_value is not None:  # a struct with an old value may need a field of it
        _check_assignable(type_, column, table, adds_fields=adds_fields, casts_strings=casts_strings)
        value_sql = reshape_value(value, column.type, partial(_cast, column, table), old_value=old_value)
    # Spark sees a char(n) or varchar(n) as a string. The metadata of the column has the declared type with the length n.
    if declared_type := column.metadata.get(CHAR_VARCHAR):
        value_sql = _with_char_lengths(value_sql, column.type, lengths(str(declared_type)), column, table)
    # Data files store a UUID and a fixed(n) as bytes of a fixed length. Spark sees a string or a binary value.
    (stored_column,) = stored_types(Struct((column,)))
    return _normalize_fixed_values(value_sql, stored_column.type, column, table)


def _check_assignable(type_: DataType, column: Field, table: str, *, adds_fields: bool, casts_strings: bool) -> None:
    """Raise TypeMismatch if a column cannot store values of a type."""
    complete_type = with_missing_fields(type_, column.type) if adds_fields else type_
    if reason := why_not_assignable(complete_type, column.type, casts_strings=casts_strings):
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


def raise_error_sql(reason: StopReason, table: str, violated: str, value_sql: str) -> str:
    """Return a call to Spark's `raise_error`, which stops the statement with a message that `rowmerge.spark.failures` parses.

    Args:
        reason: Why the statement stops.
        table: The name of the table.
        violated: The constraint that the value violates, or the column that cannot store the value, as text for the error message.
        value_sql: SQL for the value or the row that the error shows.
    """
    # Hexadecimal digits cannot be mistaken for Spark's own words around the message. The value may contain any characters, too.
    details = json.dumps([reason.value, table, violated]).encode().hex()
    return f"raise_error(concat('{STOP_PREFIX} {details} ', hex(coalesce(cast({value_sql} as string), 'NULL')), '.'))"


def _advice(type_: DataType, column: Field, *, adds_fields: bool) -> str:
    """Return advice for a value that a column cannot store: to cast it, or to use schema evolution if that makes the struct assignable."""
    cast = f"Cast it to {column.sql_type} in the statement"
    if adds_fields or why_not_assignable(with_missing_fields(type_, column.type), evolved_type(column.type, type_)):
        return cast
    return f"{cast}, or use MERGE or INSERT WITH SCHEMA EVOLUTION, which matches fields by name and adds new ones"


def _cast(column: Field, table: str, value_sql: str, source: DataType, target: DataType) -> str:
    """Return SQL that casts a column's value, or a part of the value. The SQL stops the statement if the value is out of range."""
    type_name = sql_name(target)
    if is_lossless(source, target):
        return f"cast({value_sql} as {type_name})"
    target_column = column if target == column.type else Field(column.name, target)
    raise_error = _column_error_sql(StopReason.OUT_OF_RANGE, target_column, table, value_sql)
    return f"coalesce(try_cast({value_sql} as {type_name}), if({value_sql} is null, null, {raise_error}))"


def _with_char_lengths(value_sql: str, type_: DataType, limits: Lengths | None, column: Field, table: str, depth: int = 0) -> str:
    """Return SQL that fits each string of a value into char(n) or varchar(n), as in the SQL standard.

    A char is padded with spaces. Trailing spaces beyond the length are removed. Other characters beyond the length stop the statement.
    For example, a value `v` of type array<varchar(3)> becomes `transform(v, item -> if(char_length(rtrim(item)) > 3, raise_error(…),
    substring(item, 1, 3)))`. For an array, a struct or a map, the function calls itself for each part, with the limits of the part.

    `limits`: the lengths in the column's declared type. They are a TextLength for a string, NestedLengths for a type that contains strings,
    or None if the type has no lengths. `depth`: the number of nested values around the value.
    """
    if isinstance(limits, TextLength):
        length = limits.characters
        raise_error = _column_error_sql(StopReason.TOO_LONG, column, table, value_sql)
        cut_sql = f"if(char_length(rtrim({value_sql})) > {length}, {raise_error}, substring({value_sql}, 1, {length}))"
        return f"rpad({cut_sql}, {length}, ' ')" if limits.padded else cut_sql
    if not isinstance(limits, NestedLengths):
        return value_sql

    def fit_part(name: str, part_sql: str, part_type: DataType) -> str:
        return _with_char_lengths(part_sql, part_type, limits.get(name), column, table, depth + 1)

    return transform_parts(value_sql, type_, fit_part, depth)


def _normalize_fixed_values(value_sql: str, type_: DataType, column: Field, table: str, depth: int = 0) -> str:
    """Return SQL for a value with its UUIDs in lower case. The SQL stops the statement at an invalid UUID or at bytes of the wrong length.

    `value_sql`: SQL for a value in which, at any depth, a UUID is a string and a fixed(n) is a binary value. A scan returns each UUID in
    lower case, so the new value must have the same form. `type_`: the type of the value in data files. `depth`: the number of nested values
    around the value (see `transform_parts`).
    """
    if isinstance(type_, Fixed):  # a UUID or a fixed(n)
        reason = StopReason.NO_UUID if type_.uuid else StopReason.WRONG_LENGTH
        shown_sql = value_sql if type_.uuid else f"hex({value_sql})"  # the error shows a UUID as the string, and bytes as digits
        raise_error = raise_error_sql(reason, table, f"the column `{column.name}` of {table} ({type_})", shown_sql)
        new_value = f"lower({value_sql})" if type_.uuid else value_sql
        is_valid = has_fixed_length(value_sql, type_)
        return f"case when {value_sql} is null then null when {is_valid} then {new_value} else {raise_error} end"

    def normalize_part(_: str, part_sql: str, part_type: DataType) -> str:
        return _normalize_fixed_values(part_sql, part_type, column, table, depth + 1)

    return transform_parts(value_sql, type_, normalize_part, depth)


def _column_error_sql(reason: StopReason, column: Field, table: str, value_sql: str) -> str:
    """Return SQL that stops the statement at a value that a column cannot store."""
    return raise_error_sql(reason, table, f"the column `{column.name}` of {table} ({column.sql_type})", value_sql)
