"""The columns that a query can use, as a superset: those whose names are in its text. Some syntax uses columns without their names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rowmerge.commands import queries as q
from rowmerge.sql.lexing.lexer import HINT, Kind, Tokens, tokenize

_WITHOUT_NAMES = frozenset({"TABLE", "NATURAL", "IDENTIFIER", "|>"})
"""Words and symbols of syntax that uses columns without their names, or that takes names from strings."""
_BEFORE_STAR = frozenset(
    """SELECT DISTINCT ALL BY MAP REDUCE TRANSFORM USING FROM WHERE HAVING QUALIFY ON AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN DIV
    WHEN THEN ELSE CASE ANY SOME ESCAPE EXISTS OVER""".split()
)
_AFTER_STAR = frozenset(
    """FROM EXCEPT REPLACE WHERE GROUP ORDER SORT CLUSTER DISTRIBUTE HAVING QUALIFY WINDOW LIMIT OFFSET UNION MINUS INTERSECT LATERAL
    AS""".split()
)
"""Words before and after `*` that are not the operands of a multiplication."""
_OPERANDS = frozenset({Kind.QUOTED, Kind.STRING, Kind.NUMBER})
_BEGINNINGS_OF_OPERANDS = frozenset({"(", "-", "+", "~", ":", "?"})
_AGGREGATE = re.compile(r"\b(?:count|sum|avg|min|max)\s*\(", re.IGNORECASE)
_QUERY = re.compile(r"\b(?:select|from)\b", re.IGNORECASE)
_SPECIAL = re.compile(r"[^\w\s,/%#@-]")
"""A character that can have a meaning in a regular expression. By a setting of Spark, quoted names are such expressions."""


def column_names(text: str) -> frozenset[str] | None:
    """Return the names in a text, in the form of `same_name`. Return None if the text can use columns without their names.

    Args:
        text: A query, or another part of a statement, with its subqueries.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed.
    """
    tokens = tokenize(text)
    # The names in a hint, such as REPARTITION(3, id), are not among the tokens. Spark replaces `${name}` by a setting.
    if HINT in text or "${" in text or not _WITHOUT_NAMES.isdisjoint(tokens.keys):
        return None
    if any(_is_star(tokens, index) for index, key in enumerate(tokens.keys) if key == "*"):
        return None
    has_expression = any(token.kind is Kind.QUOTED and _SPECIAL.search(token.name) for token in tokens)
    return None if has_expression else frozenset(_names(tokens))


def same_name(name: str) -> str:
    """Return a form of a name that is equal for names that differ only in case."""
    return name.casefold()


def _is_star(tokens: Tokens, index: int) -> bool:
    """Return whether `*` can stand for columns. It does not in a multiplication and in `count(*)`."""
    keys = tokens.keys
    if index > 1 and keys[index - 2 : index + 2] == ["COUNT", "(", "*", ")"]:
        return keys[index - 3] == "."
    follows_operand = index > 0 and (keys[index - 1] in (")", "]") or _is_operand(tokens, index - 1, _BEFORE_STAR))
    precedes_operand = keys[index + 1] in _BEGINNINGS_OF_OPERANDS or _is_operand(tokens, index + 1, _AFTER_STAR)
    return not (follows_operand and precedes_operand)


def _is_operand(tokens: Tokens, index: int, keywords: frozenset[str]) -> bool:
    """Return whether a token is a literal or a name, but none of these keywords."""
    kind = tokens.kinds[index]
    return kind in _OPERANDS or (kind is Kind.WORD and tokens.keys[index] not in keywords)


def _names(tokens: Tokens) -> Iterator[str]:
    """Yield the names in a text. By a setting of Spark, text in double quotes is a name."""
    for token in tokens:
        if token.is_name:
            yield same_name(token.name)
        elif token.kind is Kind.NUMBER:
            yield same_name(token.text.lstrip("."))  # `t.1d` is a column
        elif token.text.startswith('"'):
            yield same_name(token.text[1:-1].replace('""', '"'))


def tables_below_result(query: q.Query) -> Iterator[str]:
    """Yield the undotted names of the tables whose columns Spark also finds in `sql("SELECT k FROM t").filter("v > 1")`.

    They are the tables of the outermost FROM clause. Queries with aggregates have no such tables.
    """
    match query.body:
        case q.SetOperation(branches=(branch,)):
            yield from tables_below_result(branch)
        case q.SelectBlock(relation=relation, is_grouped=False) as block if block.windows or not any(map(_is_aggregate, block.items or ())):
            relations = [relation]
            for relation in relations:  # a loop, because thousands of joins follow each other
                if isinstance(relation, q.Join):
                    relations += (relation.left_side, relation.right_side)
                elif isinstance(relation, q.TableRead) and len(relation.name) == 1:
                    yield relation.name[0]


def _is_aggregate(item: q.SelectItem) -> bool:
    """Return whether an expression has a common aggregate function, and no query to which this function could belong."""
    return _AGGREGATE.search(item.expression.text) is not None and _QUERY.search(item.expression.text) is None


def tables_with_own_names(query: q.Query) -> Iterator[str]:
    """Yield the undotted names of the tables in a query whose columns keep their names. Omit tables whose place in the query is unknown."""
    for named_query in query.named_queries:
        yield from tables_with_own_names(named_query.query)
    match query.body:
        case q.SelectBlock(relation=relation, subqueries=queries):
            if relation is not None:
                yield from _tables_of_relation(relation)
        case q.SetOperation(branches=queries) | q.OpaqueQuery(queries=queries):
            pass
    for inner in queries:
        yield from tables_with_own_names(inner)


def _tables_of_relation(relation: q.Relation) -> Iterator[str]:
    """Yield the tables of a FROM clause whose columns keep their names."""
    queries: list[q.Query] = []
    while isinstance(relation, q.Join):  # a loop, because thousands of joins follow each other on the left side
        queries += relation.queries
        yield from _tables_of_relation(relation.right_side)
        relation = relation.left_side
    match relation:
        case q.TableRead(name=(name,), columns=()):
            yield name
        case q.Subquery(query=query):
            queries.append(query)
        case q.OpaqueRelation(queries=inner_queries):
            queries += inner_queries
    for query in queries:
        yield from tables_with_own_names(query)
