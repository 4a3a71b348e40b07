"""The tables and views that one statement reads, and the data files of each table that the statement can skip.

A bound text contains placeholders instead of table names. When all tables of the text are known, conditions are pushed down to each table.
Its placeholder is then replaced by the name of a Spark view over the files that can contain a row for the statement.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.plan.queries.outputs import Source, View
from rowmerge.plan.queries.push_down import push_down
from rowmerge.session.answers.results import TableScan
from rowmerge.session.names.spark_names import SparkViews
from rowmerge.spark.spark_session import is_case_sensitive, skips_files
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.sql import parse_query
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
_HAS_CONDITION = re.compile(r"\b(?:where|on|having|using)\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class ViewRead:
    """A read of a view: its bound query, with placeholders, and the names of its columns if they differ from those of the query."""

    text: str
    columns: tuple[str, ...] = ()


Read = Snapshot | ViewRead


class StatementReads:
    """The reads of one statement. Each read has a placeholder, which occurs once in all texts of the statement."""

    def __init__(self, spark: SparkSession, views: SparkViews) -> None:
        self._spark, self._views = spark, views
        self._reads: dict[str, Read] = {}
        nonce = uuid4().hex[:8]
        self._prefix, self._pattern = f"__rowmerge_read_{nonce}_", re.compile(f"`(__rowmerge_read_{nonce}_[0-9]+)`")
        self.scans: list[TableScan] = []
        """The scans of tables for which the statement has conditions."""

    def placeholder(self, read: Read) -> str:
        """Add a read, and return the quoted name that stands for it in a text. A view gets its own copies of the placeholders in it."""
        if isinstance(read, ViewRead):
            read = ViewRead(self._pattern.sub(lambda match: self.placeholder(self._reads[match[1]]), read.text), read.columns)
        name = f"{self._prefix}{len(self._reads)}"
        self._reads[name] = read
        return backquote(name)

    def with_view_names(self, text: str) -> str:
        """Return the bound text of a query, or of an expression, in which each placeholder is replaced by the name of a Spark view."""
        names = self._names_in(text)
        if not names:
            return text
        conditions = self._conditions(text, names) if skips_files(self._spark) else {}
        return self._replaced(text, conditions)

    def _names_in(self, text: str) -> list[str]:
        """Return the placeholders in a text and in the views that it reads."""
        names = self._pattern.findall(text)
        for name in list(names):
            read = self._reads[name]
            if isinstance(read, ViewRead):
                names += self._names_in(read.text)
        return names

    def _conditions(self, text: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the conditions on each table, by placeholder."""
        reads = {name: self._reads[name] for name in names}
        texts = [text, *(read.text for read in reads.values() if isinstance(read, ViewRead))]
        if not any(map(_HAS_CONDITION.search, texts)):
            return {}
        sources = {name: _source(read) for name, read in reads.items()}
        return push_down(parse_query(text), sources, case_sensitive=is_case_sensitive(self._spark))

    def _replaced(self, text: str, conditions: dict[str, tuple[str, ...]]) -> str:
        return self._pattern.sub(lambda match: self._register(match[1], conditions), text)

    def _register(self, name: str, conditions: dict[str, tuple[str, ...]]) -> str:
        """Register the view of a read, and return its quoted name."""
        read = self._reads[name]
        if isinstance(read, ViewRead):
            return self._views.register_query(self._replaced(read.text, conditions), read.columns)
        table_conditions = conditions.get(name, ())
        if not table_conditions:
            return self._views.register_snapshot(read)
        return self._register_matching_files(read, name, table_conditions)

    def _register_matching_files(self, snapshot: Snapshot, name: str, conditions: tuple[str, ...]) -> str:
        """Register the rows of the files that can contain a row for which the conditions are true."""
        side = Side(name, (), snapshot.schema.names)
        time_zone = session_time_zone(self._spark)
        schema, partition_columns = snapshot.schema, snapshot.partition_columns
        bounds_mask = file_mask(conditions, side, schema, partition_columns, case_sensitive=True, time_zone=time_zone)
        listing = snapshot.files(bounds_mask.bound_columns)
        files = listing.filter(bounds_mask.mask(listing))
        unqualified = tuple(condition.replace(f"{backquote(name)}.", "") for condition in conditions)
        scan = TableScan(snapshot, unqualified, len(files), files.total_size, len(listing), listing.total_size)
        self.scans.append(scan)
        logger.debug("%s: reads %s of %s files for %s", snapshot.name, scan.files, scan.total_files, " and ".join(unqualified))
        if len(files) == len(listing):
            return self._views.register_snapshot(snapshot)
        return self._views.register_files(snapshot, files)


def _source(read: Read) -> Source:
    """Return the columns of a table, or the structure of a view's query."""
    return View(parse_query(read.text), read.columns) if isinstance(read, ViewRead) else read.schema
