"""Random tables, sources and statements: our rows equal those of DuckDB's MERGE, UPDATE, DELETE and INSERT.

An example is one or more statements on one table, so that files with deletion vectors and rewritten files accumulate.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings, strategies as st
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import MultipleSourceRowsMatch
from rowmerge.execution.ways import row_writing, way, write_first
from rowmerge.spark.source import source as source_module, writing as source_writing
from tests.engine.conftest import assert_independent_readers_agree
from tests.support.readers import read_with_delta_rs, read_with_duckdb_iceberg
from tests.support.suites import examples

STATEMENTS_A_TABLE = 5
EXAMPLES = examples(gate=3, full=20, soak=400)
"""Each example is a table with up to five statements."""
COLUMNS = ("k", "v", "w", "p")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("w", pa.string()), ("p", pa.int32())])

keys = st.one_of(st.none(), st.integers(0, 12))
numbers = st.one_of(st.none(), st.integers(-3, 9))
words = st.one_of(st.none(), st.sampled_from(["a", "b", "B", "", "é'\\"]))
parts = st.one_of(st.none(), st.integers(0, 2))
rows = st.tuples(keys, numbers, words, parts)
targets = st.lists(st.lists(rows, min_size=1, max_size=10), min_size=0, max_size=2)
sources = st.one_of(
    st.lists(rows, max_size=8, unique_by=lambda row: row[0]),
    st.lists(rows, max_size=8, unique_by=lambda row: row[0]),
    st.lists(rows, max_size=6),
)

on_conditions = st.sampled_from(
    [
        "t.k = s.k",
        "t.k = s.k",
        "t.k <=> s.k",
        "s.k = t.k and t.p = 1",
        "t.k = s.k and s.v > 0",
        "t.k = s.k and (t.v > s.v or t.w = s.w)",
        "t.k = s.k and t.p in (0, 2)",
        "t.k = s.k and t.p <=> s.p",
        "t.k = s.k and t.w = s.w and t.v >= s.v",
        "t.k + 0 = s.k",
        "t.k = s.k + 1",
        "t.k = s.k and t.v between -1 and 5",
        "t.k between s.k and s.k + 1",
        "t.k = s.k or t.v = s.v",
        "t.k <= s.k and t.p = s.p",
        "t.p = 1 and t.v > 3",
        "s.p = 1 and s.k = t.k",
        "t.k = s.k and false",
    ]
)
of_target = st.sampled_from(
    [
        "t.v > 2",
        "t.w is null",
        "t.p = 1",
        "t.p is null",
        "t.k < 6",
        "t.v in (1, 2, 3)",
        "t.v not in (1, null)",
        "not (t.p = 0)",
        "t.k >= 3 and t.v < 8",
        "t.p = 1 or t.k = 4",
        "t.w like '%!' or t.w = ''",
        "t.p <=> null",
        "t.k % 3 = 0",
        "coalesce(t.p, 1) between 1 and 2",
    ]
)
of_source = st.sampled_from(["s.v > 2", "s.w is not null", "s.p = 1", "s.k < 6 or s.k is null", "s.k not in (1, 2, 3)"])
both = st.one_of(
    st.sampled_from(["s.v > t.v", "t.w = 'a'", "s.w is null", "s.k % 2 = 0", "t.v + s.v > 3", "not (t.v = s.v)", "t.p <=> s.p"]),
    of_source,
    of_target,
)
keys_alone = st.sampled_from(
    ["t.k = s.k", "t.k <=> s.k", "t.k = s.k and t.p = s.p", "s.p <=> t.p and t.k = s.k", "t.w = s.w and t.k <=> s.k"]
)
with_queries = st.sampled_from(
    [
        "t.k in (select k from SOURCE)",
        "t.k not in (select k from SOURCE)",
        "t.k not in (select k from SOURCE where k is not null)",
        "exists (select 1 from SOURCE s where s.k = t.k and s.v > t.v)",
        "not exists (select 1 from SOURCE s where s.k = t.k)",
        "t.v = (select max(v) from SOURCE)",
        "t.v >= (select avg(v) from TARGET)",
        "t.k in (select x.k from TARGET x group by x.k having count(*) > 1)",
        "t.p = 1 and t.k in (select k from SOURCE where p = 1)",
        "t.v > 2 or t.k in (select k from SOURCE where k is not null)",
    ]
)
values = {
    "k": st.sampled_from(["s.k", "t.k + 100", "t.k"]),
    "v": st.sampled_from(["s.v", "t.v + s.v", "null", "7", "coalesce(s.v, t.v)", "case when s.v > t.v then s.v else t.v end"]),
    # DuckDB's `concat` skips NULL, Spark's does not, so the test uses `||`.
    "w": st.sampled_from(["s.w", "t.w || '!'", "null", "'new'", "coalesce(s.w, t.w)"]),
    "p": st.sampled_from(["s.p", "t.p", "2", "null"]),
}
alone = {
    "k": st.sampled_from(["t.k", "t.k + 100"]),
    "v": st.sampled_from(["t.v + 1", "null", "7", "t.p"]),
    "w": st.sampled_from(["t.w || '!'", "null", "'gone'"]),
    "p": st.sampled_from(["t.p", "2", "null", "t.v % 3"]),
}
looked_up = {**alone, "v": st.sampled_from(["(select max(v) from SOURCE)", "(select count(*) from TARGET)", "t.v + 1"])}


Clauses = list[tuple[str, str]]
MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"


@dataclass(frozen=True)
class Change:
    """A statement. For a MERGE, also its ON condition and the conditions of its MATCHED clauses, which can match twice."""

    text: str
    on: str = ""
    matched: tuple[tuple[str, str], ...] = ()

    @property
    def doubles(self) -> str | None:
        """Return a query for target rows that more than one source row would change, or None if the statement allows that."""
        if not self.matched or self.matched == (("true", "delete"),):
            return None
        fired = " or ".join(f"coalesce(({condition}), false)" for condition, _ in self.matched)
        return f"select t.rowid from TARGET t join SOURCE s on {self.on} where {fired} group by t.rowid having count(*) > 1"


def assignments(choices: dict[str, Any]) -> st.SearchStrategy[str]:
    names = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)
    return names.flatmap(lambda drawn: st.tuples(*(choices[name].map(f"{name} = {{}}".format) for name in drawn))).map(", ".join)


everything = "update set k = s.k, v = s.v, w = s.w, p = s.p"
new = [
    "insert (k, v, w, p) values (s.k, s.v, s.w, s.p)",
    "insert (p, k) values (s.p, s.k)",
    "insert (w, k, p) values (upper(s.w), s.k + 50, 1)",
]


@st.composite
def merges(draw: st.DrawFn) -> Change:
    changed = st.one_of(st.just("delete"), st.just(everything), assignments(values).map("update set ".__add__))
    matched = draw(clauses(both, changed, 3))
    unmatched = draw(clauses(of_source, st.sampled_from(new), 2))
    by_source = draw(clauses(of_target, st.one_of(st.just("delete"), assignments(alone).map("update set ".__add__)), 3))
    return _merge(draw(on_conditions), draw(st.permutations([MATCHED, NOT_MATCHED, BY_SOURCE])), matched, unmatched, by_source)


@st.composite
def merges_by_keys(draw: st.DrawFn) -> Change:
    """Draw merges that need no join: only the source decides which change each row gets."""
    matched = draw(clauses(of_source, st.sampled_from(["delete", everything, everything]), 3))
    unmatched = draw(clauses(of_source, st.sampled_from([new[0], *new]), 2))
    return _merge(draw(keys_alone), [MATCHED, NOT_MATCHED], matched, unmatched, [])


@st.composite
def clauses(draw: st.DrawFn, conditions: st.SearchStrategy[str], actions: st.SearchStrategy[str], most: int) -> list[tuple[str, str]]:
    """Draw conditions and actions. The last clause can have no condition."""
    count = draw(st.integers(0, most))
    return [(draw(conditions) if index < count - 1 or draw(st.booleans()) else "true", draw(actions)) for index in range(count)]


def _merge(on: str, kinds: list[str], matched: Clauses, unmatched: Clauses, by_source: Clauses) -> Change:
    if not matched and not unmatched and not by_source:
        unmatched = [("true", new[0])]
    listed = {MATCHED: matched, NOT_MATCHED: unmatched, BY_SOURCE: by_source}
    whens = [(kind, *clause) for kind in kinds for clause in listed[kind]]
    when_clauses = [f"when {kind}{'' if condition == 'true' else f' and {condition}'} then {action}" for kind, condition, action in whens]
    return Change(f"merge into TARGET t using SOURCE s on {on} {' '.join(when_clauses)}", on, tuple(matched))


updates = st.one_of(
    st.tuples(assignments(alone), st.one_of(of_target, with_queries)),
    st.tuples(assignments(looked_up), of_target),
).map(lambda drawn: Change(f"update TARGET t set {drawn[0]} where {drawn[1]}"))
deletes = st.one_of(of_target, with_queries).map(lambda condition: Change(f"delete from TARGET t where {condition}"))
inserts = st.sampled_from(["true", "k > 3", "p = 1"]).map(lambda c: Change(f"insert into TARGET select k, v, w, p from SOURCE where {c}"))
statements = st.one_of(merges(), merges(), merges(), merges_by_keys(), merges_by_keys(), updates, deletes, inserts)
modes = st.sampled_from(["copy-on-write", "merge-on-read", "auto"])
prepared_row_limits = st.sampled_from([100_000, 0])
"""The number of rows that a MERGE can prepare before it is decided which rows it needs."""
MAX_FOUND_ROWS, MAX_KEYS_FOR_PAGE_SKIPPING, EXECUTORS_LOOK_UP = (
    "rowmerge.spark.matching.driver_lookup.MAX_FOUND_ROWS",
    "rowmerge.spark.matching.key_lookup.MAX_KEYS_FOR_PAGE_SKIPPING",
    "rowmerge.spark.matching.key_lookup._executors_look_up",
)
ON_DRIVER: dict[str, Any] = {MAX_KEYS_FOR_PAGE_SKIPPING: 0}
readers = st.sampled_from([{}, {MAX_FOUND_ROWS: -1}, ON_DRIVER, ON_DRIVER | {EXECUTORS_LOOK_UP: lambda spark, files: True}])
"""Settings for the search of matched rows: the engine's choice, always Spark, or a lookup wherever possible."""


@pytest.mark.property_test
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
# Hypothesis does not shrink, which would run Spark for minutes. The statements of a failing example are short enough to read.
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    target=targets,
    changes=st.lists(st.tuples(statements, sources), min_size=STATEMENTS_A_TABLE, max_size=STATEMENTS_A_TABLE),
    mode=modes,
    reader=readers,
    max_prepared_rows=prepared_row_limits,
    max_keys=st.sampled_from([0, 10_000_000]),
    late_columns=st.booleans(),
    partitioned=st.booleans(),
)
def test_random_statements_give_the_same_rows_as_duckdb(
    spark: SparkSession,
    tmp_path_factory: Any,
    target: list[list[tuple[Any, ...]]],
    changes: list[tuple[Change, list[tuple[Any, ...]]]],
    mode: str,
    reader: dict[str, Any],
    max_prepared_rows: int,
    max_keys: int,
    late_columns: bool,
    partitioned: bool,
    format_: str,
) -> None:
    warehouse: Path = tmp_path_factory.mktemp("differential")
    event(f"{format_}, {mode}, {'partitioned' if partitioned else 'not partitioned'}")
    session = rowmerge.connect(str(warehouse), spark=spark, default_format=format_)
    by = "partitioned by (p)" if partitioned else ""
    session.sql(f"create table t (k bigint, v int, w string, p int) {by} tblproperties ('rowmerge.write.mode' = '{mode}')")
    for batch in target:
        session.write(_table(batch), "t")
    location = session.describe("default", "t").location
    oracle = duckdb.connect()
    oracle.register("batches", _table([row for batch in target for row in batch]))
    oracle.execute("create table target as select * from batches")
    for change, source in changes:
        view = f"source_{uuid.uuid4().hex}"
        spark.createDataFrame(_table(source)).createOrReplaceTempView(view)
        oracle.register("source", _table(source))
        ours = change.text.replace("TARGET", "t").replace("SOURCE", view)
        if change.doubles is not None and oracle.execute(_for_duckdb(change.doubles)).fetchone() is not None:
            event("a target row is matched twice")
            with pytest.raises(MultipleSourceRowsMatch):
                session.sql(ours)
        else:
            oracle.execute(_for_duckdb(change.text))
            with pytest.MonkeyPatch.context() as patch:
                for name, value in reader.items():
                    patch.setattr(name, value)
                patch.setattr(source_module, "MAX_PREPARED_ROWS", max_prepared_rows)
                patch.setattr(write_first, "reads_few_bytes", lambda _: max_prepared_rows > 0)
                patch.setattr(source_writing, "max_collected_keys", lambda _, limit=max_keys: limit)
                if late_columns:  # the writer reads the columns that updated rows keep, also for few rows
                    patch.setattr(way, "MIN_LATE_ROW_BYTES", 0)
                    patch.setattr(row_writing, "_are_few_rows", lambda plan, files, source: False)
                    patch.setattr(source_module, "MAX_BROADCAST_BYTES", -1)
                session.sql(ours)
        spark.catalog.dropTempView(view)
        table_rows = read_with_delta_rs(location) if format_ == "delta" else read_with_duckdb_iceberg(location)
        assert _sorted(table_rows) == _sorted(oracle.execute("select k, v, w, p from target").to_arrow_table()), ours
    assert_independent_readers_agree(session)


def _for_duckdb(text: str) -> str:
    return text.replace("TARGET", "target").replace("SOURCE", "source").replace("<=>", "is not distinct from")


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in COLUMNS) for row in table.to_pylist()), key=repr)


def _table(content: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in content], schema=SCHEMA)
