"""Random statements that change a table: the rows afterwards must not depend on the files that the statement skipped.

Each statement runs twice: on a shallow clone of a table, and on a copy in one file without statistics. Nothing can be skipped in the copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from tests.reads.conditions import Ref
from tests.reads.queries import QueryWriter
from tests.reads.relations import Source
from tests.reads.tables import TableScript

TARGET = "CHANGED_TABLE"
"""The name of the table in a statement."""
_WITHOUT_STATISTICS = {
    "delta": "'delta.dataSkippingNumIndexedCols' = '0', 'delta.columnMapping.mode' = 'name'",
    "iceberg": "'write.metadata.metrics.default' = 'none'",
}


class ChangeWriter(QueryWriter):
    """A writer of random DELETE, UPDATE, MERGE and INSERT statements on a table with the columns k and v."""

    def __init__(self, random: Random, sources: Sequence[Source], target: TableScript, *, case_sensitive: bool = False) -> None:
        super().__init__(random, sources, case_sensitive=case_sensitive)
        self.target = self.refs("a", target.columns)

    def statement(self) -> str:
        """Return a random statement."""
        random = self.random
        match random.randrange(7):
            case 0:
                return f"delete from {TARGET} a{self.where(self.target, 1) or ' where a.k = 5'}"
            case 1:
                return f"update {TARGET} a set v = {random.choice(['77', 'a.v + 1', 'null'])}{self.where(self.target, 1)}"
            case 2:
                return f"insert into {TARGET} (k, v) {self._keys()}"
            case 3:
                return f"create table {TARGET} using iceberg as {self.body(1).text}"
        return self._merge()

    def _keys(self) -> str:
        """Return a query for keys and values that fit into each integer type."""
        relation = self.relation(1)
        numbers = [ref.text for ref in relation.refs if ref.column.kind == "integer"] or ["7"]
        items = ", ".join(f"cast({self.random.choice(numbers)} % 100 as int) as {name}" for name in ("k", "v"))
        return f"select {items} from {relation.text}{self.where(relation.refs, 1)}"

    def _merge(self) -> str:
        """Return a MERGE whose source has each key once."""
        random = self.random
        source = [Ref("s.k", "k", "int"), Ref("s.v", "v", "int")]
        query = f"(select k, min(v) as v from ({self._keys()}) group by k) s"
        on = [random.choice(["a.k = s.k", "a.k = s.k", "s.k = a.k", "a.k <=> s.k"])]
        for refs in (self.target, source):
            if random.random() < 0.3:
                on.append(self.conditions.condition(refs, 1))
        clauses = [
            f"when matched{self._and([*self.target, *source])} then {random.choice(['delete', 'update set v = s.v', 'update set v = 9'])}"
        ]
        if random.random() < 0.5:
            clauses.append(f"when not matched{self._and(source)} then insert (k, v) values (s.k, s.v)")
        if random.random() < 0.4:
            action = random.choice(["delete", "update set v = 8"])
            clauses.append(f"when not matched by source and {self.conditions.condition(self.target, 1)} then {action}")
        random.shuffle(clauses)
        return f"merge into {TARGET} a using {query} on {' and '.join(on)} {' '.join(clauses)}"

    def _and(self, refs: Sequence[Ref]) -> str:
        return f" and {self.conditions.condition(refs, 1)}" if self.random.random() < 0.5 else ""


def can_be_copied(table: TableScript) -> bool:
    """Return whether a copy has the same columns.

    The copy lacks defaults and stores CHAR as text of its length. It does not compute generated columns of an instant, which depend on the
    zone of the session.
    """
    lacks_parts = any(re.search(r" default | generated always as .*\bts\b", statement) for statement in table.statements)
    return not lacks_parts and all(column.kind != "char" for column in table.columns)


def clone_statement(table: TableScript, name: str) -> str:
    """Return the statement that clones a table with its files."""
    return f"create table {name} shallow clone {table.name}"


def copy_statement(table: TableScript, name: str) -> str:
    """Return the statement that copies a table into one file without statistics."""
    properties = _WITHOUT_STATISTICS[table.format]
    return f"create table {name} using {table.format} tblproperties ({properties}) as select /*+ coalesce(1) */ * from {table.name}"
