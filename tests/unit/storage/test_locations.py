"""The root of a storage equals its location, for all characters in the location."""

from __future__ import annotations

import uuid

import pytest

from rowmerge.catalog import DirectoryCatalog
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import ID_NAME, committed
from tests.support.faulty_s3 import FaultyS3, needs_moto

pytestmark = [needs_moto, pytest.mark.one_of("name", keep=3)]


@pytest.mark.parametrize("name", ["a#1", "a?1", "a%231", "a%2F1", "a%2e%2e", "a&b=+c", "a b", "a.", "a~*[1]", "ü", "u\u0308", "a\\b"])
def test_objects_are_written_only_at_the_location(s3: FaultyS3, name: str) -> None:
    root = f"{s3.location}/{uuid.uuid4()}"
    parent_storage, nested_storage = Storage(root, s3.options()), Storage(f"{root}/{name}/t", s3.options())
    parent_storage.put("a/t/others", b"precious")
    nested_storage.put("ours", b"1")
    assert {object_.path for object_ in parent_storage.list()} == {"a/t/others", f"{name}/t/ours"}
    assert [object_.path for object_ in nested_storage.list()] == ["ours"] and nested_storage.get("ours") == b"1"
    nested_storage.delete(["ours", "others"])
    assert [object_.path for object_ in parent_storage.list()] == ["a/t/others"]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_drop_in_a_warehouse_with_a_number_sign_keeps_other_folders(s3: FaultyS3, format_: str) -> None:
    root = f"{s3.location}/{uuid.uuid4()}"
    others = Storage(root, s3.options())
    others.put("wh/keep", b"precious")
    catalog = DirectoryCatalog(Storage(f"{root}/wh#1", s3.options()))
    for name in ("t", "u"):
        committed(catalog.new_table("default", name, format_).create(TableDefinition(ID_NAME, (), {}), CommitRequest("CREATE TABLE")))
    catalog.drop_table("default", "t")
    assert [relation.name for relation in catalog.relations("default")] == ["u"]
    assert [object_.path for object_ in others.list("wh")] == ["wh/keep"]
