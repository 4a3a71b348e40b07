"""Understand conditions over one table's columns as far as bounds can judge them: SQL text to Predicate."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import may_hide_column, parse, references, tokens_of
from rowmerge.plan.expressions.conditions import COMPARISON_TREES, MIRRORED, Side, resolve
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import Extent, Listing, Verdict, comparable
from rowmerge.plan.pruning.literals import Constant, Exact, Null, constant, locate, locate_all
from rowmerge.table.metadata.schema import Field, Primitive, Struct

Judge = Callable[[Listing], Verdict]
_DEEPEST = 100
"""Conditions nested deeper than this are not looked into."""
_UNDERSTOOD = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""Parts of a tree that are looked at; a node with anything more means more than is looked at."""
_OPERATORS = {**COMPARISON_TREES, exp.NEQ: "<>", exp.NullSafeNEQ: "not <=>"}
_MIRRORED = {**MIRRORED, "<>": "<>", "not <=>": "not <=>"}
_NEGATED = {"<>": "=", "not <=>": "<=>", ">": "<=", ">=": "<"}
_VERDICTS = {"=": bounds.equal, "<=>": bounds.null_safe_equal, "<": bounds.less, "<=": bounds.less_or_equal}
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
        """Return the top-level column of which an operand consists, or None for any other operand."""
        node = node.unnest()
        column_references = references(node, self.text) if isinstance(node, exp.Column) else None
        if not column_references:
            return None
        resolved = resolve(column_references[0].parts, (self.side,), case_sensitive=self.case_sensitive)
        if resolved is None or resolved.fields:
            return None
        return self.schema.find(resolved.column, case_sensitive=True)


UNKNOWN = Predicate(lambda listing: Verdict(listing.constantly(True), listing.constantly(True)))


def understand(text: str, side: Side, schema: Struct, partition_columns: Collection[str], *, case_sensitive: bool = False) -> Predicate:
    """Return the predicate of a condition. A condition that is not understood may be true or false in every file."""
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or tokens is None or any(_is_ambiguous(token, text) for token in tokens):
        return UNKNOWN
    if may_hide_column(text, tokens, references(tree, text) or (), side.columns):
        return UNKNOWN
    return _predicate(tree, _Table(text, side, schema, frozenset(partition_columns), case_sensitive))


def _is_ambiguous(token: Token, text: str) -> bool:
    """Return whether Spark may read a token otherwise than sqlglot does."""
    written = text[token.start : token.end + 1]
    if token.token_type is TokenType.STRING:
        # Escapes and doubled quotes mean different things under different settings and versions of Spark.
        return written[1:-1] != token.text or "\\" in written
    # sqlglot forgets the length in CAST('a' AS CHAR(3)).
    return written.upper() in ("CHAR", "CHARACTER", "VARCHAR")


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Return the AND of all predicates, which is true for none."""
    return _combined([_constantly(True), *predicates], Verdict.both)


def _predicate(node: exp.Expr, table: _Table, depth: int = 0) -> Predicate:
    node = node.unnest()
    if depth > _DEEPEST or any(value for name, value in node.args.items() if name not in _UNDERSTOOD):
        return UNKNOWN
    predicate = _predicate_without_negation(node, table, depth)
    # sqlglot parses `x NOT LIKE 'a%'` as a LIKE with the argument `negate`.
    return _negated(predicate) if node.args.get("negate") else predicate


def _predicate_without_negation(node: exp.Expr, table: _Table, depth: int) -> Predicate:
    """Return the predicate of a condition as if its argument `negate` were not set."""
    match node:
        case exp.And() | exp.Or():
            operands = [_predicate(operand, table, depth + 1) for operand in node.flatten()]
            return _combined(operands, Verdict.both if isinstance(node, exp.And) else Verdict.either)
        case exp.Not():
            return _negated(_predicate(node.this, table, depth + 1))
        case exp.Boolean():
            return _constantly(bool(node.this))
        case exp.Null():
            return _constantly(None)
        case exp.Column():
            return _comparison("=", node, exp.true(), table)
        case exp.Is(expression=exp.Null() | exp.Boolean()):
            return _comparison("<=>", node.this, node.expression, table)
        case exp.Between():
            at_least_low = _comparison(">=", node.this, node.args["low"], table)
            return _combined([at_least_low, _comparison("<=", node.this, node.args["high"], table)], Verdict.both)
        case exp.In():
            return _in(node, table)
        case exp.Like():
            return _like(node, table)
    op = _OPERATORS.get(type(node))
    return UNKNOWN if op is None else _comparison(op, node.this, node.expression, table)


def _constantly(value: bool | None) -> Predicate:
    """Return a condition that is the same for every row. None is NULL."""
    return Predicate(lambda listing: Verdict(listing.constantly(value is True), listing.constantly(value is False)), exact=True)


def _combined(predicates: Sequence[Predicate], combine: Callable[[Verdict, Verdict], Verdict]) -> Predicate:
    columns = frozenset[str]().union(*(predicate.columns for predicate in predicates))
    is_exact = all(predicate.exact for predicate in predicates)
    return Predicate(lambda listing: reduce(combine, (predicate.judge(listing) for predicate in predicates)), columns, is_exact)


def _negated(predicate: Predicate) -> Predicate:
    return replace(predicate, judge=lambda listing: predicate.judge(listing).negated())


def _about(field: Field, table: _Table, judge: Callable[[Extent], Verdict], *, certain: bool = True) -> Predicate:
    """Return a condition on one column. NaN in a partition leaves open what a file holds, so floats are never exact."""
    partition = field.name in table.partition_columns
    exact = certain and partition and field.type not in (Primitive("float"), Primitive("double"))
    return Predicate(lambda listing: judge(listing.extent(field, partition)), frozenset({field.name}), exact)


def _comparison(op: str, left: exp.Expr, right: exp.Expr, table: _Table) -> Predicate:
    """Return the predicate of a comparison between a column and a literal, in either order, or between two numbers."""
    left_field, right_field = table.field(left), table.field(right)
    left_literal, right_literal = constant(left), constant(right)
    if left_field is not None and right_literal is not None:
        return _column_comparison(left_field, op, right_literal, table)
    if right_field is not None and left_literal is not None:
        return _column_comparison(right_field, _MIRRORED[op], left_literal, table)
    if isinstance(left_literal, Exact) and isinstance(right_literal, Exact) and op in _ORDER:
        return _constantly(_ORDER[op](left_literal.value, right_literal.value))  # generated SQL has `1 = 1` and its like
    return UNKNOWN


def _column_comparison(field: Field, op: str, literal: Constant, table: _Table) -> Predicate:
    if op in _NEGATED:
        return _negated(_column_comparison(field, _NEGATED[op], literal, table))
    if isinstance(literal, Null):
        return _about(field, table, bounds.is_null) if op == "<=>" else _constantly(None)
    point = locate(literal, field.type) if comparable(field) else None
    if point is None:
        return UNKNOWN
    return _about(field, table, lambda column: _VERDICTS[op](column, point), certain=not point.vague)


def _in(node: exp.In, table: _Table) -> Predicate:
    """Return the predicate of `column IN (literals)`; it is UNKNOWN if a member is no literal."""
    field, literals = table.field(node.this), [constant(member) for member in node.expressions]
    if field is None or not comparable(field) or None in literals:
        return UNKNOWN
    values = [literal for literal in literals if literal is not None and not isinstance(literal, Null)]
    if not values:
        return _constantly(None)
    points = locate_all(values, field.type)
    if points is None:
        return UNKNOWN
    members = pc.unique(pa.array([point.below for point in points if not point.between], points[0].below.type))
    has_null = len(values) < len(literals)
    return _about(field, table, lambda column: bounds.among(column, members, has_null=has_null))


def _like(node: exp.Like, table: _Table) -> Predicate:
    field, pattern = table.field(node.this), constant(node.expression)
    if field is None or not comparable(field) or field.type != Primitive("string") or not isinstance(pattern, str):
        return UNKNOWN
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    if prefix == pattern:
        return _column_comparison(field, "=", pattern, table)
    if pattern[len(prefix) :].strip("%") == "":
        return _about(field, table, lambda column: bounds.starts_with(column, prefix))
    return _about(field, table, lambda column: replace(bounds.starts_with(column, prefix), false=column.has_values), certain=False)
