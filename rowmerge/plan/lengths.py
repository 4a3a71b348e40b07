"""The maximum lengths of the strings in a column: char(n) and varchar(n), at any depth of the declared type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowmerge.plan.expressions.column_refs import DIALECT


@dataclass(frozen=True)
class TextLength:
    """The maximum length of a string, in characters. `padded`: whether strings are padded to this length, as in char(n)."""

    characters: int
    padded: bool

    def __str__(self) -> str:
        return f"{'char' if self.padded else 'varchar'}({self.characters})"


@dataclass(frozen=True)
class NestedLengths:
    """The maximum lengths of the strings inside a nested type, by struct field name, or by `element`, `key` and `value`."""

    lengths_by_name: tuple[tuple[str, Lengths], ...]

    def get(self, name: str) -> Lengths | None:
        """Return the maximum lengths in a field, or None if the field has none. The case of the name is ignored."""
        return next((lengths for field, lengths in self.lengths_by_name if field.lower() == name.lower()), None)


Lengths = TextLength | NestedLengths
_CHILD_NAMES = {exp.DataType.Type.ARRAY: ("element",), exp.DataType.Type.MAP: ("key", "value")}
"""The names of the values inside an array or a map, in the order of the type's parameters."""


@lru_cache(maxsize=1024)
def lengths(declared: str) -> Lengths | None:
    """Return the maximum string lengths in a type such as `struct<a: varchar(3)>`.

    Return None if the type has no maximum lengths, or if sqlglot cannot parse it.

    Args:
        declared: The SQL text of the declared type.
    """
    if "char" not in declared.lower():
        return None
    try:
        return _lengths_in_type(exp.DataType.build(declared, dialect=DIALECT))
    except (SqlglotError, RecursionError):
        return None  # Spark or the limit on the nesting depth of types rejects the type


def _lengths_in_type(type_: exp.Expr | None) -> Lengths | None:
    """Return the maximum string lengths in a type that sqlglot has parsed, or None if the type has none."""
    if not isinstance(type_, exp.DataType):
        return None
    parameters = type_.expressions
    if type_.this in (exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR):
        return TextLength(int(parameters[0].name), padded=type_.this is exp.DataType.Type.CHAR) if parameters else None
    if type_.this is exp.DataType.Type.STRUCT:
        return _nested_lengths([(field.name, _lengths_in_type(field.args.get("kind"))) for field in parameters])
    child_names = _CHILD_NAMES.get(type_.this, ())  # no children for all other types, which have no maximum lengths
    return _nested_lengths([(name, _lengths_in_type(child)) for name, child in zip(child_names, parameters, strict=False)])


def _nested_lengths(lengths_by_name: list[tuple[str, Lengths | None]]) -> NestedLengths | None:
    """Return the maximum lengths of the fields that have them, or None if no field does."""
    limited_fields = tuple((name, lengths) for name, lengths in lengths_by_name if lengths is not None)
    return NestedLengths(limited_fields) if limited_fields else None
