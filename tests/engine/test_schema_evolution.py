"""Schema evolution through Python, and its EXPLAIN."""

from __future__ import annotations

import pyarrow as pa
import pytest

import rowmerge
from rowmerge.errors import ConfigurationError, UnknownColumn


def test_written_rows_add_columns_with_schema_evolution(session: rowmerge.Session) -> None:
    session.sql("create table t (k int, s struct<a: int>) using delta tblproperties ('rowmerge.write.schema-evolution' = 'true')")
    rows = pa.table({"extra": ["x"], "k": pa.array([1], pa.int32()), "s": [{"b": 2}]})
    with pytest.raises(UnknownColumn, match=r"`extra`.*schema_evolution=True"):
        session.write(rows, "t", schema_evolution=False)
    session.write(rows, "t")
    session.sql("alter table t unset tblproperties ('rowmerge.write.schema-evolution')")
    more = pa.table({"K": pa.array([2], pa.int32()), "more": [True]})
    with pytest.raises(UnknownColumn, match="`more`"):
        session.write(more, "t")
    assert session.write(more, "t", schema_evolution=True).version == 3
    table_rows = [row.asDict(recursive=True) for row in session.sql("select * from t order by k").collect()]
    assert table_rows == [
        {"k": 1, "s": {"a": None, "b": 2}, "extra": "x", "more": None},
        {"k": 2, "s": None, "extra": None, "more": True},
    ]
    session.write(pa.table({"k": pa.array([3], pa.int32()), "last": [1.5]}), "t", mode="overwrite", schema_evolution=True)
    assert [tuple(row) for row in session.table("t").collect()] == [(3, None, None, None, 1.5)]
    with pytest.raises(ConfigurationError, match="schema_evolution"):
        session.write(more, "t", mode="replace", schema_evolution=True)


def test_explain_prints_new_columns_without_a_change(session: rowmerge.Session) -> None:
    session.sql("create table t (k int, x struct<a: int>) using delta")
    ((plan,),) = session.sql(
        "explain merge with schema evolution into t using (select 1 as k, named_struct('b', 2) as x, 'e' as extra) s on t.k = s.k "
        "when not matched then insert *"
    ).collect()
    assert "  new column `x`.`b` int\n  new column `extra` string" in plan
    assert session.table("t").columns == ["k", "x"]
