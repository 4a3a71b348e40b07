"""AWS Glue (moto): commits with the version of a table, and names of databases that need care."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType

from rowmerge.catalog import IcebergCatalog
from rowmerge.errors import CatalogFailed, RowmergeError, TableError
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.glue import needs_moto, serving_glue

pytestmark = needs_moto
DEFINITION = TableDefinition(Struct((Field("id", Primitive("long")),)))


@pytest.fixture
def configuration(tmp_path: Path) -> Iterator[dict[str, Any]]:
    with serving_glue() as glue:
        yield {**glue, "warehouse": f"file://{tmp_path}/w"}


def create(catalog: IcebergCatalog, schema: str, name: str = "t") -> Any:
    table = catalog.new_table(schema, name, "iceberg")
    assert isinstance(table.create(DEFINITION, CommitRequest("CREATE TABLE", definition=DEFINITION)), Committed)
    return table


@pytest.mark.parametrize("skip_archive", ["true", "false"])
def test_a_commit_between_the_load_and_the_update_is_not_overwritten(
    configuration: dict[str, Any], skip_archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = IcebergCatalog({**configuration, "glue.skip-archive": skip_archive}, None)
    catalog.create_schema("raw")
    table = create(catalog, "raw")
    glue = catalog._client.catalog.glue  # type: ignore[attr-defined]
    versions: list[Any] = []
    update_table = glue.update_table

    def overtake(**arguments: Any) -> Any:
        """Let another client commit between the load and the first update, and compare versions as Glue documents. moto ignores them."""
        versions.append((arguments["VersionId"], arguments["SkipArchive"]))
        if len(versions) == 1:
            with load_catalog("default", **configuration).load_table("raw.t").update_schema() as change:
                change.add_column("other", LongType())
        if arguments["VersionId"] != glue.get_table(DatabaseName="raw", Name="t")["Table"]["VersionId"]:
            raise glue.exceptions.ConcurrentModificationException({"Error": {"Code": "ConcurrentModificationException"}}, "UpdateTable")
        return update_table(**arguments)

    monkeypatch.setattr(glue, "update_table", overtake)
    base = table.snapshot()
    properties = {**base.settings.properties, "owner": "us"}
    outcome = table.commit(base, CommitRequest("ALTER TABLE", definition=TableDefinition(properties=properties)))
    assert versions[0][1] is (skip_archive == "true")
    newest = IcebergCatalog(configuration, None).open("raw", "t").snapshot()
    assert "other" in newest.schema.names, "the commit of the other client"
    assert isinstance(outcome, Committed) == ("owner" in newest.settings.properties)


@pytest.mark.parametrize("schema", ["with-hyphen", "with space", "Capitals", "ümlaut", "1st"])
def test_databases_with_unusual_names(configuration: dict[str, Any], schema: str) -> None:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema(schema)
    assert catalog.schemas() == [schema.lower()]
    create(catalog, schema)
    assert [relation.name for relation in catalog.relations(schema)] == ["t"]
    assert catalog.open(schema, "T").snapshot().schema.names == ("id",)
    catalog.drop_schema(schema, cascade=True)
    assert catalog.schemas() == []


@pytest.mark.parametrize("schema", ["a/b", "..", ""])
def test_names_of_databases_that_are_no_path_segment_are_refused(configuration: dict[str, Any], schema: str) -> None:
    with pytest.raises(TableError, match="not a single path segment"):
        IcebergCatalog(configuration, None).create_schema(schema)


def test_tables_of_other_formats_in_the_database_are_not_listed(configuration: dict[str, Any]) -> None:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    glue = catalog._client.catalog.glue  # type: ignore[attr-defined]
    glue.create_table(DatabaseName="raw", TableInput={"Name": "hive", "TableType": "EXTERNAL_TABLE", "Parameters": {}})
    create(catalog, "raw")
    assert [relation.name for relation in catalog.relations("raw")] == ["t"]
    with pytest.raises(RowmergeError):
        catalog.open("raw", "hive")
    with pytest.raises((TableError, CatalogFailed)):
        catalog.drop_schema("raw")
    assert glue.get_table(DatabaseName="raw", Name="hive")


def test_keys_of_the_storage_options_sign_requests_to_glue_unless_the_catalog_has_its_own(configuration: dict[str, Any]) -> None:
    options = StorageConfiguration.parse({"aws_access_key_id": "of the store", "aws_secret_access_key": "hush", "aws_region": "us-east-1"})

    def access_key(catalog: dict[str, Any]) -> str:
        glue = IcebergCatalog(catalog, None, partial(Storage, options=options))._client.catalog.glue  # type: ignore[attr-defined]
        key: str = glue._request_signer._credentials.get_frozen_credentials().access_key
        return key

    without_keys = {name: value for name, value in configuration.items() if not name.endswith(("access-key-id", "secret-access-key"))}
    assert access_key(without_keys) == "of the store"
    assert access_key(configuration) == "testing"
    assert access_key({**without_keys, "client.access-key-id": "other", "client.secret-access-key": "hush"}) == "other"
