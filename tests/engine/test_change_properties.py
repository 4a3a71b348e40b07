"""Random statements: the change rows of a version, applied to the rows of the previous version, give its rows."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings, strategies as st
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import MultipleSourceRowsMatch
from tests.engine import test_differential as differential
from tests.support.suites import examples

NAMES = ", ".join(differential.COLUMNS)

replacements = st.sampled_from(
    [
        f"insert into TARGET replace using (k) select {NAMES} from SOURCE",
        f"insert into TARGET replace where k < 6 select {NAMES} from SOURCE where k < 6",
        f"insert overwrite TARGET select {NAMES} from SOURCE",
        f"insert into TARGET select {NAMES} from SOURCE",
        "merge into TARGET t using (select k from SOURCE union all select k from SOURCE) s on t.k = s.k when matched then delete",
    ]
)
changes = differential.statements.map(lambda change: change.text)
statements = st.one_of(changes, changes, replacements)


@pytest.mark.property_test
@settings(
    max_examples=examples(gate=2, full=6, soak=100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    target=differential.targets,
    source=differential.sources,
    texts=st.lists(statements, min_size=2, max_size=3),
    mode=differential.modes,
    partitioned=st.booleans(),
)
def test_change_rows_turn_one_version_into_the_next(
    spark: SparkSession,
    tmp_path_factory: Any,
    target: list[list[tuple[Any, ...]]],
    source: list[tuple[Any, ...]],
    texts: list[str],
    mode: str,
    partitioned: bool,
) -> None:
    warehouse: Path = tmp_path_factory.mktemp("changes")
    event(f"{mode}, {'partitioned' if partitioned else 'not partitioned'}")
    session = rowmerge.connect(str(warehouse), spark=spark)
    by = "partitioned by (p)" if partitioned else ""
    keeps = f"'delta.enableChangeDataFeed' = 'true', 'rowmerge.write.mode' = '{mode}'"
    session.sql(f"create table t (k bigint, v int, w string, p int) {by} tblproperties ({keeps})")
    for batch in target:
        if batch:
            session.write(differential._table(batch), "t")
    view = f"source_{uuid.uuid4().hex}"
    spark.createDataFrame(differential._table(source)).createOrReplaceTempView(view)
    version = session.describe("default", "t").version
    for text in texts:
        old_rows = rows(session, f"t version as of {version}")
        with suppress(MultipleSourceRowsMatch):
            session.sql(text.replace("TARGET", "t").replace("SOURCE", view))
        newest = session.describe("default", "t").version
        new_rows = rows(session, "t")
        if newest == version:
            assert new_rows == old_rows, text
            continue
        removed_rows = rows(session, f"table_changes('t', {newest}, {newest})", "where _change_type in ('delete', 'update_preimage')")
        added_rows = rows(session, f"table_changes('t', {newest}, {newest})", "where _change_type in ('insert', 'update_postimage')")
        assert removed_rows <= old_rows, text
        assert old_rows - removed_rows + added_rows == new_rows, text
        version = newest
    spark.catalog.dropTempView(view)


def rows(session: rowmerge.Session, relation: str, condition: str = "") -> Counter[tuple[Any, ...]]:
    """Return the rows of a relation, each with its number of occurrences."""
    return Counter(tuple(row) for row in session.sql(f"select {NAMES} from {relation} {condition}").collect())
