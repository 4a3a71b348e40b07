"""Operands without columns in conditions, such as `current_date() - 7`. Spark evaluates them, because only their values exclude files.

The statement itself must use the same values. So the time functions in its conditions are replaced by one fixed time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set

from sqlglot import Token, TokenType, exp

from rowmerge.commands.queries import Clause, Join, OpaqueQuery, OpaqueRelation, Query, Relation, SelectBlock, SetOperation, Subquery
from rowmerge.plan.expressions.column_refs import parse, rewrite, tokens_of
from rowmerge.plan.expressions.conditions import can_be_evaluated_apart
from rowmerge.plan.expressions.moment import replace_time_functions
from rowmerge.plan.expressions.operators import is_enclosed
from rowmerge.plan.predicates.literals import constant

_SEPARATORS = frozenset("""AND OR NOT EQ NEQ NULLSAFE_EQ LT LTE GT GTE BETWEEN IN IS LIKE ILIKE RLIKE ESCAPE DISTINCT FROM COMMA""".split())
"""The names of sqlglot's tokens between the operands of conditions."""
_BARE_TIME_NAME = re.compile(r"\b(current_timestamp|current_date|localtimestamp)\b(?!\s*\()", re.IGNORECASE)
_HAS_QUERY = re.compile(r"\b(?:select|from)\b", re.IGNORECASE)
_DEEPEST = 50
"""The maximum number of enclosing brackets of a constant. The brackets of a deeper one exceed Python's stack."""
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})


def constant_operands(condition: str, columns: Collection[str] | None = None) -> list[tuple[int, int]]:
    """Return the half-open offsets of the operands that have no column, and whose value the text does not show.

    In `` `t`.`d` >= current_date() - 7 AND `t`.`k` IN (1, 2 + 3)``, these are `current_date() - 7` and `2 + 3`.

    Args:
        condition: A condition.
        columns: The columns that it can use. None if each column in it is in backquotes, so that any other name is a variable.
    """
    column_names = None if columns is None else {column.lower() for column in columns}
    return list(_constant_operands(condition, tokens_of(condition) or [], column_names))


def _constant_operands(condition: str, tokens: Sequence[Token], columns: Set[str] | None, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the constant operands among tokens whose brackets are balanced, outside too many levels of brackets."""
    for operand in _operands(tokens) if depth <= _DEEPEST else ():
        if is_enclosed(operand):
            yield from _constant_operands(condition, operand[1:-1], columns, depth + 1)
        elif operand and not any(condition[token.start] == "`" or token.text.lower() in (columns or ()) for token in operand):
            start, end = operand[0].start, operand[-1].end + 1
            if _is_unknown_constant(condition[start:end], allows_variables=columns is None):
                yield start, end


def _operands(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between the comparison operators, logical operators and commas outside all brackets."""
    operand: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if not depth and token.token_type.name in _SEPARATORS:
            yield operand
            operand = []
        else:
            operand.append(token)
    yield operand


def _is_unknown_constant(text: str, *, allows_variables: bool) -> bool:
    """Return whether Spark is needed for the value of an expression without columns.

    `allows_variables`: whether a name in it is a variable of the session. Otherwise, it is a column.
    """
    tree = parse(text)
    if tree is None or not can_be_evaluated_apart(tree, text) or (tree.find(exp.Column) is not None and not allows_variables):
        return False
    if text.lower() == "unknown":  # the keyword of IS UNKNOWN, because variables have a qualifier
        return False
    # A time function in a SELECT list is evaluated later, when the statement runs.
    return constant(tree) is None and replace_time_functions(text, 0) == text


def bare_time_names(text: str, query: Query) -> set[str]:
    """Return `current_date` and similar names without parentheses outside the conditions of a query. They can be names of columns.

    Args:
        text: The text of the statement.
        query: Its structure.
    """
    for clause in _conditions(query):
        if _HAS_QUERY.search(clause.text):  # its subqueries have SELECT lists, and their own conditions
            continue
        text = text[: clause.start] + " " * len(clause.text) + text[clause.end :]
    return {match[1].lower() for match in _BARE_TIME_NAME.finditer(text)}


def with_fixed_time(text: str, query: Query, microseconds: int, columns: Collection[str]) -> str:
    """Return the text of a query in which the time functions in WHERE, HAVING and ON have the value of a fixed time.

    Args:
        text: The text of the statement.
        query: Its structure.
        microseconds: The time, in microseconds since the epoch.
        columns: The columns that the query can use, whose names are not functions.
    """
    edits: list[tuple[int, int, str]] = []
    end = 0
    for clause in sorted(_conditions(query), key=lambda clause: (clause.start, -clause.end)):
        if clause.start >= end:  # otherwise, the condition is in a subquery of the previous one
            edits.append((clause.start, clause.end, replace_time_functions(clause.text, microseconds, columns)))
            end = clause.end
    return rewrite(text, edits)


def _conditions(query: Query) -> Iterator[Clause]:
    """Yield the conditions of all SELECT blocks of a query."""
    for named_query in query.named_queries:
        yield from _conditions(named_query.query)
    match query.body:
        case SelectBlock(where=where, having=having, relation=relation, subqueries=subqueries):
            yield from (clause for clause in (where, having) if clause is not None)
            yield from _join_conditions(relation)
            queries: Sequence[Query] = subqueries
        case SetOperation(branches=branches):
            queries = branches
        case OpaqueQuery(queries=inner_queries):
            queries = inner_queries
    for inner_query in queries:
        yield from _conditions(inner_query)


def _join_conditions(relation: Relation | None) -> Iterator[Clause]:
    """Yield the conditions of the joins and of the queries in a FROM clause."""
    queries: list[Query] = []
    while isinstance(relation, Join):  # a loop, because thousands of joins follow each other on the left side
        if relation.condition is not None:
            yield relation.condition
        queries += relation.queries
        yield from _join_conditions(relation.right_side)
        relation = relation.left_side
    if isinstance(relation, Subquery):
        queries.append(relation.query)
    elif isinstance(relation, OpaqueRelation):
        queries += relation.queries
    for query in queries:
        yield from _conditions(query)
