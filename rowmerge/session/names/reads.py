"""The tables and views that one statement reads, and the data files of each table that the statement can skip.

A bound text contains placeholders instead of table names. When all tables of the text are known, conditions are pushed down to each table.
Its placeholder is then replaced by the name of a Spark view over the files that can contain a row for the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import time_ns
from typing import TYPE_CHECKING
from uuid import uuid4

from rowmerge.commands.queries import OpaqueQuery, Query
from rowmerge.plan.expressions.column_refs import has_substitution
from rowmerge.plan.expressions.conditions import NONDETERMINISTIC
from rowmerge.plan.queries.constants import bare_time_names, with_fixed_time
from rowmerge.plan.queries.outputs import Source, View
from rowmerge.plan.queries.push_down import TableConditions, push_down
from rowmerge.session.answers.results import ScanReason, TableScan
from rowmerge.session.names.file_selection import FileSelection
from rowmerge.session.names.metadata_tables import MetadataRead
from rowmerge.session.names.needed_columns import (
    HAS_METADATA_COLUMN,
    NeededColumns,
    Uses,
    empty_relation,
    used_metadata_columns,
)
from rowmerge.session.names.spark_names import SparkViews
from rowmerge.spark.functions import BUILT_IN
from rowmerge.spark.reading.metadata_columns import FilesWithMetadataColumns
from rowmerge.spark.reading.task_sizes import TaskSizes
from rowmerge.spark.spark_session import analyses_later, double_quotes_are_names, is_case_sensitive, setting, skips_files
from rowmerge.sql import has_double_quotes, has_only_known_names, parse_query, without_hidden_columns
from rowmerge.table.metadata.schema import Struct, backquote
from rowmerge.table.snapshots.change_feed import TableChanges
from rowmerge.table.snapshots.files import FileListing, MatchingFiles
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HAS_TIME_FUNCTION = re.compile(r"\b(?:current_timestamp|now|current_date|curdate|localtimestamp)\b", re.IGNORECASE)
_SHARED_FUNCTIONS = (BUILT_IN | {"cast", "try_cast", "if", "date", "timestamp", "decimal"}) - NONDETERMINISTIC
"""The functions that views with shared frames may call. Nondeterministic ones have a new seed in each statement."""
_SETTINGS_OF_VIEWS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    **dict.fromkeys(("spark.sql.ansi.enabled", "spark.sql.decimalOperations.allowPrecisionLoss", "spark.sql.groupByAliases"), "true"),
    **dict.fromkeys(("spark.sql.caseSensitive", "spark.sql.parser.escapedStringLiterals"), "false"),
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
"""The settings by which Spark reads the text of a query, with their defaults."""
_HAS_CONDITION = re.compile(r"\b(?:where|on|having|using)\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class ViewRead:
    """A read of a view.

    `name`: the name in messages. `text`: the bound query, with placeholders. `columns`: the names of its columns if they differ from those
    of the query.
    """

    name: str
    text: str
    columns: tuple[str, ...] = ()


_DataRead = Snapshot | TableChanges | ViewRead
Read = _DataRead | MetadataRead

AnswerSimpleQuery = Callable[[str, "StatementReads", "SparkSession", SparkViews], "DataFrame | None"]
"""A function that answers a query of one table from metadata, or with few data files, or returns None."""


class StatementReads:
    """The reads of one statement. Each read has a placeholder, which occurs once in all texts of the statement.

    `explains`: whether the statement is only explained, so that no query runs for a dynamic filter.
    """

    def __init__(
        self, spark: SparkSession, views: SparkViews, task_sizes: TaskSizes, answer: AnswerSimpleQuery, *, explains: bool = False
    ) -> None:
        """Create the reads of a statement, without any read yet.

        Args:
            spark: The session.
            views: The registry of its views.
            task_sizes: The size of its tasks, which depends on the tables that the statement reads.
            answer: The function that answers simple queries from metadata.
            explains: Whether the statement is only explained.
        """
        self._spark, self._views, self._task_sizes, self._explains = spark, views, task_sizes, explains
        self._answer_simple_query = answer
        views.protect_views_of(self)
        self._snapshots_read: list[Snapshot] = []
        self._reads: dict[str, _DataRead] = {}
        self._metadata_reads: dict[str, MetadataRead] = {}
        self._metadata_columns: dict[str, frozenset[str]] = {}
        self._names_of_queries: dict[tuple[str, tuple[str, ...]], str] = {}
        nonce = uuid4().hex[:8]
        self._prefix, self._pattern = f"__rowmerge_read_{nonce}_", re.compile(f"`(__rowmerge_read_{nonce}_[0-9]+)`")
        self.microseconds = time_ns() // 1000
        self.scans: list[TableScan] = []
        """The scans of the tables in the texts of the statement, once for each occurrence."""
        self.conditions_not_used: list[str] = []
        """The conditions of the statement that are not analysed, with the names of tables instead of placeholders."""

    def placeholder(self, read: Read) -> str:
        """Add a read, and return the quoted name that stands for it in a text. A view gets its own copies of the placeholders in it."""
        if isinstance(read, ViewRead):
            read = replace(
                read,
                text=self._pattern.sub(
                    lambda match: self.placeholder(self._metadata_reads.get(match[1]) or self._reads[match[1]]), read.text
                ),
            )
        name = f"{self._prefix}{len(self._reads) + len(self._metadata_reads)}"
        if isinstance(read, MetadataRead):
            self._metadata_reads[name] = read
        else:
            self._reads[name] = read
        return backquote(name)

    def snapshot_of(self, name: str) -> Snapshot | None:
        """Return the version of the table for which a placeholder stands, or None if the name is not the placeholder of a table."""
        read = self._reads.get(name)
        return None if isinstance(read, ViewRead | TableChanges) else read

    def add_snapshots(self, snapshots: Iterable[Snapshot]) -> None:
        """Record that the statement reads these tables, on which the size of its tasks depends."""
        self._snapshots_read += snapshots
        if not self._explains:
            self._task_sizes.apply(self._snapshots_read)

    def keep_views_of(self, frame: DataFrame) -> None:
        """Keep the views of the statement as long as a lazy DataFrame of it exists, if Spark finds the views only when it is fetched."""
        if analyses_later(self._spark):
            # DataFrames that are derived from this one also refer to its plan.
            self._views.keep_views_of(self, frame._plan)

    def record_scan(self, snapshot: Snapshot, files: FileListing) -> None:
        """Record that only some files of a table are read, because the metadata tell the rest of the result."""
        self.add_snapshots([snapshot])
        matching = replace(MatchingFiles.all_of(snapshot.files()), listing=files)
        self.scans.append(TableScan(snapshot, matching=matching, reason=ScanReason.FEW_FILES if len(files) else ScanReason.METADATA))

    def with_view_names(self, text: str, *, is_expression: bool = False, is_frame: bool = False) -> str:
        """Return a bound text in which each placeholder is replaced by the name of a Spark view.

        Args:
            text: The bound text of a query or of an expression.
            is_expression: Whether it is an expression, so that names in its subqueries can be columns or parameters outside the text.
            is_frame: Whether it is a query whose rows the user gets as a DataFrame.
        """
        text = self._with_metadata_tables(text, is_frame=is_frame)
        names = self._names_in(text)
        if not names:
            return text
        self.add_snapshots(filter(None, map(self.snapshot_of, names)))
        text = self._with_metadata_columns(text, names, is_expression=is_expression)
        columns = NeededColumns(self._spark, [text, *self._view_texts(names)], is_frame=is_frame)
        reason = self._why_not_analysed(text, names)
        if reason is not None:
            self._record_full_scans(names, reason)
            return self._replaced(text, columns)
        text = self._with_fixed_time(text, names)
        query = parse_query(text)
        selection = self._select_files(Query(OpaqueQuery((query,))) if is_expression else query, names, columns)
        return self._replaced(text, columns, selection)

    def _with_metadata_tables(self, text: str, *, is_frame: bool) -> str:
        """Replace the placeholders of metadata tables, in a text and its views, by the names of Spark views with the needed columns."""
        if not self._metadata_reads:
            return text
        views = {name: read for name in self._names_in(text) if isinstance(read := self._reads[name], ViewRead)}
        texts = [text, *(view.text for view in views.values())]
        columns = NeededColumns(self._spark, texts, is_frame=is_frame)

        def registered(match: re.Match[str]) -> str:
            read = self._metadata_reads.get(match[1])
            if read is None:
                return match[0]
            return self._views.register_frame(read.frame(self._spark, columns.names_of_table(match[1])))

        def replaced(text: str) -> str:
            return self._pattern.sub(registered, text)

        self._reads |= {name: replace(view, text=replaced(view.text)) for name, view in views.items()}
        return replaced(text)

    def _with_metadata_columns(self, text: str, names: Sequence[str], *, is_expression: bool) -> str:
        """Find the metadata columns that a text and its views use of each table. Return the text with stars without them."""
        for name in reversed(names):  # a view that another one reads comes first
            read = self._reads[name]
            if isinstance(read, ViewRead):
                self._reads[name] = replace(read, text=self._hide_metadata_columns(read.text, is_expression=False))
        return self._hide_metadata_columns(text, is_expression=is_expression)

    def _hide_metadata_columns(self, text: str, *, is_expression: bool) -> str:
        if not HAS_METADATA_COLUMN.search(text):
            return text
        reads = {name: snapshot for name in self._pattern.findall(text) if (snapshot := self.snapshot_of(name)) is not None}
        uses = used_metadata_columns(self._spark, text, reads, self._empty_text, is_expression=is_expression)
        self._metadata_columns |= uses
        return without_hidden_columns(text, uses, is_expression=is_expression)

    def _empty_text(self, text: str, uses: Uses) -> str:
        """Return a query over empty relations. `uses`: the metadata columns of its tables; those of views are known."""

        def relation(name: str) -> str:
            read = self._reads[name]
            if not isinstance(read, ViewRead):
                return empty_relation(Struct((*read.schema, *self._hidden(read, uses.get(name, ())))))
            query = self._empty_text(read.text, self._metadata_columns)
            names = f" as v ({', '.join(map(backquote, read.columns))})" if read.columns else ""
            return f"(select * from ({query}){names})"

        return self._pattern.sub(lambda match: relation(match[1]), text)

    @staticmethod
    def _hidden(read: Snapshot | TableChanges, names: Collection[str]) -> Struct:
        """Return the metadata columns of a table with these names."""
        columns = () if isinstance(read, TableChanges) or not names else read.metadata_columns.columns
        return Struct(tuple(column for column in columns if column.name in names))

    def _files_of(self, name: str, read: Snapshot | TableChanges) -> Snapshot | TableChanges | FilesWithMetadataColumns:
        """Return the files of a table, with the metadata columns that the statement uses."""
        hidden = self._hidden(read, self._metadata_columns.get(name, ()))
        return FilesWithMetadataColumns(read, hidden) if len(hidden) and not isinstance(read, TableChanges) else read

    def _why_not_analysed(self, text: str, names: Sequence[str]) -> ScanReason | None:
        """Return why no table of a text can be read partly, or None if the text must be analysed."""
        if not skips_files(self._spark):
            return ScanReason.OFF
        texts = [text, *self._view_texts(names)]
        has_other_meaning = any(map(has_double_quotes, texts)) and double_quotes_are_names(self._spark)
        if has_other_meaning or any(has_substitution(each) for each in texts):
            return ScanReason.OPAQUE
        return None if any(map(_HAS_CONDITION.search, texts)) else ScanReason.NO_CONDITION

    def _view_texts(self, names: Iterable[str]) -> list[str]:
        """Return the queries of the views among these placeholders."""
        return [read.text for read in map(self._reads.get, names) if isinstance(read, ViewRead)]

    def _record_full_scans(self, names: Iterable[str], reason: ScanReason) -> None:
        """Record that all files of these tables are read."""
        reads = (self._reads[name] for name in names)
        self.scans += (TableScan(read, reason=reason) for read in reads if not isinstance(read, ViewRead))

    def _names_in(self, text: str) -> list[str]:
        """Return the placeholders in a text and in the views that it reads."""
        names: list[str] = [name for name in self._pattern.findall(text) if name in self._reads]
        for name in list(names):
            read = self._reads[name]
            if isinstance(read, ViewRead):
                names += self._names_in(read.text)
        return names

    def _with_fixed_time(self, text: str, names: Sequence[str]) -> str:
        """Replace the time functions in the conditions of a text, and of the views that it reads, by the time of the statement."""
        views = {name: read for name in names if isinstance(read := self._reads[name], ViewRead)}
        texts = [each for each in (text, *(view.text for view in views.values())) if _HAS_TIME_FUNCTION.search(each)]
        queries = {each: parse_query(each) for each in texts}
        columns = {column for name in names for column in self._column_names(self._reads[name])}
        columns.update(*(bare_time_names(*item) for item in queries.items()))
        fixed = {each: with_fixed_time(each, query, self.microseconds, columns) for each, query in queries.items()}
        self._reads |= {name: replace(view, text=fixed.get(view.text, view.text)) for name, view in views.items()}
        return fixed.get(text, text)

    def _column_names(self, read: _DataRead) -> tuple[str, ...]:
        return read.columns if isinstance(read, ViewRead) else read.schema.names

    def _select_files(self, query: Query, names: Sequence[str], columns: NeededColumns) -> FileSelection:
        """Select the files of each table by the conditions that are pushed down to it. Dynamic filters read only the given columns."""
        reads = {name: self._reads[name] for name in names}
        snapshots = {name: self._files_of(name, read) for name, read in reads.items() if not isinstance(read, ViewRead)}
        sources: dict[str, Source] = {name: files.schema for name, files in snapshots.items()}
        sources |= {name: View(parse_query(read.text), read.columns) for name, read in reads.items() if isinstance(read, ViewRead)}
        # A variable can change before Spark analyses the query.
        allows_variables = not analyses_later(self._spark)
        case_sensitive = is_case_sensitive(self._spark)
        conditions = push_down(query, sources, case_sensitive=case_sensitive, allows_variables=allows_variables)
        selection = FileSelection(self._spark, snapshots, conditions)
        if not self._explains:
            selection.apply_dynamic_filters(lambda query: self._replaced(query, columns, selection), self._answer)
        evaluated = set(self._names_in(" ".join(selection.values)))
        self._record(conditions, selection, [name for name in snapshots if name not in evaluated])
        return selection

    def _answer(self, query: str) -> DataFrame | None:
        """Return the rows of a bound query from metadata, or None if it needs data files."""
        return self._answer_simple_query(query, self, self._spark, self._views)

    def _record(self, conditions: TableConditions, selection: FileSelection, names: Iterable[str]) -> None:
        """Record the scans of these tables, and the conditions that are not used."""
        for name in names:
            snapshot = self.snapshot_of(name)
            if snapshot is not None and self._views.has_cached(snapshot):
                self._record_full_scans([name], ScanReason.CACHED)
            elif name in conditions.by_table:
                scan = selection.scan(name, explains=self._explains)
                self.scans.append(replace(scan, dynamic={self._readable(text): effect for text, effect in scan.dynamic.items()}))
            else:
                self._record_full_scans([name], ScanReason.NO_CONDITION_ON_TABLE if name in conditions.analysed else ScanReason.OPAQUE)
        self.conditions_not_used += map(self._readable, conditions.not_used)

    def _readable(self, text: str) -> str:
        """Return a text with the names of tables and views instead of placeholders."""
        return self._pattern.sub(lambda match: self._reads[match[1]].name, text)

    def register_whole(self, placeholder: str) -> str:
        """Register all rows of a table or view, and return the quoted name of the Spark view. `placeholder`: from `placeholder`."""
        self._with_metadata_columns(placeholder, self._names_in(placeholder), is_expression=False)
        return self._register(placeholder.strip("`"), None, None)

    def _replaced(self, text: str, columns: NeededColumns | None, selection: FileSelection | None = None) -> str:
        """Replace the placeholders by the names of views over the selected files, or over all files without a selection.

        Without `columns`, the views have all columns, so that the result depends on nothing but the versions of the tables.
        """
        if selection is not None:
            text = selection.with_values(text)
        return self._pattern.sub(lambda match: self._register(match[1], columns, selection), text)

    def _register(self, name: str, columns: NeededColumns | None, selection: FileSelection | None) -> str:
        """Register the view of a read, and return its quoted name."""
        read = self._reads[name]
        if isinstance(read, ViewRead):
            return self._cached_query(read) or self._register_query(read, self._replaced(read.text, columns, selection))
        files = None if selection is None else selection.selected(name)
        if isinstance(read, TableChanges):
            return self._views.register_changes(read if files is None else read.selected(files))
        metadata_columns = self._hidden(read, self._metadata_columns.get(name, ())).names
        needed = None if columns is None else columns.of_table(name, read, files)
        return self._views.register_files(read, files, needed, metadata_columns)

    def _cached_query(self, read: ViewRead) -> str | None:
        """Return the quoted name of a view whose rows are cached, or None if CACHE TABLE has not cached its present rows."""
        if not self._views.has_cached_rows:
            return None
        name = self._register_query(read, self._replaced(read.text, None))
        return name if self._views.is_cached(name) else None

    def _register_query(self, read: ViewRead, text: str) -> str:
        """Register the query of a view, at most once in a statement, and return its quoted name. `text`: the query with names of views."""
        key = (text, read.columns)
        if key not in self._names_of_queries:
            column_names = {column.lower() for name in self._names_in(read.text) for column in self._column_names(self._reads[name])}
            is_known = self._settings is not None and has_only_known_names(text, column_names, _SHARED_FUNCTIONS)
            self._names_of_queries[key] = self._views.register_query(text, read.columns, self._settings if is_known else None)
        return self._names_of_queries[key]

    @cached_property
    def _settings(self) -> tuple[str, ...] | None:
        """The settings on which the meaning of a view's text depends. None on Spark Connect, where it takes as long to read them."""
        return None if analyses_later(self._spark) else tuple(setting(self._spark, *item) for item in _SETTINGS_OF_VIEWS.items())
