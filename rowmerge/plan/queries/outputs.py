"""The output columns of queries, as expressions over the relations that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from rowmerge.commands.queries import (
    Join,
    NamedQueryRead,
    OpaqueRelation,
    Query,
    Relation,
    SelectBlock,
    SelectItem,
    SetOperation,
    Subquery,
    TableRead,
)
from rowmerge.plan.bounds.bounds import comparable
from rowmerge.plan.expressions.column_refs import parse
from rowmerge.plan.expressions.sides import Side, is_same_name
from rowmerge.plan.predicates.literals import ExactNumber, constant
from rowmerge.plan.queries.expressions import Column, Expression, Names, column_expression, name_key, to_expression
from rowmerge.table.metadata.schema import DataType, Field, Primitive, Struct


@dataclass(frozen=True, eq=False)
class View:
    """A view that a statement reads: its query, and the names of its columns if they differ from those of the query."""

    query: Query
    columns: tuple[str, ...] = ()


_LITERALS = frozenset({"NULL", "TRUE", "FALSE"})
"""Names that are no columns without quotes."""
_Visible = TableRead | Subquery | NamedQueryRead | OpaqueRelation
Source = Struct | View
"""What a name in a statement refers to: the columns of a table, or a view."""


@dataclass(frozen=True)
class Output:
    """An output column of a query: its name, its expression over the relations of the query, and its type. None means unknown."""

    name: str | None
    expression: Expression | None = None
    type: DataType | None = None


@dataclass(frozen=True)
class Outputs:
    """The known output columns of a query. `complete`: whether they are all columns, in order."""

    columns: tuple[Output, ...] = ()
    complete: bool = False

    @property
    def has_unnamed(self) -> bool:
        """Whether Spark makes the name of a column from its expression."""
        return any(output.name is None for output in self.columns)

    def renamed(self, names: Sequence[str]) -> Outputs:
        """Return the outputs with new names, as in `t AS x(a, b)`. Without names, they keep their own."""
        if not names:
            return self
        if not self.complete or len(names) != len(self.columns):
            return Outputs()
        pairs = zip(names, self.columns, strict=True)
        return Outputs(tuple(Output(name, output.expression, output.type) for name, output in pairs), complete=True)


@dataclass(frozen=True, eq=False)
class Leaf:
    """One relation of a FROM clause that is not a join. `id`: unique in the statement. `outputs`: its columns."""

    relation: TableRead | Subquery | NamedQueryRead
    id: str
    outputs: Outputs

    @property
    def side(self) -> Side:
        """The relation's alias and the names of its columns."""
        names = tuple(output.name for output in self.outputs.columns if output.name is not None)
        return Side(self.relation.alias or "", (), names)

    @property
    def schema(self) -> Struct:
        """The columns with their types. A column of unknown type has a type whose comparisons are not evaluated."""
        columns = (output for output in self.outputs.columns if output.name is not None)
        return Struct(tuple(Field(output.name or "", output.type or Primitive("binary")) for output in columns))

    def by_position(self, condition: Expression) -> Expression | None:
        """Return a condition in which the name of each column is its position. None if the name is not unique."""
        positions: dict[str, list[int]] = {}
        for position, output in enumerate(self.outputs.columns):
            positions.setdefault(output.name or "", []).append(position)

        def positional(column: Column) -> Expression | None:
            same_name = positions.get(column.name, [])
            return column_expression("", str(same_name[0])) if len(same_name) == 1 else None

        return condition.substituted(positional)


class QueryOutputs:
    """The output columns of the queries of one statement, and the relations of their blocks. Each is computed once.

    `sources`: the tables and views of the statement by name. `case_sensitive`: whether names that differ only in case are different.
    """

    def __init__(self, sources: Mapping[str, Source], *, case_sensitive: bool) -> None:
        self._sources, self._case_sensitive = sources, case_sensitive
        self._ids = count()
        self._leaves: dict[int, Leaf] = {}
        self._leaf_by_id: dict[str, Leaf] = {}
        self._merged: dict[int, dict[str, Column | None]] = {}
        self._outputs: dict[int, Outputs] = {}
        self._names: dict[str, Names] = {}

    def source(self, table: TableRead) -> Source | None:
        """Return the table or view that a name refers to, or None if only Spark knows it."""
        return self._sources.get(table.name[0]) if len(table.name) == 1 else None

    def leaf(self, relation: TableRead | Subquery | NamedQueryRead) -> Leaf:
        """Return the relation with its id and its columns."""
        leaf = self._leaves.get(id(relation))
        if leaf is None:
            is_table = isinstance(relation, TableRead) and isinstance(self.source(relation), Struct)
            leaf_id = relation.name[0] if is_table and isinstance(relation, TableRead) else f"__rowmerge_q{next(self._ids)}"
            # The id of a placeholder occurs once in a statement, so the id of a table is unique as well.
            leaf = self._leaves[id(relation)] = Leaf(relation, leaf_id, self._relation_outputs(relation))
            self._leaf_by_id[leaf_id] = leaf
        return leaf

    def _relation_outputs(self, relation: TableRead | Subquery | NamedQueryRead) -> Outputs:
        match relation:
            case TableRead():
                outputs = self._table_outputs(relation)
            case Subquery(query=query):
                outputs = self.of_query(query)
            case NamedQueryRead(named_query=named_query):
                outputs = self.of_query(named_query.query).renamed(named_query.columns)
        return outputs.renamed(relation.columns)

    def _table_outputs(self, table: TableRead) -> Outputs:
        source = self.source(table)
        if source is None:
            return Outputs()
        if isinstance(source, View):
            return self.of_query(source.query).renamed(source.columns)
        columns = (Output(field.name, None, field.type if comparable(field) else None) for field in source)
        return Outputs(tuple(columns), complete=True)

    def of_query(self, query: Query) -> Outputs:
        """Return the output columns of a query."""
        outputs = self._outputs.get(id(query))
        if outputs is None:
            match query.body:
                case SelectBlock():
                    outputs = self.of_block(query.body)
                case SetOperation(branches=branches):
                    outputs = _set_operation_outputs([self.of_query(branch) for branch in branches])
                case _:
                    outputs = Outputs()
            self._outputs[id(query)] = outputs
        return outputs

    def of_block(self, block: SelectBlock) -> Outputs:
        """Return the output columns of a SELECT block."""
        outputs = self._outputs.get(id(block))
        if outputs is None:
            outputs = self._outputs[id(block)] = self._block_outputs(block)
        return outputs

    def _block_outputs(self, block: SelectBlock) -> Outputs:
        if block.items is None:
            return Outputs()
        outputs, complete = list[Output](), True
        for item in block.items:
            if item.is_star:
                star = self._star_outputs(item, block)
                outputs += star.columns
                complete &= star.complete
            else:
                outputs.append(self._item_output(item, block))
        return Outputs(tuple(outputs), complete)

    def _item_output(self, item: SelectItem, block: SelectBlock) -> Output:
        names = self.names(block.relation)
        expression = _column_of(item, names) or to_expression(item.expression.text, names)
        name = item.alias or (item.name[-1] if item.name else None)
        return Output(name, expression, None if expression is None else _type_of(expression, self.visible_leaves(block.relation)))

    def _star_outputs(self, item: SelectItem, block: SelectBlock) -> Outputs:
        """Return the columns of `*` or `t.*`."""
        names, leaves = self.names(block.relation), list(self.visible_leaves(block.relation))
        qualifier = item.name
        if qualifier:  # `t.s.*` reads the fields of a struct
            leaves = [leaf for leaf in leaves if is_same_name((leaf.side.alias,), qualifier, self._case_sensitive)]
        complete = all(leaf.outputs.complete for leaf in leaves) and not names.merged
        complete &= len(leaves) == 1 if qualifier else not names.has_unknown
        excluded = {self._key(name) for name in item.excluded}
        columns = []
        for leaf in leaves:
            for output in leaf.outputs.columns:
                if output.name is not None and self._key(output.name) not in excluded:
                    merged = names.merged.get(self._key(output.name)) if not qualifier else None
                    expression = Expression((merged or Column(leaf.id, output.name),))
                    columns.append(Output(output.name, expression, _type_of(expression, leaves) if merged else output.type))
                elif output.name is None:
                    complete = False
        return Outputs(tuple(columns if qualifier else self._without_merged_copies(columns, names)), complete)

    def _key(self, name: str) -> str:
        return name_key(name, self._case_sensitive)

    def _without_merged_copies(self, columns: Sequence[Output], names: Names) -> Iterator[Output]:
        """Yield the columns of a star. A column after USING occurs once."""
        merged: set[str] = set()
        for output in columns:
            name = self._key(output.name or "")
            if name not in names.merged:
                yield output
            elif name not in merged:
                merged.add(name)
                yield output if names.merged[name] is not None else Output(output.name)

    def names(self, relation: Relation | None) -> Names:
        """Return the columns to which the expressions of a block with this FROM clause can refer."""
        return self._names_of(str(id(relation)), list(_visible(relation)), self._merged_columns(relation))

    def _names_of(self, key: str, visible: Sequence[_Visible], merged: dict[str, Column | None]) -> Names:
        """Return the names of visible relations, computed once for each key."""
        names = self._names.get(key)
        if names is None:
            leaves = [self.leaf(part) for part in visible if not isinstance(part, OpaqueRelation)]
            unknown = [leaf for leaf in leaves if not leaf.outputs.complete]
            names = self._names[key] = Names(
                tuple((leaf.side, leaf.id) for leaf in leaves),
                merged,
                frozenset(leaf.side.alias.lower() for leaf in unknown),
                len(leaves) < len(visible) or any(not leaf.outputs.complete or leaf.outputs.has_unnamed for leaf in leaves),
                self._case_sensitive,
            )
        return names

    def names_of_condition(self, join: Join) -> Names:
        """Return the columns to which the condition of a join can refer. The right side of a SEMI or ANTI join is visible there."""
        key = id(join.right_side), id(join.left_side)
        merged = self._merged_columns(join.left_side) | self._merged_columns(join.right_side)
        return self._names_of(f"on {key}", [*_visible(join.left_side), *_visible(join.right_side)], merged)

    def visible_leaves(self, relation: Relation | None) -> Iterator[Leaf]:
        """Yield the relations whose columns are visible after the joins of a FROM clause, in text order."""
        for part in _visible(relation):
            if not isinstance(part, OpaqueRelation):
                yield self.leaf(part)

    def leaves(self, relation: Relation) -> Iterator[Leaf]:
        """Yield all relations of a FROM clause, in text order."""
        if isinstance(relation, Join):
            yield from self.leaves(relation.left_side)
            yield from self.leaves(relation.right_side)
        elif not isinstance(relation, OpaqueRelation):
            yield self.leaf(relation)

    def _merged_columns(self, relation: Relation | None) -> dict[str, Column | None]:
        """Return, for each column after USING, the column to which its unqualified name refers.

        It is the column of the preserved side, or of the left side of an inner join. For a FULL join it is None, because the value is
        that of either side.
        """
        if not isinstance(relation, Join):
            return {}
        columns = self._merged.get(id(relation))
        if columns is None:
            columns = self._merged[id(relation)] = self._find_merged_columns(relation)
        return columns

    def _find_merged_columns(self, relation: Join) -> dict[str, Column | None]:
        merged = dict(self._merged_columns(relation.left_side))
        if relation.kind not in ("SEMI", "ANTI"):
            merged |= self._merged_columns(relation.right_side)
        names, certain = self._equal_names(relation)
        for name in names:
            side = relation.right_side if relation.kind == "RIGHT" else relation.left_side
            resolved = self.names(side).column((name,)) if certain and relation.kind != "FULL" else None
            merged[self._key(name)] = None if resolved is None else resolved[0]
        return merged

    def _equal_names(self, join: Join) -> tuple[Sequence[str], bool]:
        """Return the names of the columns whose equality is the condition of a join with USING or NATURAL, and whether this is certain.

        If it is uncertain which columns a NATURAL join has in common, the names are all that it may have in common.
        """
        if not join.is_natural:
            return join.using, True
        sides = self.names(join.left_side), self.names(join.right_side)
        left_names, right_names = ([name for side, _ in names.sides for name in side.columns] for names in sides)
        if any(names.has_unknown for names in sides):
            return [*left_names, *right_names], False
        keys = {self._key(name) for name in right_names}
        return list({self._key(name): name for name in left_names if self._key(name) in keys}.values()), True

    def using_equalities(self, join: Join) -> Iterator[Expression]:
        """Yield `left.k = right.k` for each column after USING, and for the common columns of a NATURAL join."""
        names, certain = self._equal_names(join)
        for name in names if certain else ():
            columns = self.names(join.left_side).column((name,)), self.names(join.right_side).column((name,))
            if columns[0] is not None and columns[1] is not None:
                yield Expression((columns[0][0], " = ", columns[1][0]))

    def origin(self, column: Column) -> Column | None:
        """Return the column of a table from which all values of a column come, except NULL. None if they come from several or are computed.

        Projections, filters, joins, grouping and windows keep or drop the values of a column.
        """
        leaf = self._leaf_by_id[column.relation]
        positions = [position for position, output in enumerate(leaf.outputs.columns) if output.name == column.name]
        if len(positions) != 1:
            return None
        source = self.source(leaf.relation) if isinstance(leaf.relation, TableRead) else None
        if isinstance(source, Struct):
            return Column(leaf.id, source.names[positions[0]])
        expression = leaf.outputs.columns[positions[0]].expression
        inner_column = None if expression is None else expression.only_column
        return None if inner_column is None else self.origin(inner_column)


def _set_operation_outputs(branches: Sequence[Outputs]) -> Outputs:
    """Return the columns of a set operation: the names of the first branch, and the types on which all branches agree."""
    first = branches[0]
    if len(branches) == 1:
        return first
    if not all(branch.complete and len(branch.columns) == len(first.columns) for branch in branches):
        return Outputs()
    columns = []
    for outputs in zip(*(branch.columns for branch in branches), strict=True):
        types = {output.type for output in outputs}
        columns.append(Output(outputs[0].name, None, outputs[0].type if len(types) == 1 else None))
    return Outputs(tuple(columns), complete=True)


def _type_of(expression: Expression, leaves: Iterable[Leaf]) -> DataType | None:
    """Return the type of a column of some relations, or of a literal. None if it is unknown."""
    column = expression.only_column
    if column is not None:
        outputs = (output for leaf in leaves if leaf.id == column.relation for output in leaf.outputs.columns)
        return next((output.type for output in outputs if output.name == column.name), None)
    if expression.columns:
        return None
    tree = parse(expression.text)
    literal = None if tree is None else constant(tree)
    if isinstance(literal, str):
        return Primitive("string")
    is_int = isinstance(literal, ExactNumber) and literal.integer and literal.digits == 10
    return Primitive("integer") if is_int and expression.text.strip("-").isdecimal() else None


def _column_of(item: SelectItem, names: Names) -> Expression | None:
    """Return the column of which an item consists, without a parser. None for other items, for fields and for quoted names."""
    if not item.name or item.expression.text.upper() in _LITERALS or "`" in item.expression.text:
        return None
    resolved = names.column(item.name)
    return Expression((resolved[0],)) if resolved is not None and resolved[1] == len(item.name) else None


def _visible(relation: Relation | None) -> Iterator[_Visible]:
    """Yield the relations whose columns are visible after the joins, in text order. The right side of SEMI and ANTI is not visible."""
    if isinstance(relation, Join):
        yield from _visible(relation.left_side)
        if relation.kind not in ("SEMI", "ANTI"):
            yield from _visible(relation.right_side)
    elif relation is not None:
        yield relation
