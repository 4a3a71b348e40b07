"""The conditions that hold for all rows of a relation, so that its equalities and constants apply to the relations around it.

An equality of two columns transfers the conditions on one column to the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rowmerge.commands.queries import (
    Clause,
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
from rowmerge.plan.queries.expressions import Column, Expression, Names, column_expression
from rowmerge.plan.queries.outputs import Leaf, QueryOutputs, View
from rowmerge.table.metadata.schema import DataType, Decimal, Primitive

_EXACT_TYPES = frozenset({"boolean", "byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz"})

Conjuncts = Callable[[Clause, Names], Iterable[Expression]]
"""A function that returns the conjuncts of a condition without subqueries."""


class Constraints:
    """The constraints of the relations of one statement. Each is computed once."""

    def __init__(self, outputs: QueryOutputs, conjuncts: Conjuncts) -> None:
        self._outputs, self._conjuncts = outputs, conjuncts
        self._of_relations: dict[int, list[Expression]] = {}
        self._of_queries: dict[int, list[Expression]] = {}

    def of_relation(self, relation: Relation) -> list[Expression]:
        """Return conditions that hold for each row of a relation. An outer join returns rows for which its condition does not hold."""
        constraints = self._of_relations.get(id(relation))
        if constraints is None:
            match relation:
                case OpaqueRelation():
                    constraints = []
                case Join(kind="INNER" | "SEMI"):
                    constraints = [*self.of_relation(relation.left_side), *self.of_relation(relation.right_side), *self.on(relation)]
                case Join(kind="LEFT" | "ANTI"):
                    constraints = self.of_relation(relation.left_side)
                case Join(kind="RIGHT"):
                    constraints = self.of_relation(relation.right_side)
                case Join():
                    constraints = []
                case _:
                    constraints = self._of_leaf(self._outputs.leaf(relation))
            self._of_relations[id(relation)] = constraints
        return constraints

    def on(self, join: Join) -> list[Expression]:
        """Return the conjuncts of the condition of a join."""
        conjuncts = list(self._outputs.using_equalities(join))
        if join.condition is not None:
            conjuncts += self._conjuncts(join.condition, self._outputs.names_of_condition(join))
        return conjuncts

    def _of_leaf(self, leaf: Leaf) -> list[Expression]:
        """Return the constraints of a query on the columns of the relation that reads it."""
        query = self._query_of(leaf)
        if query is None:
            return []
        names = [output.name for output in leaf.outputs.columns]

        def by_name(column: Column) -> Expression | None:
            name = names[int(column.name)]
            return None if name is None or names.count(name) > 1 else column_expression(leaf.id, name)

        constraints = (constraint.substituted(by_name) for constraint in self._of_query(query)) if names else ()
        return [constraint for constraint in constraints if constraint is not None]

    def _query_of(self, leaf: Leaf) -> Query | None:
        """Return the query whose rows a relation has, or None for a table."""
        match leaf.relation:
            case Subquery(query=query):
                return query
            case NamedQueryRead(named_query=named_query):
                return named_query.query
            case TableRead():
                source = self._outputs.source(leaf.relation)
                return source.query if isinstance(source, View) else None

    def _of_query(self, query: Query) -> list[Expression]:
        """Return conditions that hold for each row of a query. The name of a column is its position, and its relation is empty."""
        constraints = self._of_queries.get(id(query))
        if constraints is None:
            match query.body:
                case SelectBlock():
                    constraints = list(self._of_block(query.body))
                case SetOperation(branches=(branch,)):
                    constraints = self._of_query(branch)
                case _:
                    constraints = []
            self._of_queries[id(query)] = constraints
        return constraints

    def _of_block(self, block: SelectBlock) -> Iterable[Expression]:
        """Yield the conditions whose columns are output columns. Grouping sets set columns to NULL after WHERE."""
        if block.relation is None or block.has_grouping_sets:
            return
        constraints = list(self.of_relation(block.relation))
        if block.where is not None:
            constraints += self._conjuncts(block.where, self._outputs.names(block.relation))
        positions: dict[Column, str] = {}
        for position, output in enumerate(self._outputs.of_block(block).columns):
            column = None if output.expression is None else output.expression.only_column
            if column is not None:
                positions[column] = str(position)

        def positional(column: Column) -> Expression | None:
            return column_expression("", positions[column]) if column in positions else None

        for constraint in constraints:
            pushed = constraint.substituted(positional) if constraint.columns else None
            if pushed is not None:
                yield pushed


def types_of(leaves: Iterable[Leaf]) -> dict[Column, DataType | None]:
    """Return the type of each column of some relations."""
    return {Column(leaf.id, field.name): field.type for leaf in leaves for field in leaf.schema}


def conditions_on_equal_columns(
    conditions: Sequence[Expression], pairs: Sequence[tuple[Column, Column]], types: Mapping[Column, DataType | None]
) -> list[Expression]:
    """Return the conditions that equal columns pass on: the pair `(u.k, t.k)` and the condition `t.k = 5` give `u.k = 5`.

    Args:
        conditions: The conditions, also on other columns.
        pairs: The pairs of columns whose values are equal in all rows that matter. The result has conditions on the first column of a pair.
        types: The types of the columns. Columns of different types transfer no conditions.
    """
    if not pairs:
        return []
    equalities = [Expression((first, " = ", second)) for first, second in pairs]
    first_columns = {first for first, _ in pairs}
    implied = with_implied_conditions([*conditions, *equalities], (), types)
    return [condition for condition in implied if condition.columns and condition.columns <= first_columns]


def with_implied_conditions(
    conditions: Sequence[Expression], constraints: Sequence[Expression], types: Mapping[Column, DataType | None]
) -> list[Expression]:
    """Add the conditions that equalities of columns imply: `x.k = y.k AND y.k = 5` implies `x.k = 5`.

    Args:
        conditions: The conditions of a join, and those on its rows.
        constraints: Further conditions that hold for the rows of its sides. They are not returned, because the sides have them already.
        types: The types of the columns.
    """
    classes = _classes_of_equal_columns([*conditions, *constraints], types)
    inferred = dict.fromkeys(conditions)
    for condition in [*conditions, *constraints]:
        if len(condition.columns) != 1:
            continue
        (column,) = condition.columns
        for equal_column in classes.get(column, frozenset()) - {column}:
            parts = (equal_column if isinstance(part, Column) else part for part in condition.parts)
            inferred[Expression(tuple(parts))] = None
    return list(inferred)


def _classes_of_equal_columns(conditions: Sequence[Expression], types: Mapping[Column, DataType | None]) -> dict[Column, frozenset[Column]]:
    """Return for each column the columns that have the same value in each row for which the conditions are true."""
    classes: dict[Column, frozenset[Column]] = {}
    for condition in conditions:
        match condition.parts:
            case (Column() as first, str(operator), Column() as second) if operator.strip() in ("=", "==", "<=>"):
                if types.get(first) == types.get(second) and is_exact(types.get(first)):
                    merged = classes.get(first, frozenset({first})) | classes.get(second, frozenset({second}))
                    classes |= dict.fromkeys(merged, merged)
    return classes


def is_exact(type_: DataType | None) -> bool:
    """Return whether equal values of a type are interchangeable in any condition. 0.0 and -0.0 are equal, but differ as strings."""
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in _EXACT_TYPES)
