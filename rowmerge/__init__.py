"""Row-level SQL (MERGE, UPDATE, DELETE and INSERT) for open lakehouse tables, on plain PySpark."""

from importlib import import_module
from typing import TYPE_CHECKING

from rowmerge.version import __version__

if TYPE_CHECKING:
    from rowmerge.commands.names import CATALOGS, TABLE_FORMATS
    from rowmerge.execution.row_counts import RowCounts
    from rowmerge.server.client import ServerSession
    from rowmerge.session.answers.outcome import FileReads, StatementOutcome
    from rowmerge.session.answers.results import StatementResult, TableScan
    from rowmerge.session.connection import Connection
    from rowmerge.session.early_start import open_session
    from rowmerge.session.session import Session, connect
    from rowmerge.session.startup.catalog_keys import check_further_catalogs, default_format_of, is_warehouse_folder
    from rowmerge.session.startup.checks import check_environment
    from rowmerge.session.startup.store_checks import EnvironmentCheck
    from rowmerge.session.tables.expressions import literal
    from rowmerge.session.tables.merges import TableMerge
    from rowmerge.session.tables.table import Table
    from rowmerge.sql import split_statements
    from rowmerge.storage.retries import parse_duration
    from rowmerge.table.relations import Relation, RelationDescription

# PySpark, pandas and pyiceberg take a second or more to import. So each name is imported when a program first uses it (PEP 562).
_MODULES = {
    "CATALOGS": "commands.names",
    "TABLE_FORMATS": "commands.names",
    "Connection": "session.connection",
    "EnvironmentCheck": "session.startup.store_checks",
    "FileReads": "session.answers.outcome",
    "Relation": "table.relations",
    "RelationDescription": "table.relations",
    "RowCounts": "execution.row_counts",
    "ServerSession": "server.client",
    "Session": "session.session",
    "StatementOutcome": "session.answers.outcome",
    "StatementResult": "session.answers.results",
    "Table": "session.tables.table",
    "TableMerge": "session.tables.merges",
    "TableScan": "session.answers.results",
    "check_environment": "session.startup.checks",
    "check_further_catalogs": "session.startup.catalog_keys",
    "connect": "session.session",
    "default_format_of": "session.startup.catalog_keys",
    "is_warehouse_folder": "session.startup.catalog_keys",
    "literal": "session.tables.expressions",
    "open_session": "session.early_start",
    "parse_duration": "storage.retries",
    "split_statements": "sql",
}

__all__ = [
    "CATALOGS",
    "TABLE_FORMATS",
    "Connection",
    "EnvironmentCheck",
    "FileReads",
    "Relation",
    "RelationDescription",
    "RowCounts",
    "ServerSession",
    "Session",
    "StatementOutcome",
    "StatementResult",
    "Table",
    "TableMerge",
    "TableScan",
    "__version__",
    "check_environment",
    "check_further_catalogs",
    "connect",
    "default_format_of",
    "is_warehouse_folder",
    "literal",
    "open_session",
    "parse_duration",
    "split_statements",
]


def __getattr__(name: str) -> object:
    """Import a public name when a program first uses it. Raises AttributeError if there is no such name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return [*__all__]
