"""Resolve the names in a condition: find the columns of its table, and the fields of structs, to which they refer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from sqlglot import exp

from rowmerge.plan.expressions.column_refs import references
from rowmerge.plan.expressions.sides import Side, fields_along, resolve
from rowmerge.table.metadata.schema import Field, Struct


@dataclass(frozen=True)
class ConditionContext:
    """The SQL of a condition (`text`), and the table to whose columns the condition refers.

    `side`: the table's alias and column names, by which the condition refers to the columns. `zone`: the session's time zone, or None if
    it is unknown.
    """

    text: str
    side: Side
    schema: Struct
    partition_columns: frozenset[str]
    case_sensitive: bool
    zone: tzinfo | None

    def path(self, node: exp.Expr) -> tuple[Field, ...] | None:
        """Return the column to which a name refers and the nested fields that it reads from it, or None for any other expression."""
        column = next(node.find_all(exp.Column), None) if isinstance(node, exp.Column | exp.Dot) else None
        column_references = references(column, self.text) if column is not None else None
        if not column_references:
            return None
        parts = column_references[0].parts
        # `s.a` in `s.a.b` is a node of its own, whose reference has all fields.
        if len(parts) != len(list(node.find_all(exp.Identifier))):
            return None
        resolved = resolve(parts, (self.side,), case_sensitive=self.case_sensitive)
        if resolved is None:
            return None
        return fields_along(self.schema, resolved.column, parts[resolved.qualifier_size + 1 :], case_sensitive=self.case_sensitive)
