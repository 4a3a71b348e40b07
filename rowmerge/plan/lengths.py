"""Find out how long the texts of a column may be: char(n) and varchar(n), at any depth of its declared type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from rowmerge.plan.expressions.column_refs import DIALECT


@dataclass(frozen=True)
class Length:
    """A text of at most so many characters; `padded` for char, which has exactly so many."""

    characters: int
    padded: bool

    def __str__(self) -> str:
        return f"{'char' if self.padded else 'varchar'}({self.characters})"


@dataclass(frozen=True)
class Inside:
    """Where inside a value texts have lengths: by the name of a struct's field, else `element`, `key` and `value`."""

    parts: tuple[tuple[str, Lengths], ...]

    def get(self, name: str) -> Lengths | None:
        return next((part for known, part in self.parts if known.lower() == name.lower()), None)


Lengths = Length | Inside


@lru_cache(maxsize=1024)
def lengths(declared: str) -> Lengths | None:
    """Return the lengths in a declared type (`struct<a: varchar(3)>`), None if it has none or cannot be read."""
    if "char" not in declared.lower():
        return None
    try:
        return _lengths(exp.DataType.build(declared, dialect=DIALECT))
    except (SqlglotError, RecursionError):
        return None  # Spark, or the limit of nested types, rejects it


def _lengths(type_: exp.Expr | None) -> Lengths | None:
    if not isinstance(type_, exp.DataType):
        return None
    inner = type_.expressions
    if type_.this in (exp.DataType.Type.CHAR, exp.DataType.Type.VARCHAR):
        padded = type_.this is exp.DataType.Type.CHAR
        return Length(int(inner[0].name), padded) if inner else None
    if type_.this is exp.DataType.Type.STRUCT:
        return _inside([(field.name, _lengths(field.args.get("kind"))) for field in inner])
    names = {exp.DataType.Type.ARRAY: ("element",), exp.DataType.Type.MAP: ("key", "value")}.get(type_.this, ())
    return _inside([(name, _lengths(part)) for name, part in zip(names, inner, strict=False)])


def _inside(parts: list[tuple[str, Lengths | None]]) -> Inside | None:
    limited = tuple((name, part) for name, part in parts if part is not None)
    return Inside(limited) if limited else None
