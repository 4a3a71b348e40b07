"""The structure of a query: its blocks, relations and clauses, as far as file skipping needs it.

The texts of clauses are verbatim. Parts whose structure is not known are opaque: no condition is pushed into them or taken from them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clause:
    """The text of an expression in a statement. `start`: the offset of the text in the statement."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table or view in a FROM clause.

    `name`: the parts of its name. `alias`: the name that qualifies its columns. `columns`: the column names after the alias, as in
    `t AS x(a, b)`, or an empty tuple if the columns keep their names.
    """

    name: tuple[str, ...]
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Subquery:
    """A query in a FROM clause. `alias`, `columns`: as in `TableRead`, but a query may have no alias."""

    query: Query
    alias: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NamedQueryRead:
    """A read of a query of a WITH list. `alias`, `columns`: as in `TableRead`."""

    named_query: NamedQuery
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class OpaqueRelation:
    """A relation whose columns are unknown, such as VALUES, a table function, PIVOT or TABLESAMPLE.

    `queries`: the queries in its text, which are independent of the conditions around it.
    """

    queries: tuple[Query, ...] = ()


@dataclass(frozen=True, eq=False)
class Join:
    """A join of two relations.

    `kind`: INNER, LEFT, RIGHT, FULL, SEMI or ANTI. A cross join or a comma is an INNER join without a condition. `condition`: the condition
    after ON. `using`: the columns after USING. `is_natural`: whether the equal columns are those with the same name. `queries`: the queries
    in the condition.
    """

    kind: str
    left_side: Relation
    right_side: Relation
    condition: Clause | None = None
    using: tuple[str, ...] = ()
    is_natural: bool = False
    queries: tuple[Query, ...] = ()


Relation = TableRead | Subquery | NamedQueryRead | OpaqueRelation | Join


@dataclass(frozen=True)
class SelectItem:
    """One expression of a SELECT list, such as `price * 2 AS total`, `o.*` or `id`.

    `alias`: the name after the expression, or None. `name`: the parts of the dotted name of which the expression consists, or of the
    qualifier before a star. `excluded`: the columns after EXCEPT, as in `* EXCEPT (a, b)`.
    """

    expression: Clause
    alias: str | None = None
    name: tuple[str, ...] = ()
    is_star: bool = False
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SelectBlock:
    """One SELECT with its clauses.

    `items`: the SELECT list, or None if its columns are unknown. `relation`: the joined relations of FROM, or None if there is no FROM.
    `is_grouped`: whether it has GROUP BY. `has_grouping_sets`: whether ROLLUP, CUBE or GROUPING SETS add rows in which grouping columns are
    NULL. `windows`: for each OVER, the expressions of PARTITION BY, or an empty tuple if they are unknown. `subqueries`: the queries in the
    expressions of the block.
    """

    items: tuple[SelectItem, ...] | None
    relation: Relation | None = None
    where: Clause | None = None
    having: Clause | None = None
    is_grouped: bool = False
    has_grouping_sets: bool = False
    windows: tuple[tuple[Clause, ...], ...] = ()
    subqueries: tuple[Query, ...] = ()


@dataclass(frozen=True, eq=False)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of several queries, whose order and nesting do not matter here.

    `is_union_all`: whether it returns all rows of the queries, without a comparison of rows.
    """

    branches: tuple[Query, ...]
    is_union_all: bool = False


@dataclass(frozen=True, eq=False)
class OpaqueQuery:
    """A query whose structure is unknown. `queries`: the queries in brackets in its text."""

    queries: tuple[Query, ...] = ()


@dataclass(eq=False)
class NamedQuery:
    """A query of a WITH list. `has_other_reads`: whether the statement may read it in places that are not known as `NamedQueryRead`."""

    name: str
    query: Query
    columns: tuple[str, ...] = ()
    has_other_reads: bool = False


@dataclass(frozen=True, eq=False)
class Query:
    """A query with its WITH list.

    `is_limited`: whether LIMIT, OFFSET or a similar clause chooses some of its rows. `text`: the text of the query.
    """

    body: SelectBlock | SetOperation | OpaqueQuery
    named_queries: tuple[NamedQuery, ...] = ()
    is_limited: bool = False
    text: str = ""
