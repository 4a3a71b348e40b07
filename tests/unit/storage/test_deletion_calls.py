"""Only `rowmerge/storage/deletion.py` calls methods that delete files, except for listed functions with a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "rowmerge"
DELETING = {"delete", "delete_file", "delete_dir", "delete_dir_contents", "unlink", "rmtree"}
IMPLEMENTATIONS = ("storage/store.py", "storage/deletion.py")
EXCEPTIONS = {
    "catalog/directory.py drop_schema": "the marker of a schema",
    "catalog/renames.py release": "the files that give a name to a dropped external table or view",
    "catalog/renames.py home_of_new": "the claim of a name that a killed statement left behind",
    "catalog/renames.py register": "the claim of a name that a concurrent statement got first",
    "catalog/renames.py delete_claim": "the claim of a name that a relation no longer has",
    "catalog/functions.py drop": "the file of a function",
    "iceberg/catalogs/metadata_files.py delete": "what pyiceberg's catalogs delete, such as metadata of a lost commit",
    "session/startup/store_checks.py _delete": "the scratch file of the check, and those of killed checks",
    "session/startup/class_archive.py make_class_archive": "archives of compiled classes in the cache folder of this machine",
    "parquet/data_files.py delete_written": "runs on executors, which have no rowmerge, and deletes the files that the same task wrote",
    "storage/conditional_puts.py _conditional_put_overwrites": "the probe object that the same call made",
    "storage/disk.py write_file": "the temporary file that the same call made",
    "server/folder.py delete_state": "the state of a server in the cache folder of the user",
    "server/folder.py delete_if_old": "the cache folder of a server that ended a week ago",
    "server/folder.py listen": "the socket of a killed server",
    "server/service.py run": "the socket of the server itself",
    "spark/writing/write_output.py delete": "the implementation for data files of what `deletion.py` calls",
}
"""File and function of each direct call, and the files that it deletes."""


def calls(source: str) -> Iterator[str]:
    """Yield the function that contains each use of a method that deletes files."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Attribute) and node.attr in DELETING and isinstance(node.ctx, ast.Load):
            yield function
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    return visit(ast.parse(source), "")


def direct_calls() -> set[str]:
    return {
        f"{path.relative_to(PACKAGE)} {function}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in IMPLEMENTATIONS
        for function in calls(path.read_text(encoding="utf-8"))
    }


def test_table_files_are_deleted_only_by_the_deletion_module() -> None:
    assert direct_calls() - EXCEPTIONS.keys() == set(), "call rowmerge.storage.deletion.delete_files or try_delete_files"


def test_only_executor_code_uses_delete_written() -> None:
    users = {path.name for path in PACKAGE.rglob("*.py") if "delete_written" in path.read_text(encoding="utf-8")}
    assert users == {"data_files.py", "sink.py", "tasks.py"}, "on the driver, call rowmerge.spark.writing.write_output.discard_paths"


def test_the_exceptions_are_in_use() -> None:
    assert EXCEPTIONS.keys() - direct_calls() == set()


@pytest.mark.parametrize(
    "source",
    [
        "def f(storage):\n    storage.delete(['a'])",
        "def f(self):\n    self._storage.delete(paths)",
        "def f(storage):\n    run_concurrently([partial(storage.delete, ['a'])])",
        "def f(path):\n    path.unlink()",
    ],
)
def test_a_direct_call_is_detected(source: str) -> None:
    assert list(calls(source)) == ["f"]
