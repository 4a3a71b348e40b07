"""Iceberg on Spark and rowmerge read and change the tables and views of each other in one Hive metastore."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rowmerge
from tests.engine.jvm_peer import ICEBERG_JAR, JvmPeer, iceberg_with_hive_on_spark
from tests.support.hive_metastore import emptied_hive, needs_hive

pytestmark = [needs_hive, pytest.mark.skipif(not ICEBERG_JAR, reason="ROWMERGE_ICEBERG_JAR names no jar of Iceberg's Spark runtime")]


@pytest.fixture
def configuration(hive_metastore: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Any]]:
    with emptied_hive(hive_metastore, f"file://{tmp_path}/warehouse") as configuration:
        yield configuration


@pytest.fixture
def iceberg_spark(configuration: dict[str, Any]) -> Iterator[JvmPeer]:
    iceberg = iceberg_with_hive_on_spark(configuration["uri"], configuration["warehouse"])
    yield iceberg
    iceberg.close()


@pytest.fixture
def ours(spark: SparkSession, configuration: dict[str, Any]) -> rowmerge.Session:
    session = rowmerge.connect(catalog={**configuration, "name": "h"}, spark=spark, schema="raw")
    session.sql("create schema raw")
    return session


def test_tables_and_views_are_shared(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    ours.sql("create table t (id bigint, v string, at timestamp)")
    ours.sql("insert into t values (1, 'ours', timestamp'2024-01-01'), (2, 'ours', null)")
    iceberg_spark.sql("update h.raw.t set v = 'theirs' where id = 2")
    ours.sql("update t set v = 'ours again' where id = 1")
    assert iceberg_spark.sql("select id, v from h.raw.t") == ['{"id":1,"v":"ours again"}', '{"id":2,"v":"theirs"}']
    iceberg_spark.sql("create table h.raw.theirs using iceberg as select 5 as id")
    ours.sql("insert into theirs values (6)")
    assert iceberg_spark.sql("select * from h.raw.theirs") == ['{"id":5}', '{"id":6}']

    ours.sql("create view v (id comment 'key', v) comment 'words' as select id, v from raw.t where id > 1")
    assert iceberg_spark.sql("select * from h.raw.v") == ['{"id":2,"v":"theirs"}']
    assert iceberg_spark.sql("show tables in h.raw") == [
        '{"namespace":"raw","tableName":"t","isTemporary":false}',
        '{"namespace":"raw","tableName":"theirs","isTemporary":false}',
    ]
    iceberg_spark.sql("create or replace view h.raw.v as select id from h.raw.t")
    assert [row.id for row in ours.sql("select id from v order by id").collect()] == [1, 2]
    ours.sql("create or replace view v as select max(id) as top from raw.t")
    assert iceberg_spark.sql("select * from h.raw.v") == ['{"top":2}']
    iceberg_spark.sql("alter view h.raw.v rename to h.raw.w")
    ours.sql("alter view w rename to x")
    assert '"viewName":"x"' in str(iceberg_spark.sql("show views in h.raw"))
    iceberg_spark.sql("create view h.raw.of_spark as select id, v from h.raw.t where id = 1")
    assert ours.sql("select v from of_spark").collect() == [("ours again",)]
    assert [row.viewName for row in ours.sql("show views").collect()] == ["of_spark", "x"]
    ours.sql("drop view of_spark")
    iceberg_spark.sql("drop view h.raw.x")
    assert ours.sql("show views").collect() == [] == iceberg_spark.sql("show views in h.raw")
