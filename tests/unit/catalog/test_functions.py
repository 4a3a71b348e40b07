"""Functions in a warehouse folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.catalog import DirectoryCatalog
from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import AlreadyExists, FunctionNotFound, SchemaNotFound, TableError
from rowmerge.storage.store import Storage

ADDED = FunctionDefinition((Parameter("n", "int", "1", "how many"),), "int", "n + 1", comment="one more")
PYTHON = FunctionDefinition((), "int", "def f(): return 1", "python", False, False, "f", "3.11", ("numpy",))


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryCatalog:
    catalog = DirectoryCatalog(Storage(str(tmp_path)))
    catalog.create_schema("a")
    return catalog


@pytest.mark.parametrize("definition", [ADDED, PYTHON])
def test_a_function_comes_back_as_it_was_put(catalog: DirectoryCatalog, definition: FunctionDefinition) -> None:
    catalog.functions.put("A", "My Function", definition, "b", or_replace=False)
    found = catalog.functions.get("a", "my function")
    assert found is not None
    assert (found.definition, found.default_schema, str(found)) == (definition, "b", "a.`my function`")
    assert catalog.functions.names("a") == ["my function"]


def test_a_function_is_replaced_only_where_that_is_said(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    with pytest.raises(AlreadyExists, match="a.f exists already"):
        catalog.functions.put("a", "f", PYTHON, "a", or_replace=False)
    catalog.functions.put("a", "f", PYTHON, "a", or_replace=True)
    found = catalog.functions.get("a", "f")
    assert found is not None and found.definition == PYTHON


def test_a_function_is_no_relation_and_hides_none(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    assert catalog.relations("a") == [] and catalog.relation("a", "f") is None
    assert catalog.schemas() == ["a", "default"]


def test_what_is_not_there_is_named(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "added", ADDED, "a", or_replace=False)
    assert catalog.functions.get("a", "other") is None and catalog.functions.names("none") == []
    with pytest.raises(FunctionNotFound, match="There is no function a.aded here.*`added`"):
        catalog.functions.drop("a", "aded")
    with pytest.raises(SchemaNotFound):
        catalog.functions.put("none", "f", ADDED, "a", or_replace=False)
    catalog.functions.drop("a", "added")
    assert catalog.functions.names("a") == []


def test_a_schema_with_a_function_is_dropped_only_with_cascade(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    with pytest.raises(TableError, match=r"it holds f\(\)"):
        catalog.drop_schema("a")
    catalog.drop_schema("a", cascade=True)
    assert catalog.schemas() == ["default"] and not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"format-version": 2}', '{"format-version": 1, "definition": {"parameters": []}}']
)
def test_a_file_that_says_nothing_is_named(catalog: DirectoryCatalog, tmp_path: Path, text: str) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    (tmp_path / "a" / ".functions" / "f.json").write_text(text)
    with pytest.raises(TableError, match="The function a.f cannot be read.*CREATE OR REPLACE FUNCTION"):
        catalog.functions.get("a", "f")
