"""Row-level SQL (MERGE, UPDATE, DELETE and INSERT) for open lakehouse tables, on plain PySpark."""

from rowmerge.catalog import Relation
from rowmerge.commands.names import CATALOGS, TABLE_FORMATS
from rowmerge.execution.result import RowCounts
from rowmerge.session.answers.description import RelationDescription
from rowmerge.session.answers.results import StatementResult, TableScan
from rowmerge.session.session import Session, connect
from rowmerge.sql import split_statements
from rowmerge.version import __version__

__all__ = [
    "CATALOGS",
    "TABLE_FORMATS",
    "Relation",
    "RelationDescription",
    "RowCounts",
    "Session",
    "StatementResult",
    "TableScan",
    "__version__",
    "connect",
    "split_statements",
]
