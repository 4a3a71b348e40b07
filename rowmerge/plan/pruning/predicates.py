"""Conditions over one table's columns, understood as far as bounds can judge them: SQL text to Predicate."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import TokenType, exp

from rowmerge.plan.expressions.column_refs import parse, references, tokens_of, unread_names
from rowmerge.plan.expressions.conditions import MIRRORED, Side, resolve
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import Extent, Listing, Verdict, comparable
from rowmerge.plan.pruning.literals import Constant, Exact, Null, Point, constant, place, place_all
from rowmerge.table.metadata.schema import Field, Primitive, Struct

Judge = Callable[[Listing], Verdict]
_DEEPEST = 100
"""Conditions nested deeper than this are not looked into."""
_UNDERSTOOD = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""Parts of a tree that are looked at; a node with anything more means more than is looked at."""
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "not <=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {**MIRRORED, "<>": "<>", "not <=>": "not <=>"}
_ORDER = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Predicate:
    """A condition that a file listing is judged by, and the columns it looks at.

    `exact`: only partition columns are looked at, and the verdict leaves nothing open: every file is wholly in or wholly out.
    """

    judge: Judge
    columns: frozenset[str] = frozenset()
    exact: bool = False


@dataclass(frozen=True)
class _Table:
    """The columns that a condition is over; `text` is the condition's."""

    text: str
    side: Side
    schema: Struct
    partition_columns: frozenset[str]
    case_sensitive: bool

    def field(self, node: exp.Expr) -> Field | None:
        """The top-level column that an operand is, when it is nothing else."""
        node = node.unnest()
        found = references(node, self.text) if isinstance(node, exp.Column) else None
        resolved = resolve(found[0].parts, (self.side,), case_sensitive=self.case_sensitive) if found else None
        if resolved is None or resolved.fields:
            return None
        return self.schema.find(resolved.column, case_sensitive=True)


UNKNOWN = Predicate(lambda listing: Verdict(listing.constantly(True), listing.constantly(True)))


def understand(text: str, side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False) -> Predicate:
    """What a condition says about files; text that is not understood may be true or false anywhere."""
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or tokens is None:
        return UNKNOWN
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type is TokenType.STRING:
            # Escapes and doubled quotes mean different things under different settings and versions of Spark.
            if written[1:-1] != token.text or "\\" in written:
                return UNKNOWN
        elif written.upper() in ("CHAR", "CHARACTER", "VARCHAR"):
            return UNKNOWN  # sqlglot forgets the length in CAST('a' AS CHAR(3))
    hidden = {name.lower() for name in unread_names(text, tokens, references(tree, text) or ())}
    if any(column.lower() in hidden for column in side.columns):
        return UNKNOWN
    return _predicate(tree, _Table(text, side, schema, frozenset(partition_columns), case_sensitive))


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """All of them together; nothing at all is true."""
    return _combined([_constantly(True), *predicates], Verdict.both)


def _predicate(node: exp.Expr, table: _Table, depth: int = 0) -> Predicate:
    node = node.unnest()
    if depth > _DEEPEST or any(value for name, value in node.args.items() if name not in _UNDERSTOOD):
        return UNKNOWN
    # sqlglot parses `x NOT LIKE 'a%'` as a LIKE with the argument `negate`.
    if node.args.get("negate"):
        return _negated(_predicate_of(node, table, depth))
    return _predicate_of(node, table, depth)


def _predicate_of(node: exp.Expr, table: _Table, depth: int) -> Predicate:
    match node:
        case exp.And() | exp.Or():
            parts = [_predicate(part, table, depth + 1) for part in node.flatten()]
            return _combined(parts, Verdict.both if isinstance(node, exp.And) else Verdict.either)
        case exp.Not():
            return _negated(_predicate(node.this, table, depth + 1))
        case exp.Boolean():
            return _constantly(bool(node.this))
        case exp.Null():
            return _constantly(None)
        case exp.Column():
            return _comparison("=", node, exp.true(), table)
        case exp.Is():
            return _is(node, table)
        case exp.Between():
            low, high = _comparison(">=", node.this, node.args["low"], table), _comparison("<=", node.this, node.args["high"], table)
            return _combined([low, high], Verdict.both)
        case exp.In():
            return _in(node, table)
        case exp.Like():
            return _like(node, table)
    op = _OPERATORS.get(type(node))
    return UNKNOWN if op is None else _comparison(op, node.this, node.expression, table)


def _constantly(value: bool | None) -> Predicate:
    """A condition that is the same for every row; None is NULL."""
    return Predicate(lambda listing: Verdict(listing.constantly(value is True), listing.constantly(value is False)), exact=True)


def _combined(parts: Sequence[Predicate], how: Callable[[Verdict, Verdict], Verdict]) -> Predicate:
    columns = frozenset[str]().union(*(part.columns for part in parts))
    return Predicate(lambda listing: reduce(how, (part.judge(listing) for part in parts)), columns, all(part.exact for part in parts))


def _negated(part: Predicate) -> Predicate:
    return Predicate(lambda listing: part.judge(listing).negated(), part.columns, part.exact)


def _about(field: Field, table: _Table, judge: Callable[[Extent], Verdict], *, certain: bool = True) -> Predicate:
    """A condition on one column. NaN in a partition leaves open what a file holds, so floats are never exact."""
    partition = field.name in table.partition_columns
    exact = certain and partition and field.type not in (Primitive("float"), Primitive("double"))
    return Predicate(lambda listing: judge(listing.extent(field, partition)), frozenset({field.name}), exact)


def _comparison(op: str, left: exp.Expr, right: exp.Expr, table: _Table) -> Predicate:
    field, value = table.field(left), constant(right)
    if field is None and value is None:
        op, field, value = _MIRRORED[op], table.field(right), constant(left)
    if field is None:
        return _between_literals(op, constant(left), constant(right))
    if value is None:
        return UNKNOWN
    match op:
        case "<>":
            return _negated(_comparison("=", left, right, table))
        case "not <=>":
            return _negated(_comparison("<=>", left, right, table))
        case "<=>" if isinstance(value, Null):
            return _about(field, table, bounds.is_null)
    if isinstance(value, Null):
        return _constantly(None)
    point = place(value, field.type) if comparable(field) else None
    return UNKNOWN if point is None else _about(field, table, _test(op, point), certain=not point.vague)


def _test(op: str, point: Point) -> Callable[[Extent], Verdict]:
    match op:
        case "=":
            return lambda column: bounds.equal(column, point)
        case "<=>":
            return lambda column: bounds.null_safe(bounds.equal(column, point), column)
        case "<":
            return lambda column: bounds.less(column, point)
        case "<=":
            return lambda column: bounds.less_or_equal(column, point)
        case ">":
            return lambda column: bounds.less_or_equal(column, point).negated()
    return lambda column: bounds.less(column, point).negated()


def _between_literals(op: str, left: Constant | None, right: Constant | None) -> Predicate:
    """`1 = 1` and its like, as generated SQL has them."""
    if isinstance(left, Exact) and isinstance(right, Exact) and op in _ORDER:
        return _constantly(_ORDER[op](left.value, right.value))
    return UNKNOWN


def _is(node: exp.Is, table: _Table) -> Predicate:
    field = table.field(node.this)
    if field is not None and isinstance(node.expression, exp.Null):
        return _about(field, table, bounds.is_null)
    if field is not None and isinstance(node.expression, exp.Boolean):
        return _comparison("<=>", node.this, node.expression, table)
    return UNKNOWN


def _in(node: exp.In, table: _Table) -> Predicate:
    field, values = table.field(node.this), [constant(member) for member in node.expressions]
    if field is None or not comparable(field) or None in values:
        return UNKNOWN
    given = [value for value in values if value is not None and not isinstance(value, Null)]
    if not given:
        return _constantly(None)
    points = place_all(given, field.type)
    if points is None:
        return UNKNOWN
    members = pc.unique(pa.array([point.below for point in points if point.exact], points[0].below.type))
    if len(given) == len(values):
        return _about(field, table, lambda column: bounds.among(column, members))
    # With a NULL in the list, what is not found is NULL.
    return _about(field, table, lambda column: replace(bounds.among(column, members), false=pc.and_(column.has_values, False)))


def _like(node: exp.Like, table: _Table) -> Predicate:
    field, pattern = table.field(node.this), constant(node.expression)
    if field is None or not comparable(field) or field.type != Primitive("string") or not isinstance(pattern, str):
        return UNKNOWN
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    if prefix == pattern:
        return _comparison("=", node.this, node.expression, table)
    if pattern[len(prefix) :].strip("%") == "":
        return _about(field, table, lambda column: bounds.starts_with(column, prefix))
    return _about(field, table, lambda column: replace(bounds.starts_with(column, prefix), false=column.has_values), certain=False)
