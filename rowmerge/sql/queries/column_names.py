"""The columns that a query can use, as a superset: those whose names are in its text. Some syntax uses columns without their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rowmerge.commands import queries as q
from rowmerge.errors import UnsupportedStatement
from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, HINT, Kind, Tokens, tokenize
from rowmerge.sql.queries.clauses import SET_OPERATORS
from rowmerge.sql.queries.function_calls import Edit, apply_edits
from rowmerge.sql.queries.relations import find_reads, find_reads_of_expression
from rowmerge.table.metadata.schema import backquote

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
_IMPLICIT_COLUMNS = frozenset({"NATURAL", "PIVOT", "UNPIVOT", "|>"})
"""Words and symbols of a block that uses all columns of a table, although it has no star."""
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


class _HidingRead(NamedTuple):
    """A table with hidden columns that a query reads.

    `table`: its name. `alias`: the name that qualifies its columns. `start`: the index of its first token. `block`: the index of the first
    token, and of the token after the last one, of the SELECT block that reads it.
    """

    table: str
    alias: str
    start: int
    block: tuple[int, int]


def hidden_columns_in(text: str, hidden: Mapping[str, Collection[str]], *, is_expression: bool = False) -> dict[str, frozenset[str]]:
    """Return the hidden columns to which a text can refer, by table. A reference belongs to the innermost query with such a table.

    Args:
        text: A query or an expression.
        hidden: The names of the hidden columns, by the undotted name of each table that has some. A name occurs once in the text.
        is_expression: Whether the text is an expression.

    Raises:
        Unparsable: A string, a quoted name or a comment is not closed.
    """
    tokens = tokenize(text)
    reads = _hiding_reads(tokens, hidden, is_expression=is_expression)
    names = {same_name(name): name for columns in hidden.values() for name in columns}
    uses: dict[str, set[str]] = defaultdict(set)
    for index, token in enumerate(tokens):
        name = names.get(same_name(token.name)) if token.is_name and tokens.keys[index - 1] != "AS" else None
        qualifier = _qualifier(tokens, index)
        visible = [
            read
            for read in reads
            if read.block[0] <= index < read.block[1] and name in hidden[read.table] and qualifier in (None, same_name(read.alias))
        ]
        innermost = max((read.block[0] for read in visible), default=0)
        for read in visible:
            if name is not None and read.block[0] == innermost:
                uses[read.table].add(name)
    return {table: frozenset(columns) for table, columns in uses.items()}


def hidden_columns_of_target(
    text: str, hidden: Collection[str], qualifiers: Collection[str], other_columns: Collection[str] = ()
) -> frozenset[str]:
    """Return the hidden columns of the target of a statement to which an expression refers. In a subquery, they need a qualifier.

    Args:
        text: The expression.
        hidden: The names of the hidden columns.
        qualifiers: The names that can qualify the columns of the target.
        other_columns: The columns of the source. A name without a qualifier refers to them.
    """
    tokens, names = tokenize(text), {same_name(name): name for name in hidden}
    targets, others = set(map(same_name, qualifiers)), set(map(same_name, other_columns))
    references = set()
    for index, token in enumerate(tokens):
        key = same_name(token.name) if token.is_name else ""
        if tokens.keys[index - 1] == ".":
            is_reference = index > 1 and same_name(tokens[index - 2].name) in targets
        else:
            is_reference = key not in others and not _is_in_query(tokens, index)
        if key in names and is_reference:
            references.add(names[key])
    return frozenset(references)


def _is_in_query(tokens: Tokens, index: int) -> bool:
    """Return whether a token is in a query in brackets."""
    cursor = Cursor(tokens)
    for opening, closing in tokens.closings.items():
        cursor.index = opening + 1
        if opening < index < closing and expressions.begins_query(cursor):
            return True
    return False


def without_hidden_columns(text: str, hidden: Mapping[str, Collection[str]], *, is_expression: bool = False) -> str:
    """Return a text in which no star stands for a hidden column: `*` becomes `* EXCEPT (…)`.

    Args:
        text: A query or an expression.
        hidden: The names of the hidden columns, by the undotted name of each table that has some. A name occurs once in the text.
        is_expression: Whether the text is an expression.

    Raises:
        UnsupportedStatement: A query uses all columns of a table in another way than by a star.
    """
    tokens = tokenize(text)
    reads = _hiding_reads(tokens, hidden, is_expression=is_expression)
    for read in reads:
        for index in _top_level(tokens, *read.block):
            if tokens.keys[index] in _IMPLICIT_COLUMNS and tokens.keys[index - 1] != ".":
                problem = f"A query with {tokens.keys[index]} cannot use the metadata column {min(hidden[read.table])} of {read.alias}."
                raise UnsupportedStatement(f"{problem} Select the column in a subquery.")
    stars = (index for index, key in enumerate(tokens.keys) if key == "*" and _is_star(tokens, index)) if reads else ()
    edits = (_exclusion(tokens, star, reads, hidden) for star in stars)
    return apply_edits(text, [edit for edit in edits if edit is not None])


def _exclusion(tokens: Tokens, star: int, reads: Collection[_HidingRead], hidden: Mapping[str, Collection[str]]) -> Edit | None:
    """Return the edit that excludes hidden columns from a star, or None if it has none."""
    block, qualifier = _block_of(tokens, star), _qualifier(tokens, star)
    visible = [read for read in reads if read.block == block and qualifier in (None, same_name(read.alias))]
    if not visible:
        return None
    is_only_relation = qualifier is not None or _has_one_relation(tokens, visible[0])
    prefixes = ["" if is_only_relation else f"{backquote(read.alias)}." for read in visible]
    names = ", ".join(
        f"{prefix}{backquote(name)}" for prefix, read in zip(prefixes, visible, strict=True) for name in sorted(hidden[read.table])
    )
    if tokens.keys[star + 1] == "EXCEPT" and tokens.keys[star + 2] == "(":
        offset = tokens.starts[tokens.closings[star + 2]]
        return Edit(offset, offset, f", {names}")
    return Edit(tokens.ends[star], tokens.ends[star], f" EXCEPT ({names})")


def _hiding_reads(tokens: Tokens, hidden: Mapping[str, Collection[str]], *, is_expression: bool) -> list[_HidingRead]:
    """Return the reads of tables with hidden columns. A table whose columns get other names, as in `t AS x (a, b)`, has none."""
    cursor, reads = Cursor(tokens), []
    for read in (find_reads_of_expression if is_expression else find_reads)(cursor):
        if len(read.name.parts) == 1 and read.name.parts[0] in hidden:
            cursor.index = read.end
            expressions.skip_tablesample(cursor)
            if expressions.alias_follows(cursor):
                cursor.accept("AS")
                if cursor.key(1) != "(":
                    reads.append(_HidingRead(read.name.parts[0], cursor.token().name, read.start, _block_of(tokens, read.start)))
    return reads


def _qualifier(tokens: Tokens, index: int) -> str | None:
    """Return the name before the dot before a token, in the form of `same_name`. Return None without a dot, and `` for a longer path."""
    if tokens.keys[index - 1] != "." or index < 2:
        return None
    return "" if tokens.keys[index - 3] == "." else same_name(tokens[index - 2].name)


def _block_of(tokens: Tokens, index: int) -> tuple[int, int]:
    """Return the first token of the SELECT block around a token, and the token after it: part of a query between set operators."""
    cursor, start, end = Cursor(tokens), 0, len(tokens) - 1
    for opening, closing in tokens.closings.items():
        cursor.index = opening + 1
        if start <= opening < index < closing and expressions.begins_query(cursor):
            start, end = opening + 1, closing
    for position in _top_level(tokens, start, end):
        is_exclusion = tokens.keys[position] == "EXCEPT" and tokens.keys[position - 1] == "*"
        if tokens.keys[position] in SET_OPERATORS and tokens.keys[position - 1] != "." and not is_exclusion:
            if position > index:
                return start, position
            start = position + 1
    return start, end


def _top_level(tokens: Tokens, start: int, end: int) -> Iterator[int]:
    """Yield the indexes of the tokens between two tokens that are outside brackets."""
    index = start
    while index < end:
        yield index
        index = tokens.closings[index] + 1 if tokens.keys[index] in CLOSING else index + 1


def _has_one_relation(tokens: Tokens, read: _HidingRead) -> bool:
    """Return whether a table is certainly the only relation of its block, so that its columns need no qualifier."""
    keys = [tokens.keys[index] for index in _top_level(tokens, *read.block)]
    after_alias = tokens.keys[read.start + 3] if tokens.keys[read.start + 1] == "AS" else tokens.keys[read.start + 2]
    return tokens.keys[read.start - 1] == "FROM" and after_alias != "," and not {"JOIN", "LATERAL"} & set(keys)
