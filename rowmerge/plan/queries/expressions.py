"""Expressions whose columns are known: each column belongs to one relation of the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark

from rowmerge.plan.expressions.column_refs import has_column_outside_tree, parse, references, tokens_of
from rowmerge.plan.expressions.conditions import can_be_evaluated_apart
from rowmerge.plan.expressions.sides import Side, resolve
from rowmerge.table.metadata.schema import backquote

_BARE_CALLS = frozenset(Spark.Parser.NO_PAREN_FUNCTIONS)
_FUNCTIONS_BEFORE_VARIABLES = frozenset({"user", "current_user", "session_user", "grouping__id"})
"""Names without parentheses that Spark takes for functions, also if there are variables with these names."""


@dataclass(frozen=True)
class Column:
    """A column of a relation. `relation`: the id of the relation, which is unique in the statement."""

    relation: str
    name: str


@dataclass(frozen=True)
class Expression:
    """A deterministic SQL expression as its parts in text order: verbatim text, and columns in place of their names."""

    parts: tuple[str | Column, ...]

    @cached_property
    def columns(self) -> frozenset[Column]:
        return frozenset(part for part in self.parts if isinstance(part, Column))

    @cached_property
    def relations(self) -> frozenset[str]:
        """The ids of the relations whose columns the expression uses."""
        return frozenset(column.relation for column in self.columns)

    @property
    def text(self) -> str:
        """The SQL text, in which each column is qualified by the id of its relation."""
        return "".join(part if isinstance(part, str) else f"{backquote(part.relation)}.{backquote(part.name)}" for part in self.parts)

    @property
    def only_column(self) -> Column | None:
        """The column of which the expression consists, or None."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], Column) else None

    def substituted(self, replacement: Callable[[Column], Expression | None]) -> Expression | None:
        """Return the expression with each column replaced by an expression, or None if a column has no replacement."""
        parts: list[str | Column] = []
        for part in self.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            new = replacement(part)
            if new is None:
                return None
            parts += new.parts if new.only_column else ("(", *new.parts, ")")
        return Expression(tuple(parts))


def name_key(name: str, case_sensitive: bool) -> str:
    """Return the same text for equal names. `case_sensitive`: whether names that differ only in case are different."""
    return name if case_sensitive else name.lower()


def column_expression(relation: str, name: str) -> Expression:
    """Return the expression that consists of one column. `relation`: the id of the relation."""
    return Expression((Column(relation, name),))


def disjunction(alternatives: Sequence[Sequence[Expression]]) -> Expression:
    """Return the OR of the ANDs of conditions. Each alternative has at least one condition."""
    parts: list[str | Column] = []
    for number, conditions in enumerate(alternatives):
        parts.append(") OR (" if number else "(")
        for index, condition in enumerate(conditions):
            parts += [" AND (" if index else "(", *condition.parts, ")"]
    return Expression((*parts, ")"))


@dataclass(frozen=True)
class Names:
    """The columns to which the expressions of a SELECT block can refer.

    `sides`: the visible relations with their ids. `merged`: for each column after USING, by `name_key`, the column to which its
    unqualified name refers. None if it is the value of several columns. `other_aliases`: the lower-case aliases of relations with unknown
    columns. `has_unknown`: whether there is a relation with unknown columns or column names.
    """

    sides: tuple[tuple[Side, str], ...]
    merged: dict[str, Column | None]
    other_aliases: frozenset[str] = frozenset()
    has_unknown: bool = False
    case_sensitive: bool = False

    @cached_property
    def all(self) -> frozenset[str]:
        """The names of all columns and relations by `name_key`."""
        names = {side.alias for side, _ in self.sides}.union(*(side.columns for side, _ in self.sides))
        return frozenset(name_key(name, self.case_sensitive) for name in names)

    def column(self, parts: Sequence[str]) -> tuple[Column, int] | None:
        """Return the column to which a dotted name refers, and the number of its parts up to the column. None if it is uncertain."""
        if len(parts) == 1 and name_key(parts[0], self.case_sensitive) in self.merged:
            column = self.merged[name_key(parts[0], self.case_sensitive)]
            return None if column is None else (column, 1)
        if len(parts) == 1:
            columns = self._columns.get(name_key(parts[0], self.case_sensitive), [])
            return (columns[0], 1) if len(columns) == 1 else None
        if len(parts) > 1 and parts[0].lower() in self.other_aliases:
            return None
        resolved = resolve(parts, [side for side, _ in self.sides], case_sensitive=self.case_sensitive)
        if resolved is None or (self.has_unknown and resolved.field_count and not resolved.qualifier_size):
            return None
        ids = [relation for side, relation in self.sides if side is resolved.side]
        return Column(ids[0], resolved.column), resolved.qualifier_size + 1

    @cached_property
    def _columns(self) -> dict[str, list[Column]]:
        """The visible columns by `name_key`."""
        columns: dict[str, list[Column]] = {}
        for side, relation in self.sides:
            for name in side.columns:
                columns.setdefault(name_key(name, self.case_sensitive), []).append(Column(relation, name))
        return columns

    def is_variable(self, parts: Sequence[str]) -> bool:
        """Return whether a dotted name that is no column can only be a variable of the session: `x`, `session.x`, `system.session.x`."""
        prefix = tuple(part.lower() for part in parts[:-1])
        if self.has_unknown or prefix not in ((), ("session",), ("system", "session")):
            return False
        if not prefix and parts[0].lower() in _FUNCTIONS_BEFORE_VARIABLES:
            return False
        aliases = {side.alias.lower() for side, _ in self.sides}
        columns = {column.lower() for side, _ in self.sides for column in side.columns}
        return aliases.isdisjoint(prefix) and columns.isdisjoint(prefix or (parts[0].lower(),))


def _has_bare_call(tokens: Sequence[Token]) -> bool:
    """Return whether an expression contains `current_date` or a similar name without parentheses, which can be a column for Spark."""
    following = [*(token.token_type for token in tokens[1:]), None]
    return any(
        token.token_type in _BARE_CALLS and next_type is not TokenType.L_PAREN for token, next_type in zip(tokens, following, strict=True)
    )


def to_expression(text: str, names: Names, *, allows_variables: bool = False) -> Expression | None:
    """Return an expression with its columns, or None if its meaning apart from the query is uncertain.

    Expressions with subqueries, aggregates, windows, stars or nondeterministic functions have no meaning apart from the query.

    Args:
        text: The SQL text of the expression.
        names: The columns to which it can refer.
        allows_variables: Whether a name that is no column is a variable of the session. It gets its full qualifier.
    """
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or tokens is None or not can_be_evaluated_apart(tree, text) or _has_bare_call(tokens):
        return None
    column_references = references(tree, text)
    if column_references is None:
        return None
    # sqlglot takes `unit` in `trunc(d, unit)` for a keyword and `"a"` for a string. Spark may read columns.
    if any(has_column_outside_tree(text, tokens, column_references, side.columns) for side, _ in names.sides):
        return None
    parts: list[str | Column] = []
    offset = 0
    for reference in sorted(column_references, key=lambda reference: reference.start):
        resolved = names.column(reference.parts)
        if resolved is None and allows_variables and names.is_variable(reference.parts):
            # With the full qualifier, the name is no column in any query.
            parts.append(f"{text[offset : reference.start]}system.session.{text[reference.starts[-1] : reference.end]}")
            offset = reference.end
            continue
        if resolved is None or reference.start < offset:
            return None
        column, part_count = resolved
        parts += [text[offset : reference.start], column]
        offset = reference.ends[part_count - 1]
    parts.append(text[offset:])
    return Expression(tuple(part for part in parts if part != ""))
