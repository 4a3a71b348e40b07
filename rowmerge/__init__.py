"""Row-level SQL — MERGE, UPDATE, DELETE, INSERT — on open lakehouse tables, on plain PySpark."""

from rowmerge.catalog import Relation
from rowmerge.execution.result import RowCounts
from rowmerge.session.description import RelationDescription
from rowmerge.session.results import StatementResult
from rowmerge.session.session import Session, connect
from rowmerge.sql import split_statements
from rowmerge.version import __version__

__all__ = ["Relation", "RelationDescription", "RowCounts", "Session", "StatementResult", "__version__", "connect", "split_statements"]
