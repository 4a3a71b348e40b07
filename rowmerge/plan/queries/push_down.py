"""Push the conditions of a query down to the tables that it reads, as Spark's optimizer does.

A condition on a table holds for each of its rows that can contribute to the result. So files without such rows need not be read. The rules
are those of Spark. Conditions of WHERE, HAVING and ON pass through projections, unions, joins, grouping and windows, as far as the result
stays the same. Equalities of inner joins transfer conditions from one table to another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rowmerge.commands.queries import (
    Clause,
    Join,
    NamedQuery,
    NamedQueryRead,
    OpaqueQuery,
    OpaqueRelation,
    Query,
    Relation,
    SelectBlock,
    SetOperation,
    Subquery,
    TableRead,
)
from rowmerge.plan.expressions.column_refs import with_replacements
from rowmerge.plan.expressions.conditions import nondeterministic_function, split_conjuncts
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.long_lists import shorten_lists
from rowmerge.plan.pruning.file_pruning import rejects_null_row
from rowmerge.plan.queries.constraints import Constraints, conditions_on_equal_columns, is_exact, types_of, with_implied_conditions
from rowmerge.plan.queries.expressions import Column, Expression, Names, column_expression, disjunction, to_expression
from rowmerge.plan.queries.outputs import Leaf, QueryOutputs, Source, View
from rowmerge.plan.queries.subqueries import Subqueries, has_query, keys_condition
from rowmerge.table.metadata.schema import Struct

_MOST_CONDITIONS = 100
"""The maximum number of conditions that are pushed into a query. So a chain of a thousand filtered queries takes no quadratic time."""


@dataclass(frozen=True)
class TableConditions:
    """The conditions that hold for all rows of a table that can contribute to the result of a query.

    `by_table`: for each table by name, SQL conditions on its columns, which are qualified by this name. Some contain a subquery
    (see `rowmerge.plan.queries.subqueries`). `values`: the texts of the subqueries in them that return one value, without parentheses.
    `analysed`: the tables by name, except those in opaque parts of the query. `not_used`: the texts of the query's conditions that are not
    understood, or that have no meaning apart from the query.
    """

    by_table: Mapping[str, tuple[str, ...]]
    values: tuple[str, ...] = ()
    analysed: frozenset[str] = frozenset()
    not_used: tuple[str, ...] = ()


def push_down(
    query: Query, sources: Mapping[str, Source], *, case_sensitive: bool = False, allows_variables: bool = True
) -> TableConditions:
    """Push the conditions of a query down to its tables.

    Args:
        query: The query.
        sources: The tables and views that the query reads, by name. A name may occur only once in the texts of the query and its views.
        case_sensitive: Whether names that differ only in case are different.
        allows_variables: Whether the variables of the session have their final values.
    """
    push = _PushDown(QueryOutputs(sources, case_sensitive=case_sensitive), allows_variables=allows_variables)
    try:
        push.through_query(query, [])
    except RecursionError:  # hundreds of joins or views that read each other
        return TableConditions({})
    texts = {
        name: tuple(dict.fromkeys(with_replacements(condition.text, push.lists) for condition in conditions))
        for name, conditions in push.conditions.items()
    }
    by_table = {name: conditions for name, conditions in texts.items() if conditions}
    return TableConditions(
        by_table,
        tuple(push.subqueries.values),
        frozenset(texts),
        tuple(dict.fromkeys(with_replacements(text, push.lists) for text in push.not_used)),
    )


class _PushDown:
    """The conditions of the tables of one statement. The methods `through_…` push conditions down into a part of the statement.

    Their parameter `conditions` are conditions that hold for each row of the part that can contribute to the result. In a condition on the
    output of a query, the name of a column is its position, and the relation is empty.
    """

    def __init__(self, outputs: QueryOutputs, *, allows_variables: bool) -> None:
        self._outputs, self.subqueries = outputs, Subqueries(outputs)
        self._constraints = Constraints(outputs, self._conjuncts)
        self.conditions: dict[str, list[Expression]] = defaultdict(list)
        self.not_used: list[str] = []
        self._reads: dict[int, list[list[Expression]]] = defaultdict(list)
        self._depth, self._allows_variables = 0, allows_variables
        self.lists: dict[str, str] = {}

    def through_query(self, query: Query, conditions: Sequence[Expression], correlated: Sequence[Expression] = ()) -> None:
        """Push conditions on its output columns into a query and its WITH list.

        Args:
            query: The query.
            conditions: The conditions on its output columns.
            correlated: Conditions on the columns of its relations, which rows that fulfil its WHERE also fulfil.
        """
        conditions = () if query.is_limited else conditions[:_MOST_CONDITIONS]
        for named_query in query.named_queries:  # in this order, a long list needs no deep recursion
            self._outputs.of_query(named_query.query)
        match query.body:
            case SelectBlock():
                self._through_block(query.body, conditions, correlated)
            case SetOperation():
                self._through_set_operation(query.body, conditions)
            case OpaqueQuery(queries=queries):
                self._independently(queries)
        # A query of the list can be read by the later ones.
        for named_query in reversed(query.named_queries):
            self._through_named_query(named_query)

    def _independently(self, queries: Iterable[Query]) -> None:
        """Push only the own conditions of queries in expressions down. Their names can be columns of the queries around them."""
        self._depth += 1
        for query in queries:
            self.through_query(query, ())
        self._depth -= 1

    def _through_named_query(self, named_query: NamedQuery) -> None:
        """Push the conditions of all reads of a query of a WITH list into it. A row is needed if one of the reads needs it."""
        reads = self._reads[id(named_query)]
        conditions: Sequence[Expression] = ()
        if not named_query.has_other_reads and reads and all(reads):
            conditions = reads[0] if len(reads) == 1 else (disjunction(reads),)
        self.through_query(named_query.query, conditions)

    def _through_set_operation(self, operation: SetOperation, conditions: Sequence[Expression]) -> None:
        """Push conditions into the branches. A column on whose type they do not agree is cast, so conditions on it are not pushed.

        Of rows that are equal, UNION returns any. So it may return -0.0 for 0.0, for which a condition can have another result.
        """
        branch_columns = [self._outputs.of_query(branch).columns for branch in operation.branches]

        def has_one_type(column: Column) -> bool:
            types = {columns[int(column.name)].type for columns in branch_columns}
            type_ = types.pop()
            return not types and type_ is not None and (operation.is_union_all or is_exact(type_))

        if len(operation.branches) > 1:
            conditions = [condition for condition in conditions if all(map(has_one_type, condition.columns))]
        for branch in operation.branches:
            self.through_query(branch, conditions)

    def _through_block(self, block: SelectBlock, conditions: Sequence[Expression], correlated: Sequence[Expression]) -> None:
        """Push conditions into a SELECT block, and its own WHERE and HAVING into its relations. The arguments are as in `through_query`."""
        if block.relation is None:
            self._independently(block.subqueries)
            return
        pushed = [*self._before_projection(block, conditions), *correlated]
        if block.where is not None:
            pushed += self._conjuncts(block.where, self._outputs.names(block.relation), block.subqueries)
        if block.having is not None and not block.has_grouping_sets and block.items is not None:
            conjuncts = self._conjuncts(block.having, self._outputs.names(block.relation), allows_variables=False)
            pushed += (conjunct for conjunct in conjuncts if not any(self._is_shadowed(column, block) for column in conjunct.columns))
        self._through_subqueries(block, block.relation, pushed)
        self._through_relation(block.relation, pushed)

    def _through_subqueries(self, block: SelectBlock, relation: Relation, conditions: Sequence[Expression]) -> None:
        """Push the conditions of a block into its subqueries, on columns that equal a column of the block.

        The rows of `k IN (SELECT u.k …)`, or those where `u.k = t.k`, matter only for rows of the block that fulfil the conditions. In
        HAVING and QUALIFY, a name can be an alias of the SELECT list.

        Args:
            block: The block.
            relation: The relations of its FROM clause.
            conditions: The conditions on their rows.
        """
        if not block.subqueries:
            return
        names, types = self._outputs.names(relation), types_of(self._outputs.leaves(relation))
        conditions = [each for each in (*conditions, *self._constraints.of_relation(relation)) if not has_query(each.text)]
        members = {} if block.where is None else dict(self.subqueries.members(block.where.text, names, block.subqueries))
        self._depth += 1
        for query in block.subqueries:
            on_output: list[Expression] = []
            columns = self._outputs.of_query(query).columns
            if query in members and len(columns) == 1:
                output = Column("", "0")
                on_output = conditions_on_equal_columns(conditions, [(output, members[query])], {**types, output: columns[0].type})
            correlated: list[Expression] = []
            if isinstance(query.body, SelectBlock) and query.body.relation is not None:
                pairs = list(self.subqueries.correlations(query.body, names, lambda column: self._is_shadowed(column, block)))
                correlated = conditions_on_equal_columns(conditions, pairs, types | types_of(self._outputs.leaves(query.body.relation)))
            self.through_query(query, on_output, correlated)
        self._depth -= 1

    def _is_shadowed(self, column: Column, block: SelectBlock) -> bool:
        """Return whether the name of a column in HAVING may be that of another column in the SELECT list, which takes precedence."""
        if block.items is None:
            return True
        name = column.name.lower()
        # Spark makes the names of other items from their expressions: `cast(s.k AS int)` has the name `k`.
        unnamed_texts = (item.expression.text for item in block.items if not (item.alias or item.name or item.is_star))
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for text in unnamed_texts):
            return True
        outputs = (output for output in self._outputs.of_block(block).columns if (output.name or "").lower() == name)
        return any(output.expression is None or output.expression.only_column != column for output in outputs)

    def _before_projection(self, block: SelectBlock, conditions: Sequence[Expression]) -> Iterator[Expression]:
        """Yield the conditions on the output columns of a block as conditions on the columns of its relations."""
        if block.has_grouping_sets or any(nondeterministic_function(item.expression.text) for item in block.items or ()):
            return
        outputs = self._outputs.of_block(block).columns
        partitions = [self._partition_columns(window, block) for window in block.windows]
        for condition in conditions:
            pushed = condition.substituted(lambda column: outputs[int(column.name)].expression)
            # A window function sees whole partitions, so only conditions that keep or drop whole partitions pass it.
            if pushed is not None and all(pushed.columns <= columns for columns in partitions):
                yield pushed

    def _partition_columns(self, window: Iterable[Clause], block: SelectBlock) -> set[Column]:
        """Return the columns in PARTITION BY of a window. The rows of a partition have the same values in these columns."""
        names = self._outputs.names(block.relation)
        expressions = [to_expression(clause.text, names) for clause in window]
        return {expression.only_column for expression in expressions if expression is not None and expression.only_column is not None}

    def _conjuncts(
        self, clause: Clause, names: Names, queries: Sequence[Query] = (), *, allows_variables: bool = True
    ) -> Iterator[Expression]:
        """Yield the conjuncts of a condition whose columns are certain.

        Args:
            clause: The condition.
            names: The columns to which it can refer.
            queries: The subqueries whose values a conjunct can use.
            allows_variables: Whether other names than those of columns can be variables of the session.
        """
        allows_variables = allows_variables and self._allows_variables and not self._depth
        condition, lists = shorten_lists(clause.text, len(self.lists))
        self.lists |= lists
        for text in split_conjuncts(condition):
            if has_query(text):
                expression = self.subqueries.condition(text, names, queries, is_nested=bool(self._depth))
            else:
                expression = to_expression(text, names, allows_variables=allows_variables)
            existence = [] if expression is not None else list(self.subqueries.existence(text, names, queries))
            if expression is not None:
                yield expression
            elif not existence:
                self.not_used.append(text)
            yield from existence

    def _through_relation(self, relation: Relation, conditions: Sequence[Expression], *, with_inferred: bool = False) -> None:
        """Push conditions into a relation of a FROM clause. `with_inferred`: see `_through_join`."""
        match relation:
            case Join():
                self._independently(relation.queries)
                self._through_join(relation, conditions, with_inferred=with_inferred)
            case OpaqueRelation(queries=queries):
                self._independently(queries)
            case _:
                leaf = self._outputs.leaf(relation)
                self._through_leaf(leaf, [condition for condition in conditions if condition.relations <= {leaf.id}])

    def _through_leaf(self, leaf: Leaf, conditions: Sequence[Expression]) -> None:
        """Push conditions on the columns of a table, a view or a query into it."""
        relation = leaf.relation
        source = self._outputs.source(relation) if isinstance(relation, TableRead) else None
        positional = [condition for condition in map(leaf.by_position, conditions) if condition is not None]
        if isinstance(source, Struct):
            names = source.names
            own = (condition.substituted(lambda column: column_expression(leaf.id, names[int(column.name)])) for condition in positional)
            self.conditions[leaf.id] += (condition for condition in own if condition is not None)
        elif isinstance(relation, NamedQueryRead):
            self._reads[id(relation.named_query)].append(positional)
        elif isinstance(relation, Subquery):
            self.through_query(relation.query, positional)
        elif isinstance(source, View):
            self.through_query(source.query, positional)

    def _through_join(self, join: Join, conditions: Sequence[Expression], *, with_inferred: bool) -> None:
        """Push conditions, and the condition of the join itself, into both sides as far as the kind of the join allows.

        Args:
            join: The join.
            conditions: The conditions on its rows.
            with_inferred: Whether they include all conditions that the constraints of this relation imply.
        """
        leaves = list(self._outputs.leaves(join))
        left_ids = {leaf.id for leaf in self._outputs.leaves(join.left_side)}
        right_ids = {leaf.id for leaf in self._outputs.leaves(join.right_side)}
        types, on = types_of(leaves), self._constraints.on(join)
        rows = [*self._constraints.of_relation(join.left_side), *self._constraints.of_relation(join.right_side)]
        kind = _effective_kind(join.kind, conditions, left_ids, right_ids, leaves)
        on_left = [condition for condition in conditions if condition.relations <= left_ids]
        on_right = [condition for condition in conditions if condition.relations <= right_ids]
        left_conditions: list[Expression] = []
        right_conditions: list[Expression] = []
        if kind in ("INNER", "SEMI"):
            both = [*conditions, *on]
            inferred = both if with_inferred and join.kind == kind else with_implied_conditions(both, rows, types)
            left_conditions = [*inferred, *self._keys_of_other_side(both, left_ids)]
            right_conditions = [*inferred, *self._keys_of_other_side(both, right_ids)]
        elif kind in ("LEFT", "ANTI"):
            # Rows of the right side matter only if they match a row of the left side that can contribute.
            left_conditions = on_left
            right_conditions = [*with_implied_conditions([*on_left, *on], rows, types), *self._keys_of_other_side(on, right_ids)]
        elif kind == "RIGHT":
            left_conditions = [*with_implied_conditions([*on_right, *on], rows, types), *self._keys_of_other_side(on, left_ids)]
            right_conditions = on_right
        left_conditions = [condition for condition in left_conditions if condition.relations <= left_ids]
        right_conditions = [condition for condition in right_conditions if condition.relations <= right_ids]
        self._through_relation(join.left_side, left_conditions, with_inferred=kind not in ("LEFT", "ANTI", "FULL"))
        self._through_relation(join.right_side, right_conditions, with_inferred=kind not in ("RIGHT", "FULL"))

    def _keys_of_other_side(self, conditions: Sequence[Expression], ids: Set[str]) -> Iterator[Expression]:
        """Yield `column IN (keys)` for each column of one side of a join that equals a column of the other side.

        Args:
            conditions: The conditions of the join.
            ids: The relations of the side whose columns get conditions.
        """
        for condition in conditions:
            match condition.parts:
                case (Column() as first, str(operator), Column() as second) if operator.strip() in ("=", "=="):
                    for column, other in ((first, second), (second, first)):
                        keys = self._outputs.origin(other) if column.relation in ids and other.relation not in ids else None
                        if keys is not None and self._outputs.origin(column) != keys:
                            yield keys_condition(column, keys)


def _effective_kind(kind: str, conditions: Sequence[Expression], left_ids: Set[str], right_ids: Set[str], leaves: Sequence[Leaf]) -> str:
    """Return the kind of join that has the same rows, given that conditions drop the rows in which one side is NULL.

    For example, `WHERE r.k = 5` drops all rows of `l LEFT JOIN r` that match no row of `r`, as an INNER join does.
    """
    drops_null_left = kind in ("RIGHT", "FULL") and _rejects_null_rows(conditions, left_ids, leaves)
    drops_null_right = kind in ("LEFT", "FULL") and _rejects_null_rows(conditions, right_ids, leaves)
    if drops_null_left and (drops_null_right or kind == "RIGHT"):
        return "INNER"
    if drops_null_right:
        return "INNER" if kind == "LEFT" else "RIGHT"
    return "LEFT" if drops_null_left else kind


def _rejects_null_rows(conditions: Sequence[Expression], ids: Set[str], leaves: Sequence[Leaf]) -> bool:
    """Return whether a condition on one of the relations `ids` is certainly not true if all columns of this relation are NULL."""
    leaf_by_id = {leaf.id: leaf for leaf in leaves}
    for condition in conditions:
        if len(condition.relations) == 1 and condition.relations <= ids:
            (leaf_id,) = condition.relations
            leaf = leaf_by_id[leaf_id]
            if rejects_null_row(
                condition.text, Side(leaf_id, (), leaf.side.columns, qualified_only=True), leaf.schema, case_sensitive=True
            ):
                return True
    return False
