"""Conditions whose values come from a subquery or from the other side of a join.

Such a condition excludes files only after a query has returned its values (a dynamic filter). Until then, the condition contains the text
of a query: `k IN (SELECT …)` for the keys of another table, or `t > (SELECT max(t) …)` for one value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from sqlglot import TokenType

from rowmerge.commands.queries import (
    Join,
    NamedQueryRead,
    OpaqueRelation,
    Query,
    Relation,
    SelectBlock,
    SetOperation,
    Subquery,
    TableRead,
)
from rowmerge.plan.expressions.column_refs import parse, references, tokens_of, with_replacements
from rowmerge.plan.expressions.conditions import comparison_operands, membership_operands, split_conjuncts
from rowmerge.plan.predicates.long_lists import shorten_lists
from rowmerge.plan.queries.expressions import Column, Expression, Names, name_key, to_expression
from rowmerge.plan.queries.outputs import QueryOutputs, View
from rowmerge.table.metadata.schema import Struct, backquote

_HAS_QUERY = re.compile(r"\(\s*(?:select|with)\b", re.IGNORECASE)
_EXISTS = re.compile(r"\s*exists\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_BEFORE_ROWS = re.compile(r"\b(?:in|(?:exists|any|all|some|array)(?:\s*\()*)\s*$", re.IGNORECASE)
"""A word before a subquery whose rows are used, rather than its only value. `exists` also means the rows in `exists ((query))`."""
_PLACEHOLDER = "`__rowmerge_read"
"""The beginning of the placeholder of a table, which occurs once in a statement. So the text of a query with a placeholder is unique."""
_MARKER = 7_310_456_130_000_000
"""The least of the numbers that replace subqueries while a condition is analysed."""
_KEYS = re.compile(r"`([^`]+)`\.`((?:[^`]|``)+)` IN \(SELECT `((?:[^`]|``)+)` FROM `([^`]+)`\)")
_OF_STATEMENT = re.compile(r"\b(?:current_\w+|localtimestamp|now|user|session_user)\b", re.IGNORECASE)
"""Names whose values differ between statements, also without parentheses."""
_DETERMINISTIC_FUNCTIONS = frozenset(
    """abs add_months and any between bigint cast ceil coalesce concat count date date_add date_sub date_trunc dateadd datediff day
    decimal exists floor from greatest having if in int isnotnull isnull last_day least length lower make_date max min month not nullif
    nvl on or select string timestamp timestamp_micros to_date trunc union upper values where year all""".split()
)
"""Functions and keywords that may precede a parenthesis in a query whose value is evaluated before the statement runs."""


@dataclass(frozen=True)
class KeySource:
    """The condition `column IN (keys)`, whose keys are the values of a column of another table.

    `table`, `column`: the placeholder and the column of the table with the condition. `key_table`, `key_column`: those of the keys.
    """

    table: str
    column: str
    key_table: str
    key_column: str

    @property
    def columns(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The table and the column with the condition, and those of the keys."""
        return (self.table, self.column), (self.key_table, self.key_column)

    @classmethod
    def parse(cls, condition: str) -> KeySource | None:
        """Return the key source of a condition that `keys_condition` made, or None for any other condition."""
        match = _KEYS.fullmatch(condition)
        if match is None:
            return None
        table, column, key_column, key_table = (part.replace("``", "`") for part in match.groups())
        return cls(table, column, key_table, key_column)


def keys_condition(column: Column, keys: Column) -> Expression:
    """Return the condition that a column has a value that occurs in a column of a table. `keys`: the column of the table."""
    return Expression((column, f" IN (SELECT {backquote(keys.name)} FROM {backquote(keys.relation)})"))


def has_query(text: str) -> bool:
    """Return whether a condition contains a subquery."""
    return _HAS_QUERY.search(text) is not None


class Subqueries:
    """The conditions with subqueries of one statement. `values`: the texts of the subqueries that return one value, without parentheses."""

    def __init__(self, outputs: QueryOutputs) -> None:
        self._outputs = outputs
        self.values: list[str] = []

    def condition(self, text: str, names: Names, queries: Sequence[Query], *, is_nested: bool = False) -> Expression | None:
        """Return a condition with a subquery, as far as its values can be evaluated before the statement. None if they cannot.

        Args:
            text: One conjunct.
            names: The columns to which the conjunct can refer outside the subquery.
            queries: The subqueries of the SELECT block.
            is_nested: Whether the block is in an expression itself, so that its subqueries can also use other columns than `names`.
        """
        membership = membership_operands(text)
        if membership is not None:
            value, query_text = membership
            return self._membership(to_expression(value, names), _query_with_text(query_text, queries))
        independent = [query for query in queries if not is_nested and not self._may_be_correlated(query, names)]
        short_text, values = self._with_markers(text, independent)
        expression = None if has_query(short_text) else to_expression(short_text, names)
        if expression is None:
            return None
        self.values += values.values()
        return Expression(tuple(part if isinstance(part, Column) else with_replacements(part, values) for part in expression.parts))

    def _with_markers(self, text: str, queries: Sequence[Query]) -> tuple[str, dict[str, str]]:
        """Replace each subquery with one stable value by a number, so that the text can be analysed without subqueries.

        Returns:
            The short text, and the texts of the subqueries by number.
        """
        values: dict[str, str] = {}
        for query in queries:
            bracket = re.search(rf"(\w*)\s*\(\s*{re.escape(query.text)}\s*\)", text)
            if bracket is None or _BEFORE_ROWS.search(text[: bracket.end(1)]) or _PLACEHOLDER not in query.text:
                continue
            if self._has_stable_value(query):
                number = str(_MARKER + len(values))
                values[number] = query.text
                text = f"{text[: bracket.end(1)]} ({number}){text[bracket.end() :]}"
        return text, values

    def _may_be_correlated(self, query: Query, names: Names) -> bool:
        """Return whether a name in a query may be that of a column or relation around it. The query alone could read a variable instead."""
        words = {name_key(token.text, names.case_sensitive) for token in tokens_of(query.text) or ()}
        return names.has_unknown or not words & names.all <= self._visible_everywhere(query)

    def _visible_everywhere(self, query: Query) -> Set[str]:
        """Return the names of the columns and relations of a query that hide equal names around the query, in each of its expressions.

        Return no names for a query with derived tables or several joins, in whose inner expressions some of its names are not visible.
        """
        body = query.body
        if not isinstance(body, SelectBlock) or body.subqueries or query.named_queries or body.relation is None:
            return frozenset()
        sides = (body.relation.left_side, body.relation.right_side) if isinstance(body.relation, Join) else (body.relation,)
        has_join_queries = isinstance(body.relation, Join) and body.relation.queries
        if has_join_queries or not all(isinstance(side, TableRead) for side in sides):
            return frozenset()
        return self._outputs.names(body.relation).all

    def _membership(self, value: Expression | None, query: Query | None) -> Expression | None:
        """Return `column IN (keys)` for `column IN (query)`. The query returns only values of the column from which its output comes."""
        column = None if value is None else value.only_column
        outputs = () if query is None else self._outputs.of_query(query).columns
        if column is None or len(outputs) != 1 or outputs[0].expression is None or outputs[0].expression.only_column is None:
            return None
        keys = self._outputs.origin(outputs[0].expression.only_column)
        return None if keys is None else keys_condition(column, keys)

    def members(self, where: str, names: Names, queries: Sequence[Query]) -> Iterator[tuple[Query, Column]]:
        """Yield the query and the column for each conjunct of the form `column IN (query)`.

        Args:
            where: The condition of a SELECT block.
            names: The columns to which it can refer outside its subqueries.
            queries: The subqueries of the SELECT block.
        """
        for text in split_conjuncts(shorten_lists(where)[0]) if queries else ():
            membership = membership_operands(text) if has_query(text) else None
            query = None if membership is None else _query_with_text(membership[1], queries)
            value = None if membership is None else to_expression(membership[0], names)
            if query is not None and value is not None and value.only_column is not None:
                yield query, value.only_column

    def correlations(
        self, block: SelectBlock, names: Names, is_shadowed: Callable[[Column], bool] = lambda column: False
    ) -> Iterator[tuple[Column, Column]]:
        """Yield the columns of each conjunct `inner.k = outer.k` of a subquery's WHERE: the subquery's column, and the one outside.

        Args:
            block: The SELECT block of the subquery.
            names: The columns to which its names can refer outside.
            is_shadowed: Whether an unqualified name of a column outside may mean an alias of the SELECT list instead, as in HAVING.
        """
        inner_names = self._outputs.names(block.relation)
        if block.where is None or block.relation is None or inner_names.has_unknown:
            return
        for conjunct in split_conjuncts(shorten_lists(block.where.text)[0]):
            operands = None if has_query(conjunct) else comparison_operands(conjunct)
            if operands is not None and operands[1] == "=":
                for inner_text, outer_text in ((operands[0], operands[2]), (operands[2], operands[0])):
                    inner, outer = to_expression(inner_text, inner_names), _outer_column(outer_text, names, inner_names, is_shadowed)
                    if inner is not None and inner.only_column is not None and outer is not None:
                        yield inner.only_column, outer

    def existence(self, text: str, names: Names, queries: Sequence[Query]) -> Iterator[Expression]:
        """Yield `outer.k IN (keys)` for each equality of columns in `EXISTS (SELECT … WHERE inner.k = outer.k)`.

        Args:
            text: One conjunct, which may be any condition.
            names: The columns to which the conjunct can refer outside the subquery.
            queries: The subqueries of the SELECT block.
        """
        match = _EXISTS.fullmatch(text)
        query = None if match is None else _query_with_text(match[1].strip(), queries)
        body = None if query is None or query.is_limited else query.body
        # A global aggregate returns a row even if no row matches.
        if not isinstance(body, SelectBlock) or any("(" in item.expression.text for item in body.items or ()) or body.having is not None:
            return
        for inner, outer in self.correlations(body, names) if body.items is not None else ():
            keys = self._outputs.origin(inner)
            if keys is not None:
                yield keys_condition(outer, keys)

    def _has_stable_value(self, query: Query) -> bool:
        """Return whether a query has the same value whenever it runs: it reads fixed versions of tables, and calls known functions."""
        if not self._reads_fixed_versions(query, frozenset()) or _OF_STATEMENT.search(query.text):
            return False
        tokens = tokens_of(query.text) or []
        is_call = [following.token_type is TokenType.L_PAREN for following in tokens[1:]]
        names = {token.text.lower() for token, calls in zip(tokens, is_call, strict=False) if calls and token.text[:1].isalpha()}
        return names <= _DETERMINISTIC_FUNCTIONS

    def _reads_fixed_versions(self, query: Query, own_queries: Set[int]) -> bool:
        """Return whether a query returns all rows of fixed versions of tables that match its conditions.

        `own_queries`: the ids of the visible queries of its own WITH lists. It cannot run alone if it reads a query of an outer list.
        """
        if query.is_limited:
            return False
        for named_query in query.named_queries:
            if not self._reads_fixed_versions(named_query.query, own_queries):
                return False
            own_queries = own_queries | {id(named_query)}
        match query.body:
            case SelectBlock():
                subqueries = all(self._reads_fixed_versions(subquery, own_queries) for subquery in query.body.subqueries)
                return subqueries and not query.body.windows and self._has_fixed_version(query.body.relation, own_queries)
            case SetOperation(branches=branches):
                return all(self._reads_fixed_versions(branch, own_queries) for branch in branches)
        return False

    def _has_fixed_version(self, relation: Relation | None, own_queries: Set[int]) -> bool:
        match relation:
            case Join():
                on = all(self._reads_fixed_versions(query, own_queries) for query in relation.queries)
                return (
                    on
                    and self._has_fixed_version(relation.left_side, own_queries)
                    and self._has_fixed_version(relation.right_side, own_queries)
                )
            case Subquery(query=query):
                return self._reads_fixed_versions(query, own_queries)
            case NamedQueryRead(named_query=named_query):
                return id(named_query) in own_queries
            case TableRead():
                source = self._outputs.source(relation)
                is_fixed_view = isinstance(source, View) and self._reads_fixed_versions(source.query, frozenset())
                return isinstance(source, Struct) or is_fixed_view
            case OpaqueRelation():
                return False
        return True


def _query_with_text(text: str, queries: Sequence[Query]) -> Query | None:
    """Return the subquery with a text. It reads a table, whose placeholder makes the text unique."""
    return next((query for query in queries if query.text == text and _PLACEHOLDER in text), None)


def _outer_column(text: str, names: Names, inner_names: Names, is_shadowed: Callable[[Column], bool]) -> Column | None:
    """Return the column outside of a subquery that an operand names. Return None if the name can be that of something else.

    It can be a column of the subquery that is not resolved here, such as that of a FULL join after USING.
    """
    expression, tree = to_expression(text, names), parse(text)
    column_references = None if tree is None else references(tree, text)
    if expression is None or expression.only_column is None or not column_references:
        return None
    parts = column_references[0].parts
    may_be_inner = name_key(parts[0], inner_names.case_sensitive) in inner_names.all
    return None if may_be_inner or (len(parts) == 1 and is_shadowed(expression.only_column)) else expression.only_column
