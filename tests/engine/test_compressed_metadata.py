"""Metadata files compressed with gzip: a catalog of pyiceberg writes them, and a table in a folder rejects the property."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConfigurationError
from tests.support.readers import read_with_duckdb_iceberg, rows_of

CODEC = "write.metadata.compression-codec"


@pytest.fixture
def pyiceberg_catalog(tmp_path: Path) -> Catalog:
    return load_catalog("default", **_configuration(tmp_path))


@pytest.fixture
def catalog_session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    session = rowmerge.connect(catalog=_configuration(tmp_path), spark=spark, schema="raw")
    session.sql("create schema raw")
    return session


def _configuration(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/w"}


def metadata_files(tmp_path: Path) -> list[Path]:
    """Return the metadata files of the only table, in the order of their versions."""
    return sorted((tmp_path / "w").rglob("*.metadata.json"))


def is_compressed(path: Path) -> bool:
    """Return whether a metadata file is compressed, after a comparison with its name."""
    data = path.read_bytes()
    is_gzip = data.startswith(b"\x1f\x8b")
    assert is_gzip == path.name.endswith(".gz.metadata.json")
    assert json.loads(gzip.decompress(data) if is_gzip else data)["format-version"] == 2
    return is_gzip


def test_a_catalog_compresses_the_metadata_of_tables_with_the_property(
    catalog_session: rowmerge.Session, pyiceberg_catalog: Catalog, tmp_path: Path
) -> None:
    session = catalog_session
    session.sql(f"create table t (id bigint) tblproperties ('{CODEC}' = 'gzip')")
    session.sql("insert into t values (1)")
    session.sql("insert into t values (2)")
    assert [is_compressed(path) for path in metadata_files(tmp_path)] == [True] * 3
    table = pyiceberg_catalog.load_table("raw.t")
    assert table.metadata_location.endswith(".gz.metadata.json") and table.metadata_location.rpartition("/")[2].startswith("00002-")
    assert sorted(rows_of(table.scan().to_arrow())) == rows_of(read_with_duckdb_iceberg(table.metadata_location, "id")) == [(1,), (2,)]
    table.append(session.sql("select 3L as id").toArrow())  # pyiceberg ignores the property
    session.sql("delete from t where id = 1")
    assert [is_compressed(path) for path in metadata_files(tmp_path)] == [True] * 3 + [False, True]
    session.sql(f"alter table t unset tblproperties ('{CODEC}')")
    session.sql("insert into t values (4)")
    assert [is_compressed(path) for path in metadata_files(tmp_path)][5:] == [False, False]
    assert sorted(session.sql("select id from t").collect()) == [(2,), (3,), (4,)]


def test_compressed_metadata_files_stay_while_the_metadata_log_lists_them(
    catalog_session: rowmerge.Session, pyiceberg_catalog: Catalog, tmp_path: Path
) -> None:
    session = catalog_session
    session.sql(f"create table t (id bigint) tblproperties ('{CODEC}' = 'GZIP', 'write.metadata.previous-versions-max' = '2')")
    for id_ in range(5):
        session.sql(f"insert into t values ({id_})")
    session.sql("vacuum t")
    metadata = pyiceberg_catalog.load_table("raw.t").metadata
    logged_paths = [Path(entry.metadata_file.removeprefix("file://")) for entry in metadata.metadata_log]
    assert [is_compressed(path) for path in logged_paths] == [True, True]
    assert len(rows_of(pyiceberg_catalog.load_table("raw.t").scan().to_arrow())) == 5
    session.sql("drop table t")
    assert not any(path.exists() for path in logged_paths)


def test_a_table_in_a_folder_rejects_compressed_metadata(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    session = bare_session
    message = rf"{CODEC} is 'gzip', but .*t is not in a catalog"
    with pytest.raises(ConfigurationError, match=message):
        session.sql(f"create table t using iceberg tblproperties ('{CODEC}' = 'gzip') as select 1 as id")
    assert not list(tmp_path.rglob("*.parquet"))
    session.sql(f"create table t using iceberg tblproperties ('{CODEC}' = 'none') as select 1 as id")
    with pytest.raises(ConfigurationError, match=message):
        session.sql(f"alter table t set tblproperties ('{CODEC}' = 'gzip')")
    with pytest.raises(ConfigurationError, match=message):
        session.sql(f"create or replace table t using iceberg tblproperties ('{CODEC}' = 'gzip') as select 2 as id")
    session.sql("insert into t values (3)")
    assert sorted(session.sql("select id from t").collect()) == [(1,), (3,)]
