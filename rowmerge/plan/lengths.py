"""The maximum lengths of the texts in a column: char(n) and varchar(n), at any depth of its declared type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowmerge.plan.expressions.column_refs import DIALECT


@dataclass(frozen=True)
class TextLength:
    """The maximum length of a text. `padded`: whether it is the exact length, as in char(n), rather than that of varchar(n)."""

    characters: int
    padded: bool

    def __str__(self) -> str:
        return f"{'char' if self.padded else 'varchar'}({self.characters})"


@dataclass(frozen=True)
class NestedLengths:
    """The lengths of the texts inside a nested value, by the name of a struct's field, or by `element`, `key` and `value`."""

    lengths_by_name: tuple[tuple[str, Lengths], ...]

    def get(self, name: str) -> Lengths | None:
        """Return the lengths in a field, without regard to the case of its name, or None."""
        return next((lengths for field, lengths in self.lengths_by_name if field.lower() == name.lower()), None)


Lengths = TextLength | NestedLengths
_CHILD_NAMES = {exp.DataType.Type.ARRAY: ("element",), exp.DataType.Type.MAP: ("key", "value")}
"""The names of the values inside an array and a map, in the order of the type's parameters."""


@lru_cache(maxsize=1024)
def lengths(declared: str) -> Lengths | None:
    """Return the lengths in a declared type such as `struct<a: varchar(3)>`, or None if it has none or sqlglot cannot parse it."""
    if "char" not in declared.lower():
        return None
    try:
        return _lengths_in_type(exp.DataType.build(declared, dialect=DIALECT))
    except (SqlglotError, RecursionError):
        return None  # Spark, or the limit on the depth of types, rejects the type


def _lengths_in_type(type_: exp.Expr | None) -> Lengths | None:
    """Return the lengths in a type that sqlglot has parsed, or None if it has none."""
    if not isinstance(type_, exp.DataType):
        return None
    parameters = type_.expressions
    if type_.this in (exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR):
        return TextLength(int(parameters[0].name), padded=type_.this is exp.DataType.Type.CHAR) if parameters else None
    if type_.this is exp.DataType.Type.STRUCT:
        return _nested_lengths([(field.name, _lengths_in_type(field.args.get("kind"))) for field in parameters])
    child_names = _CHILD_NAMES.get(type_.this, ())  # none for all other types, which have no lengths
    return _nested_lengths([(name, _lengths_in_type(child)) for name, child in zip(child_names, parameters, strict=False)])


def _nested_lengths(lengths_by_name: list[tuple[str, Lengths | None]]) -> NestedLengths | None:
    """Return the lengths of the fields that have any, or None if no field has any."""
    limited_fields = tuple((name, lengths) for name, lengths in lengths_by_name if lengths is not None)
    return NestedLengths(limited_fields) if limited_fields else None
