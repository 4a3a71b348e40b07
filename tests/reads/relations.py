"""Random items of FROM: tables, versions, change rows, derived tables, VALUES, and joins of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.reads.conditions import SHARED_KINDS, Conditions, Ref
from tests.reads.values import ANYWHERE, Column, name_in_sql, value

ORDERED_KINDS = ("integer", "decimal", "string", "date", "timestamp", "timestamp_ntz", "boolean")
_KEY_KINDS = ("integer", "date", "string", "decimal")
_CAST_KINDS = {
    "integer": ("decimal", "string", "float"),
    "decimal": ("integer", "float"),
    "float": ("integer",),
    "char": ("string",),
    "string": ("char", "integer", "date"),
    "date": ("timestamp", "string"),
    "timestamp_ntz": ("date",),
    "timestamp": ("timestamp_ntz", "date", "string"),
}
"""Kinds that Spark casts before it compares them, as in a join of numbers with texts."""
_JOINS = ("join", "inner join", "left join", "right join", "full join", "left outer join", "left semi join", "left anti join")


@dataclass(frozen=True)
class Source:
    """A table, view or common table expression that queries read.

    `versions`: suffixes such as `VERSION AS OF 3` of versions with its columns. `shared`: whether DuckDB has it too. `changes`: a call of
    `table_changes` with its rows, or None.
    """

    name: str
    columns: Sequence[Column]
    versions: Sequence[str] = ()
    shared: bool = True
    changes: str | None = None


@dataclass(frozen=True)
class Relation:
    """An item of FROM, and the columns that its query can use."""

    text: str
    refs: Sequence[Ref]
    is_join: bool = False

    @property
    def operand(self) -> str:
        """Return the text as the right side of a join."""
        return f"({self.text})" if self.is_join else self.text

    def has_unique_names(self) -> bool:
        """Return whether a derived table can have all columns under their names."""
        names = [ref.name.lower() for ref in self.refs]
        return len(set(names)) == len(names)


@dataclass(frozen=True)
class Query:
    """A query and its columns. `shared`: whether DuckDB returns the same rows.

    `limited_from`: the query without its LIMIT, if the LIMIT has no order, so that any rows of this query are other. `superset`: the query
    without its random filter.
    """

    text: str
    columns: Sequence[Column]
    shared: bool = True
    limited_from: str | None = None
    limit: int = 0
    superset: str | None = None


class RelationWriter:
    """A writer of random items of FROM over some sources.

    `ctes`: the common table expressions of the query, which are sources too. `newest`: the source that was read last. `conditions`: the
    writer of conditions, which also records whether the query means the same in DuckDB.
    """

    def __init__(self, random: Random, sources: Sequence[Source], *, case_sensitive: bool = False) -> None:
        self.random, self.sources, self.case_sensitive = random, sources, case_sensitive
        self.conditions = Conditions(random, portable=random.random() < 0.35)
        self.aliases = 0
        self.ctes: list[Source] = []
        self.newest: Source | None = None

    def body(self, depth: int) -> Query:
        """Return a query without a WITH list, for a derived table."""
        raise NotImplementedError

    def alias(self) -> str:
        """Return a new alias."""
        self.aliases += 1
        return f"q{self.aliases}"

    def name(self, start: str) -> str:
        """Return a new name of a column."""
        self.aliases += 1
        return f"{start}{self.aliases}"

    def only_in_spark(self) -> None:
        """Record that DuckDB does not run the query."""
        self.conditions.shared = False

    def relation(self, depth: int) -> Relation:
        """Return a table, a derived table, or a join."""
        choice = self.random.random()
        if depth < 2 and choice < 0.3 - 0.1 * depth:
            return self._join(depth)
        if depth < 2 and choice < 0.45:
            alias, query = self.alias(), self.body(depth + 1)
            return Relation(f"({query.text}) {self.random.choice(['', 'as '])}{alias}", self.refs(alias, query.columns))
        return self._values() if choice < 0.48 else self.table()

    def table(self, source: Source | None = None) -> Relation:
        """Return a table, a version of it, its change rows, a view or a common table expression, with or without an alias."""
        random, alias, source = self.random, self.alias(), source or self._source()
        text, columns, choice = source.name, list(source.columns), random.random()
        if not self.conditions.portable and source.versions and choice < 0.12:
            text += random.choice(source.versions)
        elif not self.conditions.portable and source.changes and choice < 0.2:
            text, columns = source.changes, [*columns, Column("_change_type", "string"), Column("_commit_version", "bigint")]
        elif choice > 0.7 and not self.case_sensitive:
            text = random.choice([text.upper(), f"`{text}`", text.capitalize()])
        if not source.shared or text.lower().strip("`") != source.name:
            self.only_in_spark()
        if choice > 0.85:
            renamed = [replace(column, name=f"a{number}") for number, column in enumerate(columns)]
            return Relation(f"{text} as {alias}({', '.join(column.name for column in renamed)})", self.refs(alias, renamed))
        if 0.5 < choice < 0.55:
            return Relation(text, self.refs(text, columns))
        return Relation(f"{text}{random.choice([' ', ' as '])}{alias}", self.refs(alias, columns))

    def _source(self) -> Source:
        """Return a source: often a common table expression, or the same source again."""
        if self.ctes and self.random.random() < 0.6:
            return self.random.choice(self.ctes)
        if self.newest is None or self.random.random() < 0.8:
            self.newest = self.random.choice([source for source in self.sources if source.shared or not self.conditions.portable])
        return self.newest

    def refs(self, alias: str, columns: Sequence[Column]) -> list[Ref]:
        """Return the columns of an alias, some of them in upper case."""
        refs = []
        for column in columns:
            name = name_in_sql(column.name)
            if not self.case_sensitive and self.random.random() < 0.1:
                name = name.upper()
            refs.append(Ref(f"{alias}.{name}", column.name, column.type))
        return refs

    def pairs(self, one: Sequence[Ref], other: Sequence[Ref], kinds: Sequence[str]) -> list[tuple[Ref, Ref]]:
        """Return pairs of columns that can be compared: with the same name, or others, and sometimes columns that Spark casts first."""
        if self.conditions.portable:
            kinds = [kind for kind in kinds if kind in SHARED_KINDS]
        elif self.random.random() < 0.1:
            cast_pairs = [(a, b) for a in one for b in other if b.column.kind in _CAST_KINDS.get(a.column.kind, ())]
            return cast_pairs or self.pairs(one, other, kinds)
        pairs = [(a, b) for a in one for b in other if a.column.kind == b.column.kind and a.column.kind in kinds]
        return [(a, b) for a, b in pairs if a.name == b.name] or pairs

    def _values(self) -> Relation:
        alias, random = self.alias(), self.random
        numbers = [str(random.randint(0, 60)) for _ in range(random.randint(1, 4))]
        rows = ", ".join(f"({number}, {random.choice(['null', value(random, 'date', ANYWHERE)])})" for number in numbers)
        return Relation(f"(values {rows}) as {alias}(k, d)", self.refs(alias, [Column("k", "int"), Column("d", "date")]))

    def _join(self, depth: int) -> Relation:
        random, one, other = self.random, self.relation(depth + 1), self.relation(depth + 1)
        common = self._common(one, other)
        choice = random.random()
        if choice < 0.15:
            return self._cross_join(one, other)
        if choice < 0.2 and not self.conditions.portable:
            return self._lateral_join(one)
        if common and choice < 0.35:
            return self._using(one, other, common)
        kind = random.choice(_JOINS)
        refs = one.refs if "semi" in kind or "anti" in kind else [*one.refs, *other.refs]
        return Relation(f"{one.text} {kind} {other.operand} on {self._on(one, other)}", refs, is_join=True)

    def _cross_join(self, one: Relation, other: Relation) -> Relation:
        """Join every row with the one row of an aggregate, with a comma or CROSS JOIN."""
        alias, inner, top, count = self.alias(), self.alias(), self.name("top"), self.name("c")
        key = next((ref for ref in other.refs if ref.column.kind in ORDERED_KINDS), None)
        item, type_ = (f"max({key.text})", key.type) if key else ("count(*)", "bigint")
        aggregate = f"(select {item} as {top}, count(*) as {count} from {other.text}) {alias}"
        refs = self.refs(alias, [Column(top, type_), Column(count, "bigint")])
        op = self.random.choice([", ", " cross join "])
        if " join " not in one.text.lower() or op != ", ":
            return Relation(f"{one.text}{op}{aggregate}", [*one.refs, *refs], is_join=True)
        if not one.has_unique_names():
            return Relation(f"{one.text} cross join {aggregate}", [*one.refs, *refs], is_join=True)
        items = ", ".join(f"{ref.text} as {name_in_sql(ref.name)}" for ref in one.refs)
        inner_refs = self.refs(inner, [ref.column for ref in one.refs])
        return Relation(f"(select {items} from {one.text}) {inner}{op}{aggregate}", [*inner_refs, *refs], is_join=True)

    def _lateral_join(self, one: Relation) -> Relation:
        """Join each row with an aggregate of the matching rows of a table."""
        alias, name, other = self.alias(), self.name("m"), self.table()
        pairs = self.pairs(one.refs, other.refs, _KEY_KINDS)
        if not pairs:
            return one
        self.only_in_spark()
        a, b = self.random.choice(pairs)
        kind = self.random.choice(["join", "left join"])
        text = f"(select count(*) as {name} from {other.text} where {b.text} = {a.text} and {self.conditions.condition(other.refs, 2)})"
        return Relation(f"{one.text} {kind} lateral {text} {alias}", [*one.refs, *self.refs(alias, [Column(name, "bigint")])], is_join=True)

    def _common(self, one: Relation, other: Relation) -> list[str]:
        """Return the names of the columns that both sides have once, with the same kind."""
        sides = []
        for relation in (one, other):
            names = [ref.name for ref in relation.refs]
            sides.append({ref.name: ref.column.kind for ref in relation.refs if names.count(ref.name) == 1})
        return [name for name, kind in sides[0].items() if sides[1].get(name) == kind and name.isidentifier()]

    def _using(self, one: Relation, other: Relation, common: Sequence[str]) -> Relation:
        """Join with USING or NATURAL. The result is a derived table with the common column."""
        random, alias = self.random, self.alias()
        kind, name = random.choice(_JOINS), "k" if "k" in common else common[0]
        type_ = next(ref.type for ref in one.refs if ref.name == name)
        items, columns = f"{name}", [Column(name, type_)]
        for relation in [one] if "semi" in kind or "anti" in kind else [one, other]:
            ref, new_name = random.choice(relation.refs), self.name("u")
            if ref.name != name:  # DuckDB and Spark qualify a USING column differently
                items, columns = f"{items}, {ref.text} as {new_name}", [*columns, Column(new_name, ref.type)]
        joined = f"select {items} from {one.text} {kind} {other.operand} using ({name})"
        if random.random() < 0.3 and list(common) == [name] and "semi" not in kind and "anti" not in kind:
            joined = f"select {items} from {one.text} natural {kind} {other.operand}"
        return Relation(f"({joined}) {alias}", self.refs(alias, columns))

    def _on(self, one: Relation, other: Relation) -> str:
        """Return an ON condition with an equality of the two sides, and perhaps conditions on each side."""
        random, pairs = self.random, self.pairs(one.refs, other.refs, _KEY_KINDS)
        if not pairs:
            return "1 = 0"
        a, b = random.choice(pairs)
        parts = [random.choice([f"{a.text} = {b.text}"] * 4 + [f"{b.text} = {a.text}", f"{a.text} <=> {b.text}"])]
        for refs in (one.refs, other.refs):
            if random.random() < 0.25:
                parts.append(self.conditions.condition(refs, 1))
        if random.random() < 0.05:
            c, d = random.choice(pairs)
            parts.append(f"{c.text} {random.choice(['<', '>=', '='])} {d.text}")
        random.shuffle(parts)
        return " and ".join(parts)
