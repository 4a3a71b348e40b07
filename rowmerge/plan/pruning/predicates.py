"""Convert conditions on the columns of one table to predicates that are evaluated with the bounds of files."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import Token, TokenType, exp

from rowmerge.plan.expressions.column_refs import has_column_outside_tree, parse, references, tokens_of
from rowmerge.plan.expressions.conditions import COMPARISON_TREES, MIRRORED, Side, resolve
from rowmerge.plan.pruning import bounds
from rowmerge.plan.pruning.bounds import ColumnBounds, Verdict, comparable
from rowmerge.plan.pruning.file_bounds import FileBounds
from rowmerge.plan.pruning.literals import Constant, ExactNumber, Null, constant
from rowmerge.plan.pruning.positions import locate_list_members, locate_literal
from rowmerge.plan.pruning.time_zones import zone_of
from rowmerge.table.metadata.schema import Field, Primitive, Struct

Evaluate = Callable[[FileBounds], Verdict]
_MAX_DEPTH = 100
"""The maximum depth of the syntax tree of a condition. A condition with a deeper tree is UNKNOWN."""
_SUPPORTED_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The arguments of syntax tree nodes that the conversion reads. A node with any other argument is UNKNOWN."""
_OPERATORS = {**COMPARISON_TREES, exp.NEQ: "<>", exp.NullSafeNEQ: "not <=>"}
_MIRRORED = {**MIRRORED, "<>": "<>", "not <=>": "not <=>"}
_NEGATED = {"<>": "=", "not <=>": "<=>", ">": "<=", ">=": "<"}
_EVALUATIONS = {"=": bounds.equal, "<=>": bounds.null_safe_equal, "<": bounds.less, "<=": bounds.less_or_equal}
_NUMBER_COMPARISONS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Predicate:
    """A condition that can be evaluated with the bounds of each file in a listing.

    `evaluate`: the function that returns for each file whether the condition may be true and may be false for its rows (Verdict).
    `columns`: the names of the columns whose bounds it reads. `is_exact`: whether the verdict is certain, and the condition uses only
    partition columns. It then has the same result for all rows of a file, so a DELETE can remove the file without reading it.
    """

    evaluate: Evaluate
    columns: frozenset[str] = frozenset()
    is_exact: bool = False


@dataclass(frozen=True)
class _PredicateContext:
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

    def field(self, node: exp.Expr) -> Field | None:
        """Return the top-level column that an operand refers to, or None for any other operand."""
        node = node.unnest()
        column_references = references(node, self.text) if isinstance(node, exp.Column) else None
        if not column_references:
            return None
        resolved = resolve(column_references[0].parts, (self.side,), case_sensitive=self.case_sensitive)
        return None if resolved is None or resolved.field_count else self.schema.find(resolved.column, case_sensitive=True)


UNKNOWN = Predicate(lambda files: Verdict(files.for_all_files(True), files.for_all_files(True)))
"""The predicate of a condition that may be true and may be false in every file."""


def to_predicate(
    text: str,
    side: Side,
    schema: Struct,
    partition_columns: Collection[str],
    *,
    case_sensitive: bool = False,
    time_zone: str | None = None,
) -> Predicate:
    """Convert a SQL condition to a predicate that is evaluated with the bounds of files.

    Args:
        text: A SQL condition on columns of `side`.
        side: The table's alias and column names, by which the condition refers to its columns.
        schema: The columns of the table.
        partition_columns: The names of the table's partition columns.
        case_sensitive: Whether the names in the condition are case-sensitive.
        time_zone: The name of the session's time zone, or None if it is unknown or if Spark may have other rules for it than Python.

    Returns:
        The predicate, or UNKNOWN, which does not exclude any file, if the meaning of the condition in Spark is unclear.
    """
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or tokens is None or any(_is_ambiguous(token, text) for token in tokens):
        return UNKNOWN
    # For the condition `trunc(d, unit) = d`, sqlglot's tree contains the keyword UNIT, but Spark reads the column `unit` if there is one.
    if has_column_outside_tree(text, tokens, tree_references=references(tree, text) or (), columns=side.columns):
        return UNKNOWN
    return _predicate(tree, _PredicateContext(text, side, schema, frozenset(partition_columns), case_sensitive, zone_of(time_zone)))


def _is_ambiguous(token: Token, text: str) -> bool:
    """Return whether Spark and sqlglot may parse a token differently."""
    token_text = text[token.start : token.end + 1]
    if token.token_type is TokenType.STRING:
        # Escapes and doubled quotes mean different things under different settings and versions of Spark.
        return token_text[1:-1] != token.text or "\\" in token_text
    # sqlglot drops the length of CAST('a' AS CHAR(3)).
    return token_text.upper() in ("CHAR", "CHARACTER", "VARCHAR")


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Return the AND of all predicates. The AND of no predicates is true."""
    return _combined([_constant_predicate(True), *predicates], Verdict.and_)


def _predicate(node: exp.Expr, context: _PredicateContext, depth: int = 0) -> Predicate:
    """Return the predicate of a condition. `depth`: the number of nodes above `node` in the syntax tree."""
    node = node.unnest()
    if depth > _MAX_DEPTH or any(value for name, value in node.args.items() if name not in _SUPPORTED_ARGUMENTS):
        return UNKNOWN
    match node:
        case exp.And() | exp.Or():
            operands = [_predicate(operand, context, depth + 1) for operand in node.flatten()]
            return _combined(operands, Verdict.and_ if isinstance(node, exp.And) else Verdict.or_)
        case exp.Not():
            return _negated(_predicate(node.this, context, depth + 1))
    predicate = _test_without_negate(node, context)
    # sqlglot parses `x NOT LIKE 'a%'` as a LIKE with the argument `negate`, not as a NOT.
    return _negated(predicate) if node.args.get("negate") else predicate


def _test_without_negate(node: exp.Expr, context: _PredicateContext) -> Predicate:
    """Return the predicate of a condition that is not an AND, OR or NOT, or UNKNOWN if the condition is not supported.

    The argument `negate` of the node is ignored: `x NOT LIKE 'a%'` has the predicate of `x LIKE 'a%'`, which the caller negates.
    """
    match node:
        case exp.Boolean():
            return _constant_predicate(bool(node.this))
        case exp.Null():
            return _constant_predicate(None)
        case exp.Column():
            return _comparison("=", node, exp.true(), context)
        case exp.Is(expression=exp.Null() | exp.Boolean()):
            return _comparison("<=>", node.this, node.expression, context)
        case exp.Between(args={"low": low, "high": high}):
            range_tests = [_comparison(">=", node.this, low, context), _comparison("<=", node.this, high, context)]
            return _combined(range_tests, Verdict.and_)
        case exp.In():
            return _in_list(node, context)
        case exp.Like():
            return _like(node, context)
    op = _OPERATORS.get(type(node))
    return UNKNOWN if op is None else _comparison(op, node.this, node.expression, context)


def _constant_predicate(value: bool | None) -> Predicate:
    """Return the predicate of a condition with the same result for every row. `value`: the result, or None for NULL."""
    return Predicate(lambda files: Verdict(files.for_all_files(value is True), files.for_all_files(value is False)), is_exact=True)


def _combined(predicates: Sequence[Predicate], combine: Callable[[Verdict, Verdict], Verdict]) -> Predicate:
    """Return the AND or the OR of predicates. `combine`: the function that combines two verdicts."""
    columns = frozenset[str]().union(*(predicate.columns for predicate in predicates))
    is_exact = all(predicate.is_exact for predicate in predicates)
    return Predicate(lambda files: reduce(combine, (predicate.evaluate(files) for predicate in predicates)), columns, is_exact)


def _negated(predicate: Predicate) -> Predicate:
    """Return the negation (NOT) of a predicate."""
    return replace(predicate, evaluate=lambda files: predicate.evaluate(files).negated())


def _column_predicate(
    field: Field, context: _PredicateContext, evaluate: Callable[[ColumnBounds], Verdict], *, certain: bool = True
) -> Predicate:
    """Return the predicate of a condition on one column. It is exact if the verdict certainly is the result for all rows of a file.

    `evaluate`: the function that returns the verdict for each file. `certain`: whether the verdict is certain for a file in which all rows
    have the same value, as in a partition. For `LIKE 'ab_c%'`, it is not certain, because only the prefix `ab` is tested.
    """
    is_partition = field.name in context.partition_columns
    # The partition value NaN has no bounds, so its verdict is unknown.
    may_be_nan = field.type in (Primitive("float"), Primitive("double"))
    is_exact = certain and is_partition and not may_be_nan
    return Predicate(lambda files: evaluate(files.of_column(field, is_partition)), frozenset({field.name}), is_exact)


def _comparison(op: str, left_operand: exp.Expr, right_operand: exp.Expr, context: _PredicateContext) -> Predicate:
    """Return the predicate of a comparison between a column and a literal, in either order, or between two numbers."""
    left_field, right_field = context.field(left_operand), context.field(right_operand)
    left_literal, right_literal = constant(left_operand), constant(right_operand)
    if left_field is not None and right_literal is not None:
        return _column_comparison(left_field, op, right_literal, context)
    if right_field is not None and left_literal is not None:
        return _column_comparison(right_field, _MIRRORED[op], left_literal, context)
    # Generated SQL often has conditions like `1 = 1`.
    if isinstance(left_literal, ExactNumber) and isinstance(right_literal, ExactNumber) and op in _NUMBER_COMPARISONS:
        return _constant_predicate(_NUMBER_COMPARISONS[op](left_literal.value, right_literal.value))
    return UNKNOWN


def _column_comparison(field: Field, op: str, literal: Constant, context: _PredicateContext) -> Predicate:
    """Return the predicate of `column op literal`, or UNKNOWN if Spark may use a different order than that of the column's bounds."""
    if op in _NEGATED:
        return _negated(_column_comparison(field, _NEGATED[op], literal, context))
    if isinstance(literal, Null):
        return _column_predicate(field, context, bounds.is_null) if op == "<=>" else _constant_predicate(None)
    position = locate_literal(literal, field.type, context.zone) if comparable(field) else None
    if position is None:
        return UNKNOWN
    return _column_predicate(field, context, lambda column: _EVALUATIONS[op](column, position), certain=not position.is_approximate)


def _in_list(node: exp.In, context: _PredicateContext) -> Predicate:
    """Return the predicate of `column IN (literals)`.

    A literal can have a different type than the column. So each member is replaced by the equal value of the column's type, if any. The
    list (1.0, 1.5, 2.0) has the integers 1 and 2. Returns UNKNOWN if a member is not a literal, or if its comparison in Spark may differ.
    """
    field, constants = context.field(node.this), [constant(member) for member in node.expressions]
    literals = [literal for literal in constants if literal is not None]
    has_other_members = len(literals) < len(constants)  # `constant` returns None for a member that is not a literal
    if field is None or not comparable(field) or has_other_members:
        return UNKNOWN
    members = [literal for literal in literals if literal != Null()]
    if not members:
        return _constant_predicate(None)  # `column IN (NULL)` is NULL for every row
    positions = locate_list_members(members, field.type, context.zone)
    if positions is None:
        return UNKNOWN
    has_null = len(members) < len(literals)
    # 1.5 lies between two integers (its floor 1 and its ceiling 2) and equals no row. Any other member is its own floor.
    values = [position.floor for position in positions if not position.is_between]
    distinct_values = pc.unique(pa.array(values, positions[0].floor.type))
    return _column_predicate(field, context, lambda column: bounds.in_list(column, distinct_values, has_null=has_null))


def _like(node: exp.Like, context: _PredicateContext) -> Predicate:
    """Return the predicate of `column LIKE pattern`, or UNKNOWN for any other operands.

    Only the prefix before the first wildcard is tested: `ab` for the pattern `ab_c%`. LIKE with ESCAPE is another node, and UNKNOWN.
    """
    field, pattern = context.field(node.this), constant(node.expression)
    if field is None or not comparable(field) or field.type != Primitive("string") or not isinstance(pattern, str):
        return UNKNOWN
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    if prefix == pattern:  # `ab` has no wildcard
        return _column_comparison(field, "=", pattern, context)
    if pattern[len(prefix) :].strip("%") == "":  # `ab%` matches every string with the prefix
        return _column_predicate(field, context, lambda column: bounds.starts_with(column, prefix))

    def evaluate_pattern(column: ColumnBounds) -> Verdict:
        # A string with the prefix `ab` may not match `ab_c%`, so the condition may be false in every file with values.
        return replace(bounds.starts_with(column, prefix), may_be_false=column.has_values)

    return _column_predicate(field, context, evaluate_pattern, certain=False)
