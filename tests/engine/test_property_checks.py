"""Statements check the properties that they set, and tables with properties of other engines stay readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rowmerge
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from tests.support.readers import newest_metadata

FORMATS = ("delta", "iceberg")
MISSPELT = {"delta": ("delta.appendOnlyy", "delta.appendOnly"), "iceberg": ("write.mrege.mode", "write.merge.mode")}
INVALID = {"delta": ("delta.checkpointPolicy", "banana"), "iceberg": ("write.metadata.metrics.default", "bogus")}
REJECTED = {"delta": ("delta.universalFormat.enabledFormats", "hudi"), "iceberg": ("write.format.default", "orc")}


def set_as_another_engine(session: rowmerge.Session, properties: dict[str, str]) -> None:
    """Add properties to the table `t` without any check, in a commit of its own."""
    location = Path(session.describe("default", "t").location.removeprefix("file:"))
    log = location / "_delta_log"
    if log.exists():
        commits = sorted(log.glob("*.json"))
        metadata = next(action["metaData"] for line in commits[0].read_text().splitlines() if "metaData" in (action := json.loads(line)))
        metadata["configuration"] |= properties
        (log / f"{len(commits):020}.json").write_text(json.dumps({"metaData": metadata}))
        return
    newest = Path(newest_metadata(str(location)))
    version = int(newest.name.removeprefix("v").split(".")[0])
    metadata = json.loads(newest.read_text())
    metadata["properties"] |= properties
    newest.with_name(f"v{version + 1}.metadata.json").write_text(json.dumps(metadata))


def files_of(session: rowmerge.Session) -> set[Path]:
    return set(Path(session.describe("default", "t").location.removeprefix("file:")).rglob("*"))


@pytest.mark.parametrize("format_", FORMATS)
def test_statements_refuse_misspelt_invalid_and_rejected_properties(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session
    name, similar_name = MISSPELT[format_]
    session.sql(f"create table t (id int) using {format_}")
    for statement in ("create table u (id int) using {} tblproperties ('{}' = '{}')", "alter table t set tblproperties ('{1}' = '{2}')"):
        with pytest.raises(ConfigurationError, match=rf"no table property {name}\. Did you mean {similar_name}\?"):
            session.sql(statement.format(format_, name, "true"))
        for name_, value in (INVALID[format_], REJECTED[format_]):
            with pytest.raises(ConfigurationError, match=f"{name_} (is|cannot be) '{value}'"):
                session.sql(statement.format(format_, name_, value))
    assert not session.sql("show tables").filter("tableName = 'u'").collect()


@pytest.mark.parametrize("format_", FORMATS)
def test_tables_with_properties_of_other_engines_can_be_read_and_written(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session
    session.sql(f"create table t (id int) using {format_}")
    session.sql("insert into t values (1)")
    invalid_name, value = INVALID[format_]
    unknown_name = f"{MISSPELT[format_][0]}2"
    # The bad value fails only a statement that needs it.
    set_as_another_engine(session, {unknown_name: "x", "delta.checkpointPolicy" if format_ == "delta" else "gc.enabled": "banana"})
    session.sql("insert into t values (2)")
    session.sql("alter table t set tblproperties ('owner' = 'ann')")
    assert [row.id for row in session.sql("select id from t order by id").collect()] == [1, 2]
    with pytest.raises(ConfigurationError, match=f"{invalid_name} is '{value}2'"):
        session.sql(f"alter table t set tblproperties ('{invalid_name}' = '{value}2')")


@pytest.mark.parametrize("format_", FORMATS)
def test_a_rejected_property_of_another_engine_stops_writes_before_a_file_is_written(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session
    session.sql(f"create table t (id int) using {format_}")
    session.sql("insert into t values (1)")
    name, value = REJECTED[format_]
    set_as_another_engine(session, {name: value})
    files_before = files_of(session)
    for statement in (
        "insert into t values (2)",
        "update t set id = 3",
        "delete from t where id = 1",
        "merge into t using (select 1 as id) s on s.id = t.id when matched then update set id = 4",
        "insert overwrite t values (5)",
        "optimize t",
    ):
        with pytest.raises(UnsupportedTableFeature, match=f"{name} = {value}"):
            session.sql(statement)
    assert files_of(session) == files_before
    assert [row.id for row in session.sql("select id from t").collect()] == [1]
    session.sql(f"alter table t unset tblproperties ('{name}')")
    session.sql("insert into t values (2)")
    assert session.sql("select count(*) from t").collect() == [(2,)]


@pytest.mark.parametrize("format_", FORMATS)
def test_show_tblproperties_names_the_default_of_a_property_that_is_not_set(bare_session: rowmerge.Session, format_: str) -> None:
    session = bare_session
    session.sql(f"create table t (id int) using {format_} tblproperties ('owner' = 'ann')")
    name, default = {"delta": ("delta.checkpointInterval", "10"), "iceberg": ("write.merge.mode", "copy-on-write")}[format_]
    assert session.sql(f"show tblproperties t ('{name}')").collect() == [
        (name, f"Table does not have property: {name} (default: {default})")
    ]
    assert session.sql("show tblproperties t ('owner')").collect() == [("owner", "ann")]
    assert session.sql("show tblproperties t (nobody)").collect() == [("nobody", "Table does not have property: nobody")]


METRICS = "write.metadata.metrics.column"


@pytest.mark.parametrize(("column", "advice"), [("nope", "Name a column"), ("ID", "Did you mean id"), ("s.b", "Did you mean s.a")])
def test_metrics_of_a_column_that_the_table_lacks_are_refused(bare_session: rowmerge.Session, column: str, advice: str) -> None:
    session, properties = bare_session, f"tblproperties ('{METRICS}.{column}' = 'counts')"
    session.sql("create table t (id int, s struct<a: int>) using iceberg")
    for statement in (
        f"create table u (id int, s struct<a: int>) using iceberg {properties}",
        f"create or replace table t (id int, s struct<a: int>) using iceberg {properties}",
        f"alter table t set {properties}",
    ):
        with pytest.raises(ConfigurationError, match=f"{METRICS}.{column} names no column of .*{advice}"):
            session.sql(statement)
    session.sql(f"alter table t set tblproperties ('{METRICS}.s.a' = 'none', '{METRICS}.s' = 'none', '{METRICS}.id' = 'none')")
    session.sql("alter table t drop column s")
    set_as_another_engine(session, {f"{METRICS}.{column}": "counts"})
    session.sql("alter table t set tblproperties ('owner' = 'ann')")
    session.sql("insert into t values (1)")
    assert session.sql("select id from t").collect() == [(1,)]


def test_properties_of_pyiceberg_are_stored_or_refused_by_name(bare_session: rowmerge.Session) -> None:
    bare_session.sql("create table t (id int) using iceberg tblproperties ('write.parquet.row-group-limit' = '5')")
    with pytest.raises(ConfigurationError, match=r"write.py-location-provider.impl cannot be 'a.B'. A class of pyiceberg"):
        bare_session.sql("alter table t set tblproperties ('write.py-location-provider.impl' = 'a.B')")
