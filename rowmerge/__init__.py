"""Row-level SQL (MERGE, UPDATE, DELETE and INSERT) for open lakehouse tables, on plain PySpark."""

from rowmerge.catalog import Relation
from rowmerge.commands.names import CATALOGS, TABLE_FORMATS
from rowmerge.execution.result import RowCounts
from rowmerge.session.answers.description import RelationDescription
from rowmerge.session.answers.results import StatementResult, TableScan
from rowmerge.session.session import Session, connect
from rowmerge.session.startup.catalogs import check_further_catalogs, default_format_of, is_warehouse_folder
from rowmerge.session.startup.checks import check_environment
from rowmerge.session.startup.store_checks import EnvironmentCheck
from rowmerge.session.tables.expressions import literal
from rowmerge.session.tables.merges import TableMerge
from rowmerge.session.tables.table import Table
from rowmerge.sql import split_statements
from rowmerge.version import __version__

__all__ = [
    "CATALOGS",
    "TABLE_FORMATS",
    "EnvironmentCheck",
    "Relation",
    "RelationDescription",
    "RowCounts",
    "Session",
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
    "split_statements",
]
