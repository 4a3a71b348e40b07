"""The structure of the engine has none of the defects that `make structure` prints."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.structure import Module, cycles, long_files, module_cycles, package_cycles, read_modules, upward_imports


@pytest.fixture(scope="module")
def modules() -> Mapping[str, Module]:
    return read_modules()


def test_no_module_imports_a_layer_above_it(modules: Mapping[str, Module]) -> None:
    assert upward_imports(modules) == []


def test_an_upward_import_of_an_annotation_counts(modules: Mapping[str, Module]) -> None:
    lower = modules["rowmerge.table.metadata.schema"]
    changed = Module(lower.name, lower.path, lower.tree, lower.lines, {"rowmerge.spark.reading.scan"})
    assert upward_imports({**modules, lower.name: changed}) == ["rowmerge.table.metadata.schema imports rowmerge.spark.reading.scan"]


def test_no_modules_or_packages_import_each_other_in_a_cycle(modules: Mapping[str, Module]) -> None:
    assert module_cycles(modules) == []
    assert package_cycles(modules) == []
    assert module_cycles(read_modules("dbt")) == []


def test_a_cycle_is_reported_with_its_members() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_code_lines_leave_out_docstrings_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    text = '"""A module\nof two lines."""\n\nx = """two\nlines"""  # A comment.\n"""What x is."""\n\n\n'
    text += 'def f():\n    """One."""\n    # Two.\n    return x\n'
    path.write_text(text)
    assert Module("module", path, ast.parse(text), len(text.splitlines())).code_lines == 4


def test_no_file_has_more_than_400_lines(modules: Mapping[str, Module]) -> None:
    assert long_files({**modules, **read_modules("dbt")}) == []
