"""Random tables, sources and statements: the rows after ours are the rows after DuckDB's own MERGE, UPDATE and DELETE."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rowmerge
from tests.engine.conftest import assert_independent_readers_agree

EXAMPLES = int(os.environ.get("ROWMERGE_DIFFERENTIAL_EXAMPLES", "60"))
COLUMNS = ("k", "v", "w", "p")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("w", pa.string()), ("p", pa.int32())])

keys = st.one_of(st.none(), st.integers(0, 12))
numbers = st.one_of(st.none(), st.integers(-3, 9))
words = st.one_of(st.none(), st.sampled_from(["a", "b", "B", "", "é'\\"]))
parts = st.one_of(st.none(), st.integers(0, 2))
rows = st.tuples(keys, numbers, words, parts)
targets = st.lists(st.lists(rows, max_size=8), min_size=0, max_size=3)
sources = st.lists(rows, max_size=8, unique_by=lambda row: row[0])

on_conditions = st.sampled_from(
    [
        "t.k = s.k",
        "t.k <=> s.k",
        "s.k = t.k and t.p = 1",
        "t.k = s.k and s.v > 0",
        "t.k = s.k and (t.v > s.v or t.w = s.w)",
        "t.k = s.k and t.p in (0, 2)",
        "t.k + 0 = s.k",
        "t.k = s.k and t.v between -1 and 5",
        "t.k = s.k and false",
    ]
)
both = st.sampled_from(["s.v > t.v", "t.w = 'a'", "s.w is null", "s.k % 2 = 0", "t.v + s.v > 3", "not (t.v = s.v)", "t.p <=> s.p"])
of_source = st.sampled_from(["s.v > 2", "s.w is not null", "s.p = 1", "s.k < 6 or s.k is null"])
of_target = st.sampled_from(
    ["t.v > 2", "t.w is null", "t.p = 1", "t.p is null", "t.k < 6", "t.v in (1, 2, 3)", "not (t.p = 0)", "t.k >= 3 and t.v < 8"]
)
values = {
    "k": st.sampled_from(["s.k", "t.k + 100", "t.k"]),
    "v": st.sampled_from(["s.v", "t.v + s.v", "null", "7", "coalesce(s.v, t.v)"]),
    "w": st.sampled_from(["s.w", "t.w || '!'", "null", "'new'", "coalesce(s.w, t.w)"]),
    "p": st.sampled_from(["s.p", "t.p", "2", "null"]),
}
alone = {
    "k": st.sampled_from(["t.k", "t.k + 100"]),
    "v": st.sampled_from(["t.v + 1", "null", "7"]),
    "w": st.sampled_from(["t.w || '!'", "null", "'gone'"]),
    "p": st.sampled_from(["t.p", "2", "null"]),
}


@st.composite
def assignments(draw: st.DrawFn, choices: dict[str, Any]) -> str:
    names = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True))
    return ", ".join(f"{name} = {draw(choices[name])}" for name in names)


@st.composite
def merges(draw: st.DrawFn) -> str:
    clauses: list[str] = []

    def add(kind: str, conditions: st.SearchStrategy[str], actions: st.SearchStrategy[str], most: int) -> None:
        count = draw(st.integers(0, most))
        for index in range(count):
            last = index == count - 1
            guard = f" and {draw(conditions)}" if not last or draw(st.booleans()) else ""
            clauses.append(f"when {kind}{guard} then {draw(actions)}")

    everything = "update set k = s.k, v = s.v, w = s.w, p = s.p"
    add("matched", both, st.one_of(st.just("delete"), st.just(everything), assignments(values).map("update set ".__add__)), 3)
    inserts = [
        "insert (k, v, w, p) values (s.k, s.v, s.w, s.p)",
        "insert (p, k) values (s.p, s.k)",
        "insert (w, k, p) values (upper(s.w), s.k + 50, 1)",
    ]
    add("not matched", of_source, st.sampled_from(inserts), 2)
    add("not matched by source", of_target, st.one_of(st.just("delete"), assignments(alone).map("update set ".__add__)), 2)
    if not clauses:
        clauses.append("when not matched then insert (k, v, w, p) values (s.k, s.v, s.w, s.p)")
    order = draw(st.permutations(range(3)))
    kinds = ["when matched", "when not matched by source", "when not matched "]
    ordered = [c for i in order for c in clauses if _kind(c, kinds) == i]
    return f"merge into TARGET t using SOURCE s on {draw(on_conditions)} " + " ".join(ordered)


def _kind(clause: str, kinds: list[str]) -> int:
    return next(index for index, kind in enumerate(kinds) if clause.startswith(kind))


updates = st.tuples(assignments(alone), of_target).map(lambda drawn: f"update TARGET t set {drawn[0]} where {drawn[1]}")
deletes = of_target.map("delete from TARGET t where {}".format)
statements = st.one_of(merges(), merges(), merges(), updates, deletes)
modes = st.sampled_from(["copy-on-write", "merge-on-read", "auto"])


# Without shrinking, which runs Spark for minutes: the statements of a failing example are short enough to read.
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(target=targets, source=sources, statement=statements, second=statements, mode=modes, partitioned=st.booleans())
def test_two_statements_leave_the_rows_that_duckdb_leaves(
    spark: SparkSession,
    tmp_path_factory: Any,
    target: list[list[tuple[Any, ...]]],
    source: list[tuple[Any, ...]],
    statement: str,
    second: str,
    mode: str,
    partitioned: bool,
) -> None:
    warehouse: Path = tmp_path_factory.mktemp("differential")
    event(f"{mode}, {'partitioned' if partitioned else 'not partitioned'}")
    session = rowmerge.connect(str(warehouse), spark=spark)
    by = "partitioned by (p)" if partitioned else ""
    session.sql(f"create table t (k bigint, v int, w string, p int) {by} tblproperties ('rowmerge.write.mode' = '{mode}')")
    for batch in target:
        if batch:
            session.write(_table(batch), "t")
    view = f"source_{uuid.uuid4().hex}"
    spark.createDataFrame(_table(source)).createOrReplaceTempView(view)
    oracle = duckdb.connect()
    for name, content in (("target", [row for batch in target for row in batch]), ("source", source)):
        arrow = _table(content)
        oracle.execute(f"create table {name} as select * from arrow")
        assert arrow.num_rows == len(content)
    for text in (statement, second):
        oracle.execute(_for_duckdb(text))
        # The source is unique on its key, so no target row can meet two source rows.
        session.sql(text.replace("TARGET", "t").replace("SOURCE", view))
        got = sorted(map(tuple, (row.values() for row in session.table("t").toArrow().select(COLUMNS).to_pylist())), key=repr)
        wanted = sorted(oracle.execute("select k, v, w, p from target").fetchall(), key=repr)
        assert got == wanted, text
    assert_independent_readers_agree(session)
    spark.catalog.dropTempView(view)


def _for_duckdb(text: str) -> str:
    return text.replace("TARGET", "target").replace("SOURCE", "source").replace("<=>", "is not distinct from")


def _table(content: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in content], schema=SCHEMA)
