"""Predicates of tests: comparisons, IN lists, LIKE and IS NULL over columns, functions of columns, and literals."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, tzinfo
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from rowmerge.plan.bounds import bounds
from rowmerge.plan.bounds.bounds import INTEGERS, PRECISION, ColumnBounds, Verdict
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.expressions.conditions import COMPARISON_TREES, MIRRORED
from rowmerge.plan.predicates.bound_functions import constant_bounds
from rowmerge.plan.predicates.condition_context import ConditionContext
from rowmerge.plan.predicates.literals import Constant, ExactNumber, FloatNumber, Moment, Null, constant
from rowmerge.plan.predicates.operands import Operand, operand_of, timestamp_of_date
from rowmerge.plan.predicates.positions import locate_list_members, locate_literal
from rowmerge.plan.predicates.strict_expressions import strict_operands
from rowmerge.table.metadata.schema import DataType, Decimal, Primitive

Evaluate = Callable[[FileBounds], Verdict]
OPERATORS = {**COMPARISON_TREES, exp.NEQ: "<>", exp.NullSafeNEQ: "not <=>"}
_MIRRORED = {**MIRRORED, "<>": "<>", "not <=>": "not <=>"}
_NEGATED = {"<>": "=", "not <=>": "<=>", ">": "<=", ">=": "<"}
_EVALUATIONS = {"=": bounds.equal, "<=>": bounds.null_safe_equal, "<": bounds.less, "<=": bounds.less_or_equal}
_NUMBER_COMPARISONS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_STRING = Primitive("string")


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

    def negated(self) -> Predicate:
        """Return the negation (NOT) of the condition."""
        return replace(self, evaluate=lambda files: self.evaluate(files).negated())


UNKNOWN = Predicate(lambda files: Verdict(files.for_all_files(True), files.for_all_files(True)))
"""The predicate of a condition that may be true and may be false in every file."""


def constant_predicate(value: bool | None) -> Predicate:
    """Return the predicate of a condition with the same result for every row. `value`: the result, or None for NULL."""
    return Predicate(lambda files: Verdict(files.for_all_files(value is True), files.for_all_files(value is False)), is_exact=True)


def combined(predicates: Sequence[Predicate], combine: Callable[[Verdict, Verdict], Verdict]) -> Predicate:
    """Return the AND or the OR of predicates.

    Args:
        predicates: The predicates, at least one.
        combine: The function that combines two verdicts.
    """
    columns = frozenset[str]().union(*(predicate.columns for predicate in predicates))
    is_exact = all(predicate.is_exact for predicate in predicates)
    return Predicate(lambda files: reduce(combine, (predicate.evaluate(files) for predicate in predicates)), columns, is_exact)


def _operand_predicate(operand: Operand, evaluate: Callable[[ColumnBounds], Verdict], *, certain: bool = True) -> Predicate:
    """Return the predicate of a condition on one operand. It is exact if the verdict certainly is the result for all rows of a file.

    `evaluate`: the function that returns the verdict for each file. `certain`: whether the verdict is certain for a file in which all rows
    have the same value, as in a partition. For `LIKE 'ab_c%'`, it is not certain, because only the prefix `ab` is tested.
    """
    return Predicate(lambda files: evaluate(operand.bounds(files)), operand.columns, certain and operand.is_exact)


def strict_predicate(nodes: Iterable[exp.Expr], context: ConditionContext) -> Predicate:
    """Return the predicate of a condition that is NULL if a column in it is NULL, and otherwise unknown.

    Args:
        nodes: The operands of the condition.
        context: The condition.
    """
    operands = strict_operands(nodes, context)
    if not operands:
        return UNKNOWN

    def evaluate(files: FileBounds) -> Verdict:
        has_values = reduce(pc.and_, (operand.bounds(files).has_values for operand in operands))
        return Verdict(has_values, has_values)

    return Predicate(evaluate, frozenset[str]().union(*(operand.columns for operand in operands)))


def comparison(op: str, left_node: exp.Expr, right_node: exp.Expr, context: ConditionContext) -> Predicate:
    """Return the predicate of a comparison between operands and literals.

    Args:
        op: The operator.
        left_node: The syntax tree of the left operand.
        right_node: The syntax tree of the right operand.
        context: The condition that contains the comparison.
    """
    left_literal, right_literal = constant(left_node), constant(right_node)
    predicate = None
    if left_literal is not None and right_literal is not None:
        predicate = _literal_comparison(op, left_literal, right_literal, context.zone)
    elif right_literal is not None:
        first = operand_of(left_node, context)
        predicate = None if first is None else _operand_comparison(first, op, right_literal, context)
    elif left_literal is not None:
        second = operand_of(right_node, context)
        predicate = None if second is None else _operand_comparison(second, _MIRRORED[op], left_literal, context)
    else:
        first, second = operand_of(left_node, context), operand_of(right_node, context)
        predicate = None if first is None or second is None else _operands_comparison(first, op, second)
    if predicate is not None:
        return predicate
    return UNKNOWN if op in ("<=>", "not <=>") else strict_predicate((left_node, right_node), context)


def _operand_comparison(operand: Operand, op: str, literal: Constant, context: ConditionContext) -> Predicate | None:
    """Return the predicate of `operand op literal`, or None if Spark may use a different order than that of the bounds."""
    if op in _NEGATED:
        predicate = _operand_comparison(operand, _NEGATED[op], literal, context)
        return None if predicate is None else predicate.negated()
    if isinstance(literal, Null):
        return _operand_predicate(operand, bounds.is_null) if op == "<=>" else constant_predicate(None)
    if isinstance(literal, Moment) and operand.type == Primitive("date"):
        operand = timestamp_of_date(operand, context.zone, ntz=literal.ntz)
    position = locate_literal(literal, operand.type, context.zone) if operand.is_comparable else None
    if position is None:
        return None
    return _operand_predicate(operand, lambda column: _EVALUATIONS[op](column, position), certain=not position.is_approximate)


def _operands_comparison(first: Operand, op: str, second: Operand) -> Predicate | None:
    """Return the predicate of a comparison of two operands in the same row, or None if their types or orders differ."""
    if op in _NEGATED:
        predicate = _operands_comparison(first, _NEGATED[op], second)
        return None if predicate is None else predicate.negated()
    if _order_of(first.type) != _order_of(second.type) or not (first.is_comparable and second.is_comparable):
        return None

    def evaluate(files: FileBounds) -> Verdict:
        return bounds.compare_columns(first.bounds(files), op, second.bounds(files))

    return Predicate(evaluate, first.columns | second.columns)


def _order_of(type_: DataType) -> object:
    """Return a key that is equal for types whose values Spark compares with each other as with their bounds."""
    if isinstance(type_, Primitive) and type_.name in INTEGERS:
        return "integer"
    return "double" if type_ in (Primitive("float"), Primitive("double")) else type_


def _literal_comparison(op: str, first: Constant, second: Constant, zone: tzinfo | None) -> Predicate | None:
    """Return the predicate of a comparison of two literals, as in `1 = 1`, or None if the result may depend on settings."""
    if isinstance(first, Null) or isinstance(second, Null):
        if op not in ("<=>", "not <=>"):
            return constant_predicate(None)
        return constant_predicate((first == second) == (op == "<=>"))
    if op in _NEGATED:
        predicate = _literal_comparison(_NEGATED[op], first, second, zone)
        return None if predicate is None else predicate.negated()
    if isinstance(first, ExactNumber) and isinstance(second, ExactNumber):
        return constant_predicate(_NUMBER_COMPARISONS["=" if op == "<=>" else op](first.value, second.value))
    if isinstance(first, str) and isinstance(second, str):
        result = _strings_are_equal(first, second) if op in ("=", "<=>") else None
    else:
        result = _compare_in_type_of_left(op, first, second, zone)
        if result is None and op in ("=", "<=>"):
            result = _compare_in_type_of_left(op, second, first, zone)
    return None if result is None else constant_predicate(result)


def _strings_are_equal(first: str, second: str) -> bool | None:
    """Return whether two literals are equal in all collations, or None if they are equal only in some."""
    if first == second:
        return True
    # A session can have another collation, which may ignore case, accents and spaces at the end.
    is_plain = all(text.isascii() and text.isprintable() for text in (first, second))
    return False if is_plain and first.lower().rstrip() != second.lower().rstrip() else None


def _compare_in_type_of_left(op: str, first: Constant, second: Constant, zone: tzinfo | None) -> bool | None:
    """Return the result of a comparison of two literals as values of the type of the first one, or None if it is unknown."""
    type_ = _type_of(first)
    if type_ is None:
        return None
    value, position = locate_literal(first, type_, zone), locate_literal(second, type_, zone)
    if value is None or position is None or value.is_between or value.is_approximate or position.is_approximate:
        return None
    verdict = _EVALUATIONS[op](constant_bounds(value.floor, 1), position)
    return bool(verdict.may_be_true[0].as_py())


def _type_of(literal: Constant) -> DataType | None:
    """Return the type of a literal, or None for a string, NULL or a float."""
    match literal:
        case bool():
            return Primitive("boolean")
        case ExactNumber(integer=True):
            return Primitive("long")
        case ExactNumber() if literal.digits + literal.scale <= PRECISION:
            return Decimal(max(literal.digits + literal.scale, 1), literal.scale)
        case FloatNumber(single=False):
            return Primitive("double")
        case Moment():
            return Primitive("timestamp_ntz" if literal.ntz else "timestamp")
        case date():
            return Primitive("date")
    return None


def in_list(node: exp.In, context: ConditionContext) -> Predicate:
    """Return the predicate of `operand IN (literals)`.

    A literal can have a different type than the operand. So each member is replaced by the equal value of the operand's type, if any. The
    list (1.0, 1.5, 2.0) has the integers 1 and 2. If a member is not a literal, or if its comparison in Spark may differ, the predicate
    only tests whether the operand has values.

    Args:
        node: The syntax tree of the test.
        context: The condition that contains the test.
    """
    constants = [constant(member) for member in node.expressions]
    literals = [literal for literal in constants if literal is not None]
    predicate = None
    if literals and len(literals) == len(constants):  # `constant` returns None for a member that is not a literal
        predicate = in_literals(node.this, literals, context)
    if predicate is not None:
        return predicate
    return strict_predicate([node.this], context) if node.expressions else UNKNOWN  # a subquery can have no rows


def in_literals(node: exp.Expr, literals: Sequence[Constant], context: ConditionContext) -> Predicate | None:
    """Return the predicate of `operand IN (literals)`, or None if the comparison with a member in Spark may differ.

    Args:
        node: The syntax tree of the operand.
        literals: The members of the list.
        context: The condition that contains the test.
    """
    members = [literal for literal in literals if literal != Null()]
    has_null = len(members) < len(literals)
    if constant(node) is not None:
        return _literal_in_literals(node, literals, context)
    operand = operand_of(node, context)
    if operand is None or not operand.is_comparable:
        return None
    if not members:
        return constant_predicate(None)  # `column IN (NULL)` is NULL for every row
    positions = locate_list_members(members, operand.type, context.zone)
    if positions is None:
        return None
    # 1.5 lies between two integers (its floor 1 and its ceiling 2) and equals no row. Any other member is its own floor.
    values = [position.floor for position in positions if not position.is_between]
    return in_values(operand, pa.array(values, positions[0].floor.type), has_null=has_null)


def in_values(operand: Operand, values: pa.Array, *, has_null: bool = False) -> Predicate:
    """Return the predicate of `operand IN (values)`.

    Args:
        operand: The operand.
        values: The members of the list except NULL, in the operand's comparison type.
        has_null: Whether NULL is a member of the list.
    """
    distinct_values = pc.unique(values)
    return _operand_predicate(operand, lambda column: bounds.in_list(column, distinct_values, has_null=has_null))


def _literal_in_literals(node: exp.Expr, literals: Sequence[Constant], context: ConditionContext) -> Predicate | None:
    """Return the predicate of a literal in a list of literals of the same kind, or None if the result may depend on settings."""
    literal = constant(node)
    if isinstance(literal, Null):
        return constant_predicate(None)
    if literal is None or any(type(member) not in (type(literal), Null) for member in literals):
        return None
    comparisons = [_literal_comparison("=", literal, member, context.zone) for member in literals]
    certain_comparisons = [predicate for predicate in comparisons if predicate is not None]
    return combined(certain_comparisons, Verdict.or_) if comparisons and None not in comparisons else None


def like(node: exp.Like, context: ConditionContext) -> Predicate:
    """Return the predicate of `operand LIKE pattern`. For other operands, it only tests whether they have values.

    Only the prefix before the first wildcard is tested: `ab` for the pattern `ab_c%`. LIKE with ESCAPE is another node, and UNKNOWN.

    Args:
        node: The syntax tree of the test.
        context: The condition that contains the test.
    """
    operand, pattern = operand_of(node.this, context), constant(node.expression)
    if operand is None or not operand.is_comparable or operand.type != _STRING or not isinstance(pattern, str):
        return strict_predicate((node.this, node.expression), context)
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    if prefix == pattern:  # `ab` has no wildcard
        return _operand_comparison(operand, "=", pattern, context) or UNKNOWN
    if pattern[len(prefix) :].strip("%") == "":  # `ab%` matches every string with the prefix
        return _operand_predicate(operand, lambda column: bounds.starts_with(column, prefix))

    def evaluate_pattern(column: ColumnBounds) -> Verdict:
        # A string with the prefix `ab` may not match `ab_c%`, so the condition may be false in every file with values.
        return replace(bounds.starts_with(column, prefix), may_be_false=column.has_values)

    return _operand_predicate(operand, evaluate_pattern, certain=False)


def starts_with(node: exp.StartsWith, context: ConditionContext) -> Predicate:
    """Return the predicate of `startswith(operand, prefix)`. For other operands, it only tests whether they have values.

    Args:
        node: The syntax tree of the test.
        context: The condition that contains the test.
    """
    operand, prefix = operand_of(node.this, context), constant(node.expression)
    if operand is None or not operand.is_comparable or operand.type != _STRING or not isinstance(prefix, str):
        return strict_predicate((node.this, node.expression), context)
    return _operand_predicate(operand, lambda column: bounds.starts_with(column, prefix))
