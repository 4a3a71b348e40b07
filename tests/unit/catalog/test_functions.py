"""SQL and Python functions in a directory catalog."""

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
def test_function_definitions_round_trip(catalog: DirectoryCatalog, definition: FunctionDefinition) -> None:
    catalog.functions.put("A", "My Function", definition, "b", or_replace=False)
    function = catalog.functions.get("a", "my function")
    assert function is not None
    assert (function.definition, function.default_schema, str(function)) == (definition, "b", "a.`my function`")
    assert catalog.functions.names("a") == ["my function"]


def test_replacing_a_function_requires_or_replace(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    with pytest.raises(AlreadyExists, match="a.f already exists"):
        catalog.functions.put("a", "f", PYTHON, "a", or_replace=False)
    catalog.functions.put("a", "f", PYTHON, "a", or_replace=True)
    function = catalog.functions.get("a", "f")
    assert function is not None and function.definition == PYTHON


def test_functions_are_not_listed_as_relations(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    assert catalog.relations("a") == [] and catalog.relation("a", "f") is None
    assert catalog.schemas() == ["a", "default"]


def test_missing_functions_and_schemas_are_reported(catalog: DirectoryCatalog) -> None:
    catalog.functions.put("a", "added", ADDED, "a", or_replace=False)
    assert catalog.functions.get("a", "other") is None and catalog.functions.names("none") == []
    with pytest.raises(FunctionNotFound, match="There is no function a.aded here.*`added`"):
        catalog.functions.drop("a", "aded")
    with pytest.raises(SchemaNotFound):
        catalog.functions.put("none", "f", ADDED, "a", or_replace=False)
    catalog.functions.drop("a", "added")
    assert catalog.functions.names("a") == []


def test_dropping_a_schema_with_a_function_requires_cascade(catalog: DirectoryCatalog, tmp_path: Path) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    with pytest.raises(TableError, match=r"it contains f\(\)"):
        catalog.drop_schema("a")
    catalog.drop_schema("a", cascade=True)
    assert catalog.schemas() == ["default"] and not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"format-version": 2}', '{"format-version": 1, "definition": {"parameters": []}}']
)
def test_a_damaged_function_file_is_reported_by_name(catalog: DirectoryCatalog, tmp_path: Path, text: str) -> None:
    catalog.functions.put("a", "f", ADDED, "a", or_replace=False)
    (tmp_path / "a" / ".functions" / "f.json").write_text(text)
    with pytest.raises(TableError, match="The function a.f cannot be read.*CREATE OR REPLACE FUNCTION"):
        catalog.functions.get("a", "f")
