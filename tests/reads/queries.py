"""Random queries: rows, groups, windows, set operations, PIVOT, LIMIT, and the queries that metadata can answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.reads.conditions import Ref
from tests.reads.filters import FilterWriter
from tests.reads.relations import ORDERED_KINDS, Query, Relation, Source
from tests.reads.values import ANYWHERE, Column, name_in_sql, value

_SUMS = {"integer": "bigint", "decimal": "decimal(38, 6)"}
_SORTED_KINDS = (*ORDERED_KINDS, "char", "binary", "float", "struct")
_SET_OPERATIONS = ("union all", "union all", "union", "intersect", "except", "intersect all", "except all")
_ONE_COUNT = [Column("n1", "bigint")]


class QueryWriter(FilterWriter):
    """A writer of random queries over some sources."""

    def query(self) -> Query:
        """Return a random query. A writer writes one query."""
        random = self.random
        ctes = [self._cte() for _ in range(random.choice([0, 0, 0, 1, 1, 2]))]
        body = self.body(0)
        text = f"with {', '.join(ctes)} {body.text}" if ctes else body.text
        query, choice = replace(body, text=text, shared=self.conditions.shared), random.random()
        if query.superset is not None:
            return replace(query, superset=f"with {', '.join(ctes)} {query.superset}" if ctes else query.superset)
        if choice < 0.1 and _can_be_sorted(query.columns):
            order = ", ".join(f"{number}{random.choice(['', ' desc', ' nulls last'])}" for number in range(1, len(query.columns) + 1))
            # DuckDB sorts NULL fields of structs last.
            shared = query.shared and not any(column.kind == "struct" for column in query.columns)
            return replace(query, text=f"{text} order by {order} limit {random.choice([1, 5, 20])}", shared=shared)
        if choice < 0.17 and not ctes:
            limit = random.choice([1, 3, 10, 50])
            limited = f"{text} limit {limit}" if "|>" not in text and random.random() < 0.7 else f"select * from ({text}) limit {limit}"
            return replace(query, text=limited, limited_from=text, limit=limit)
        return query

    def body(self, depth: int) -> Query:
        """Return a query without a WITH list."""
        writers: list[tuple[int, Callable[[int], Query]]] = [(9, self._rows), (3, self._groups), (2, self._windows)]
        writers += [(2, self._set_operation), (1, self._pivot)]
        if depth == 0:
            writers += [(4, self._metadata), (1, self._pipe), (1, self._random_share), (2, self._newest_rows)]
        weights, functions = zip(*writers, strict=True)
        return self.random.choices(functions, weights)[0](depth)

    def _cte(self) -> str:
        name, number = f"cte{len(self.ctes) + 1}", self.name("r")
        if not self.ctes and not self.conditions.portable and self.random.random() < 0.05:
            return self._recursive_cte(name, number)
        query = self.body(1)
        self.ctes.append(Source(name, query.columns))
        return f"{name} as ({query.text})"

    def _recursive_cte(self, name: str, number: str) -> str:
        """Return a recursive query, whose rows all depend on those of its first part."""
        self.only_in_spark()
        relation = self.relation(2)
        column = next((ref.text for ref in relation.refs if ref.column.kind == "integer"), "1")
        first = f"select distinct cast({column} as bigint) from {relation.text}{self.where(relation.refs, 2)}"
        next_rows = f"select {number} + 7 from {name} where {number} < {self.random.choice([10, 40])}"
        self.ctes.append(Source(name, [Column(number, "bigint")]))
        return f"recursive {name}({number}) as ({first} union all {next_rows})"

    def _sample(self, refs: Sequence[Ref], most: int = 5) -> list[Ref]:
        return self.random.sample(list(refs), min(len(refs), self.random.randint(1, most)))

    def _items(self, refs: Sequence[Ref]) -> tuple[str, list[Column]]:
        """Return a SELECT list with unique names, and its columns."""
        items, columns, names = [], [], set[str]()
        for number, ref in enumerate(refs):
            name = ref.name
            if name.lower() in names or self.random.random() < 0.15:
                name = f"o{number}" if f"o{number}" not in names else f"o{number}x"
            names.add(name.lower())
            items.append(ref.text if name == ref.name and self.random.random() < 0.7 else f"{ref.text} as {name_in_sql(name)}")
            columns.append(Column(name, ref.type))
        return ", ".join(items), columns

    def _rows(self, depth: int) -> Query:
        random, relation = self.random, self.relation(depth)
        if random.random() < 0.06:
            relation = self._exploded(relation)
        where = self.where(relation.refs, depth)
        if random.random() < 0.2 and relation.has_unique_names() and " join " not in relation.text.lower():
            return Query(f"select * from {relation.text}{where}", [ref.column for ref in relation.refs])
        items, columns = self._items(self._sample(relation.refs))
        if random.random() < 0.1:
            columns.append(Column("computed", "int"))
            items += f", case when {self.conditions.condition(relation.refs, 1)} then 1 else 0 end as computed"
        text = f"select {random.choice(['', '', '', '', 'distinct '])}{items} from {relation.text}{where}"
        if depth and random.random() < 0.1 and _can_be_sorted(columns):
            order = ", ".join(str(number + 1) for number in range(len(columns)))
            return Query(f"select * from ({text} order by {order} limit {random.choice([3, 10])}) {self.alias()}", columns)
        return Query(text, columns)

    def _exploded(self, relation: Relation) -> Relation:
        numbers = [ref for ref in relation.refs if ref.column.kind == "integer"]
        if not numbers:
            return relation
        self.only_in_spark()
        ref, alias, outer = self.random.choice(numbers), self.alias(), self.random.choice(["", "outer "])
        text = f"{relation.text} lateral view {outer}explode(array(cast({ref.text} as bigint), 7L, null)) {alias} as item"
        return Relation(text, [*relation.refs, Ref(f"{alias}.item", "item", "bigint")])

    def _groups(self, depth: int) -> Query:
        """Return a query with GROUP BY, perhaps with ROLLUP, CUBE or HAVING."""
        random, relation = self.random, self.relation(depth)
        where, keys = self.where(relation.refs, depth), self._sample(relation.refs, 2)
        items, columns = self._items(keys)
        names = ", ".join(dict.fromkeys(ref.text for ref in keys))
        grouping = random.choice([names] * 6 + [f"rollup({names})", f"cube({names})"])
        if grouping != names:
            self.only_in_spark()  # of no rows, DuckDB computes a grand total
        aggregates, results = self._aggregates(relation.refs)
        having = random.choice(["", "", f" having count(*) > {random.choice([0, 1, 3])}"])
        if grouping == names and random.random() < 0.3:
            having = f" having {self.conditions.condition(keys, 1)}"
        return Query(f"select {items}, {aggregates} from {relation.text}{where} group by {grouping}{having}", [*columns, *results])

    def _aggregates(self, refs: Sequence[Ref]) -> tuple[str, list[Column]]:
        """Return aggregate functions whose result does not depend on the order of the rows."""
        random = self.random
        name = self.name("n")
        items, columns = [f"count(*) as {name}"], [Column(name, "bigint")]
        for ref in self._sample(refs, 3):
            kind = ref.column.kind
            function = random.choice(["count"] + ["min", "max"] * (kind in ORDERED_KINDS) + ["sum"] * (kind in _SUMS))
            type_ = {"count": "bigint", "sum": _SUMS.get(kind, "")}.get(function, ref.type)
            distinct = "distinct " if random.random() < 0.15 and function == "count" else ""
            item = f"{function}({distinct}{ref.text})"
            if random.random() < 0.1:
                item = f"{item} filter (where {self.conditions.condition(refs, 2)})"
            name = self.name("g")
            items.append(f"cast({item} as decimal(38, 6)) as {name}" if type_.startswith("decimal(38") else f"{item} as {name}")
            columns.append(Column(name, type_))
        return ", ".join(items), columns

    def _windows(self, depth: int) -> Query:
        """Return a query that filters the result of a window function."""
        random, relation = self.random, self.relation(depth)
        where, refs = self.where(relation.refs, depth), self._sample(relation.refs, 4)
        items, columns = self._items(refs)
        order, partition = ", ".join(ref.text for ref in refs), random.choice(["", *[f"partition by {refs[0].text} "] * 2])
        window = random.choice([f"row_number() over ({partition}order by {order})", f"rank() over ({partition}order by {order})"])
        window = random.choice([window, f"count(*) over ({partition.strip()})"])
        alias, number = self.alias(), self.name("rn")
        all_columns = [*columns, Column(number, "int")]
        condition = self.conditions.condition(self.refs(alias, all_columns), 1)
        outer = random.choice([f"{alias}.{number} = 1", f"{alias}.{number} <= 2", condition, f"{alias}.{number} = 1 and {condition}"])
        inner = f"select {items}, {window} as {number} from {relation.text}{where}"
        return Query(f"select * from ({inner}) {alias} where {outer}", all_columns)

    def _set_operation(self, depth: int) -> Query:
        """Combine two queries with columns of the same types, and filter the result."""
        random, one, other = self.random, self.relation(depth + 1), self.relation(depth + 1)
        chosen = [ref for ref in self._sample(one.refs, 3) if ref.column.kind not in ("struct", "char")] or [one.refs[0]]
        items, columns = self._items(chosen)
        others = ", ".join(self._other_side(ref, other) for ref in chosen)
        texts = [f"select {items} from {one.text}{self.where(one.refs, depth + 1)}"]
        texts.append(f"select {others} from {other.text}{self.where(other.refs, depth + 1)}")
        alias, op = self.alias(), random.choice(_SET_OPERATIONS)
        return Query(f"select * from ({texts[0]} {op} {texts[1]}) {alias}{self.where(self.refs(alias, columns), depth + 1)}", columns)

    def _other_side(self, ref: Ref, relation: Relation) -> str:
        """Return a column of the type of `ref`, or a constant of this type."""
        is_mixed = not self.conditions.portable and self.random.random() < 0.3
        same = [other.text for other in relation.refs if other.type == ref.type or (is_mixed and other.column.kind == ref.column.kind)]
        constant = value(self.random, ref.type, ANYWHERE) if not self.conditions.portable else "null"
        return self.random.choice(same) if same else f"cast({constant} as {ref.type})"

    def _pivot(self, depth: int) -> Query:
        relation, random = self.relation(depth + 1), self.random
        numbers = [ref for ref in relation.refs if ref.column.kind == "integer"]
        if not numbers or self.conditions.portable:
            return self._rows(depth)
        self.only_in_spark()
        key, number, alias = random.choice(numbers), random.choice(numbers), self.alias()
        inner = f"select {key.text} as pk, {number.text} as pn, {number.text} % 3 as pp from {relation.text}"
        text = f"select * from ({inner}{self.where(relation.refs, depth + 1)}) pivot (count(pn) for pp in (0 as p0, 1 as p1, 2 as p2))"
        columns = [Column("pk", key.type), *(Column(f"p{place}", "bigint") for place in range(3))]
        if random.random() < 0.5:
            return Query(text, columns)
        return Query(f"select * from ({text}) {alias} where {self.conditions.condition(self.refs(alias, columns[:1]), 1)}", columns)

    def _metadata(self, depth: int) -> Query:
        """Return a query that metadata can answer."""
        random, tables = self.random, [source for source in self.sources if source.name.startswith("t")]
        relation = self.table(random.choice(tables or self.sources))
        ref = random.choice([ref for ref in relation.refs if ref.column.kind in ORDERED_KINDS] or relation.refs)
        where = "" if random.random() < 0.6 else f" where {self.conditions.condition([random.choice(relation.refs)], 2)}"
        counts = [*_ONE_COUNT, Column("n2", "bigint")]
        choices = [
            ("count(*) as n1", _ONE_COUNT),
            ("count(1) as n1", _ONE_COUNT),
            (f"count({ref.text}) as n1, count(*) as n2", counts),
            (f"distinct {ref.text} as v1", [Column("v1", ref.type)]),
        ]
        if ref.column.kind in ORDERED_KINDS:
            choices.append((f"min({ref.text}) as m1, max({ref.text}) as m2", [Column("m1", ref.type), Column("m2", ref.type)]))
            choices.append((f"max({ref.text}) as m1, count(*) as n1", [Column("m1", ref.type), *_ONE_COUNT]))
        items, columns = random.choice(choices)
        return Query(f"select {items} from {relation.text}{where}", columns)

    def _pipe(self, depth: int) -> Query:
        """Return a query that begins with FROM."""
        relation = self.table()
        self.only_in_spark()
        items, columns = self._items(self._sample(relation.refs, 3))
        if self.random.random() < 0.5:
            return Query(f"from {relation.text} select {items}{self.where(relation.refs, 1)}", columns)
        return Query(f"from {relation.text} |> where {self.conditions.condition(relation.refs)} |> select {items}", columns)

    def _random_share(self, depth: int) -> Query:
        """Return a query with a random filter, whose rows are some of the rows of a second query."""
        relation = self.table()
        items, columns = self._items(self._sample(relation.refs, 3))
        text = f"select {items} from {relation.text} where {self.conditions.condition(relation.refs, 1)}"
        self.only_in_spark()
        return Query(f"{text} and rand() < 0.5", columns, superset=text)

    def _newest_rows(self, depth: int) -> Query:
        """Return the common incremental query: the rows after the newest row of a table."""
        one, other = self.table(), self.table()
        pairs = self.pairs(one.refs, other.refs, ORDERED_KINDS)
        if not pairs:
            return self._rows(depth)
        a, b = self.random.choice(pairs)
        condition, op = self.conditions.condition(other.refs, 1), self.random.choice([">", ">=", "="])
        items, columns = self._items(self._sample(one.refs))
        return Query(
            f"select {items} from {one.text} where {a.text} {op} (select max({b.text}) from {other.text} where {condition})", columns
        )


def _can_be_sorted(columns: Sequence[Column]) -> bool:
    return all(column.kind in _SORTED_KINDS for column in columns)
