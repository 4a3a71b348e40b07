"""Convert conditions on the columns of one table to predicates that are evaluated with the bounds of files."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow.compute as pc
from sqlglot import Token, TokenType, exp

from rowmerge.plan.bounds.bounds import INTEGERS, Verdict
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.bounds.time_zones import zone_of
from rowmerge.plan.expressions.column_refs import has_column_outside_tree, has_substitution, parse, references, tokens_of
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.comparisons import (
    OPERATORS,
    UNKNOWN,
    Predicate,
    combined,
    comparison,
    constant_predicate,
    in_list,
    in_literals,
    in_values,
    like,
    starts_with,
    strict_predicate,
)
from rowmerge.plan.predicates.condition_context import ConditionContext
from rowmerge.plan.predicates.literals import ExactNumber, Null, constant
from rowmerge.plan.predicates.long_lists import LongList, divide_long_list
from rowmerge.plan.predicates.operands import operand_of
from rowmerge.table.metadata.schema import Primitive, Struct

_MAX_DEPTH = 100
"""The maximum depth of the syntax tree of a condition. A condition with a deeper tree is UNKNOWN."""
_SUPPORTED_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The arguments of syntax tree nodes that the conversion reads. A node with any other argument is UNKNOWN."""
_BRANCHES = (exp.Case, exp.If)


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
    long_list = divide_long_list(text)
    if long_list is not None:
        text = long_list.text
    tree, tokens = parse(text), tokens_of(text)
    if tree is None or tokens is None or has_substitution(text) or any(_is_ambiguous(token, text) for token in tokens):
        return UNKNOWN
    # For the condition `trunc(d, unit) = d`, sqlglot's tree contains the keyword UNIT, but Spark reads the column `unit` if there is one.
    if has_column_outside_tree(text, tokens, tree_references=references(tree, text) or (), columns=side.columns):
        return UNKNOWN
    context = ConditionContext(text, side, schema, frozenset(partition_columns), case_sensitive, zone_of(time_zone))
    try:
        return _predicate(tree, context) if long_list is None else _in_long_list(tree, long_list, context)
    except RecursionError:  # an operand is nested too deeply
        return UNKNOWN


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
    return combined([constant_predicate(True), *predicates], Verdict.and_)


def _in_long_list(tree: exp.Expr, long_list: LongList, context: ConditionContext) -> Predicate:
    """Return the predicate of `operand IN (list)` for a list that is not part of the syntax tree."""
    test = tree.this if isinstance(tree, exp.Not) else tree
    if not isinstance(test, exp.In) or any(value for name, value in test.args.items() if name not in _SUPPORTED_ARGUMENTS):
        return UNKNOWN
    operand = operand_of(test.this, context)
    values = None if operand is None or not operand.is_comparable else long_list.values(operand.type)
    if operand is not None and values is not None:
        predicate = in_values(operand, values)
    else:
        predicate = in_literals(test.this, long_list.literals(), context) or strict_predicate([test.this], context)
    return predicate if test is tree else predicate.negated()


def _predicate(node: exp.Expr, context: ConditionContext, depth: int = 0) -> Predicate:
    """Return the predicate of a condition. `depth`: the number of nodes above `node` in the syntax tree."""
    node = node.unnest()
    if depth > _MAX_DEPTH:
        return UNKNOWN
    if isinstance(node, _BRANCHES):
        cases = _cases(node)
        return UNKNOWN if cases is None else _case_predicate(cases, context, depth)
    if any(value for name, value in node.args.items() if name not in _SUPPORTED_ARGUMENTS):
        return UNKNOWN
    match node:
        case exp.And() | exp.Or():
            operands = [_predicate(operand, context, depth + 1) for operand in node.flatten()]
            return combined(operands, Verdict.and_ if isinstance(node, exp.And) else Verdict.or_)
        case exp.Not():
            return _predicate(node.this, context, depth + 1).negated()
        case exp.Is(this=operand, expression=exp.Boolean()) if not _is_value(operand, context):
            return _is_boolean(_predicate(operand, context, depth + 1), bool(node.expression.this))
    predicate = _of_branches(node, context, depth) or _test_without_negate(node, context)
    # sqlglot parses `x NOT LIKE 'a%'` as a LIKE with the argument `negate`, not as a NOT.
    return predicate.negated() if node.args.get("negate") else predicate


def _is_value(node: exp.Expr, context: ConditionContext) -> bool:
    """Return whether an expression is a literal or an operand, rather than a condition."""
    return constant(node) is not None or operand_of(node, context) is not None


def _is_boolean(predicate: Predicate, value: bool) -> Predicate:
    """Return the predicate of `condition IS TRUE` or `condition IS FALSE`, which is never NULL."""

    def evaluate(files: FileBounds) -> Verdict:
        verdict = predicate.evaluate(files)
        # A condition that is not true may be false or NULL.
        return Verdict(verdict.may_be_true if value else verdict.may_be_false, files.for_all_files(True))

    return Predicate(evaluate, predicate.columns)


def _test_without_negate(node: exp.Expr, context: ConditionContext) -> Predicate:
    """Return the predicate of a condition that is not an AND, OR or NOT, or UNKNOWN if the condition is not supported.

    The argument `negate` of the node is ignored: `x NOT LIKE 'a%'` has the predicate of `x LIKE 'a%'`, which the caller negates.
    """
    match node:
        case exp.Boolean():
            return constant_predicate(bool(node.this))
        case exp.Null():
            return constant_predicate(None)
        case exp.Column() | exp.Dot() | exp.Coalesce():
            return comparison("=", node, exp.true(), context)
        case exp.Is(expression=exp.Null() | exp.Boolean()):
            return comparison("<=>", node.this, node.expression, context)
        case exp.Between(args={"low": low, "high": high}):
            range_tests = [comparison(">=", node.this, low, context), comparison("<=", node.this, high, context)]
            return combined(range_tests, Verdict.and_)
        case exp.In():
            return in_list(node, context)
        case exp.Like():
            return like(node, context)
        case exp.StartsWith():
            return starts_with(node, context)
        case exp.Anonymous(this="isnull" | "isnotnull", expressions=[operand]):
            is_null = comparison("<=>", operand, exp.null(), context)
            return is_null if node.name == "isnull" else is_null.negated()
        case exp.RegexpLike() | exp.Contains() | exp.EndsWith() | exp.ILike():
            return strict_predicate((node.this, node.expression), context)
    op = OPERATORS.get(type(node))
    return UNKNOWN if op is None else comparison(op, node.this, node.expression, context)


def _of_branches(node: exp.Expr, context: ConditionContext, depth: int) -> Predicate | None:
    """Return the predicate of a test of a CASE or IF, as in `CASE WHEN x > 5 THEN 'a' ELSE 'b' END = 'a'`, or None for any other test.

    The test of each branch applies to the rows for which the condition of the branch is true. So a file may have a match if both may be
    true. Rows of the last branch, after ELSE, are in any file.
    """
    for name in ("this", "expression"):
        operand = node.args.get(name)
        branches = operand.unnest() if isinstance(operand, exp.Expr) else None
        if not isinstance(branches, _BRANCHES):
            continue
        cases = _cases(branches)
        if cases is None or len({_kind(value, context) for _, value in cases} - {"null"}) != 1:
            return UNKNOWN
        if any(_kind(value, context) is None for _, value in cases):
            return UNKNOWN
        tests = [(condition, type(node)(**{**node.args, name: value, "negate": None})) for condition, value in cases]
        return _case_predicate(tests, context, depth)
    return None


def _cases(node: exp.Expr) -> list[tuple[exp.Expr | None, exp.Expr]] | None:
    """Return the conditions and the values of a CASE or IF, or None if it has another form. The last condition is None, for ELSE."""
    branches = list(node.args.get("ifs") or []) if isinstance(node, exp.Case) else [node]
    default = (node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")) or exp.null()
    subject = node.this if isinstance(node, exp.Case) else None
    cases: list[tuple[exp.Expr | None, exp.Expr]] = []
    for branch in branches:
        value = branch.args.get("true")
        if value is None:
            return None
        condition = branch.this if subject is None else exp.EQ(this=subject.copy(), expression=branch.this)
        cases.append((condition, value))
    return [*cases, (None, default)]


def _kind(value: exp.Expr, context: ConditionContext) -> str | None:
    """Return the kind of a branch's value, or None if Spark may convert the value to another type because of the other branches."""
    literal = constant(value)
    match literal:
        case Null():
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case ExactNumber(integer=True):
            return "integer"
    operand = operand_of(value, context) if literal is None else None
    if operand is None or not isinstance(operand.type, Primitive):
        return None
    return "integer" if operand.type.name in INTEGERS else operand.type.name


def _case_predicate(cases: Iterable[tuple[exp.Expr | None, exp.Expr]], context: ConditionContext, depth: int) -> Predicate:
    """Return the predicate of conditions of which each row fulfils the one whose case applies to it."""
    always = constant_predicate(True)
    predicates = [
        (always if condition is None else _predicate(condition, context, depth + 1), _predicate(test, context, depth + 1))
        for condition, test in cases
    ]

    def evaluate(files: FileBounds) -> Verdict:
        may_be_true = may_be_false = files.for_all_files(False)
        for condition, test in predicates:
            applies, verdict = condition.evaluate(files).may_be_true, test.evaluate(files)
            may_be_true = pc.or_(may_be_true, pc.and_(applies, verdict.may_be_true))
            may_be_false = pc.or_(may_be_false, pc.and_(applies, verdict.may_be_false))
        return Verdict(may_be_true, may_be_false)

    columns = frozenset[str]().union(*(predicate.columns for pair in predicates for predicate in pair))
    return Predicate(evaluate, columns)
