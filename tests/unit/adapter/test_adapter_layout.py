"""The adapter's files and imports."""

from __future__ import annotations

import ast
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from dbt.adapters.rowmerge import Plugin, __version__

REPOSITORY = Path(__file__).parents[3]
PUBLIC = {"rowmerge", "rowmerge.errors"}


@pytest.mark.parametrize(("link", "folder"), [("adapter", "dbt/adapters/rowmerge"), ("macros", "dbt/include/rowmerge/macros")])
def test_top_level_links_point_to_the_files_that_dbt_reads(link, folder):
    assert (REPOSITORY / link).samefile(REPOSITORY / folder)


@pytest.mark.parametrize("folder", ["dbt", "dbt/adapters", "dbt/include"])
def test_namespace_folders_of_dbt_have_no_init_module(folder):
    assert not (REPOSITORY / folder / "__init__.py").exists()


def test_the_adapter_imports_only_public_names_of_the_engine():
    imported = set()
    for path in (REPOSITORY / "dbt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module))
    engine = {name for name in imported if name.split(".")[0] == "rowmerge"}
    assert engine == PUBLIC


def test_the_plugin_has_the_attributes_that_dbt_reads():
    assert Plugin.adapter.type() == "rowmerge"
    assert Plugin.project_name == "dbt_rowmerge"
    assert Plugin.dependencies == ["spark"]
    assert Plugin.credentials.__name__ == "RowmergeCredentials"


def test_dbt_can_parse_the_version():
    assert [part.isdigit() for part in __version__.version.split(".")] == [True, True, True]
    assert installed("dbt-spark")
