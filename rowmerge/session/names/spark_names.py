"""Names that statements use in Spark: views of tables, files and queries, users' temporary views, and functions."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakKeyDictionary

from rowmerge.catalog import Catalog, Function
from rowmerge.spark.functions import is_known, register_python, register_sql, unregister
from rowmerge.spark.reading.change_feed import read_changes
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.spark_session import cache_view, drop_view, is_temporary_view, register_view, uncache_view
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.change_feed import TableChanges
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_VIEWS = 512
MOST_FUNCTIONS = 256
"""The maximum numbers of registered views and functions. If there are more, the least recently used name is dropped."""


@dataclass(frozen=True)
class CachedView:
    """A Spark view whose rows are cached. `name`: its quoted name. `storage_level`: the name of Spark's level, or None for the default."""

    name: str
    storage_level: str | None = None


def _identity_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the identity of a version of a table, and of the credentials with which its view reads files."""
    return (snapshot.shape.location, snapshot.identity, *snapshot.shape.filesystem_options.identity)


class SparkViews:
    """The registry of views in one Spark session. It is thread-safe. The methods `register_…` return quoted names.

    The name of a snapshot's view is a digest of the table's location and version, and of temporary credentials. So statements that read the
    same version share a view, until the credentials are renewed.
    The digest includes an id of the session, because another session over the same Spark drops its own views.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._session_id = spark, uuid4().hex
        self._frames: OrderedDict[str, DataFrame] = OrderedDict()
        self._uses: dict[str, int] = {}
        self._use_count = 0
        self._statements: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._views_of_plans: WeakKeyDictionary[object, frozenset[str]] = WeakKeyDictionary()
        self._cached: dict[str, CachedView] = {}
        """The views whose rows Spark caches, by the names of the tables and views that a statement cached."""
        self._lock = threading.Lock()

    @property
    def has_cached_rows(self) -> bool:
        """Whether the rows of a view are cached."""
        return bool(self._cached)

    def is_cached(self, name: str) -> bool:
        """Return whether Spark caches the rows of a view. `name`: the quoted name of the view."""
        return any(name == cached.name for cached in list(self._cached.values()))

    def has_cached(self, snapshot: Snapshot) -> bool:
        """Return whether Spark caches the rows of this version of a table."""
        return bool(self._cached) and self.is_cached(backquote(self._view_name(*_identity_of(snapshot))))

    def cache(self, relation: str, view: CachedView) -> None:
        """Let Spark cache the rows of a view when they are first read, instead of other rows of the same table or view.

        Args:
            relation: The name of the table or view.
            view: The Spark view with its present rows, whose name a method `register_…` returned.

        Raises:
            ConfigurationError: Spark has no such storage level.
        """
        self.uncache(relation)
        with self._lock:
            cache_view(self._spark, view.name.strip("`"), view.storage_level)
            self._cached[relation] = view

    def uncache(self, relation: str) -> CachedView | None:
        """Remove the rows of a table or view from the cache. Return the view that was cached, or None if there was none."""
        with self._lock:
            view = self._cached.pop(relation, None)
            if view is not None and not self.is_cached(view.name):
                uncache_view(self._spark, view.name.strip("`"))
        return view

    def clear_cache(self) -> None:
        """Remove all rows from the cache of Spark."""
        with self._lock:
            self._cached.clear()
            self._spark.catalog.clearCache()

    def protect_views_of(self, statement: object) -> None:
        """Keep each view that is used from now on, as long as `statement` exists. A statement can read more than `MOST_VIEWS` views."""
        with self._lock:
            self._statements[statement] = self._use_count

    def keep_views_of(self, statement: object, plan: object) -> None:
        """Keep the views that a statement has used since `protect_views_of`, as long as the plan of its lazy DataFrame exists."""
        with self._lock:
            start = self._statements[statement]
            self._views_of_plans[plan] = frozenset(name for name, use in self._uses.items() if use > start)

    def rows(self, snapshot: Snapshot) -> DataFrame:
        """Return the rows of a snapshot, and register them as a view on the first call."""
        name = self._view_name(*_identity_of(snapshot))
        return self._register_once(name, lambda: read_snapshot(self._spark, snapshot))

    def register_files(
        self,
        snapshot: Snapshot,
        files: FileListing | None = None,
        columns: Sequence[str] | None = None,
        metadata_columns: Sequence[str] = (),
    ) -> str:
        """Register the rows of a snapshot, or of some of its files. Two statements that read the same files and columns share a view.

        Args:
            snapshot: The snapshot of the table.
            files: The files to read; None for all files.
            columns: The names of the columns if Arrow reads some of the files; None if Spark reads all files and all columns.
            metadata_columns: The names of the metadata columns after them.
        """
        if not metadata_columns and self.has_cached(snapshot):
            files = columns = None
        # Without the words, the view of no files would have the name of another view.
        listed = () if files is None else ("files", *files.paths)
        # With a setting, Spark reads a table that Arrow has read before.
        read_columns = () if columns is None else ("columns", *columns)
        read_columns = ("metadata columns", *metadata_columns, *read_columns) if metadata_columns else read_columns
        name = self._view_name(*read_columns, *listed, *_identity_of(snapshot))
        self._register_once(name, lambda: read_snapshot(self._spark, snapshot, files, columns, metadata_columns=metadata_columns))
        return backquote(name)

    def register_changes(self, changes: TableChanges) -> str:
        """Register the change rows between two versions of a table, or those of some changed files."""
        snapshot, files = changes.snapshot, (f"{file.version} {file.change} {file.path}" for file in changes.changed_files)
        name = self._view_name("changes", *_identity_of(snapshot), str(changes.first), str(changes.last), *files)
        self._register_once(name, lambda: read_changes(self._spark, changes))
        return backquote(name)

    def register_query(self, text: str, columns: tuple[str, ...], settings: Sequence[str] | None) -> str:
        """Register a query in Spark's SQL.

        Args:
            text: The text of the query, with the names that Spark resolves.
            columns: The names of the view's columns. Empty to use the column names of the query.
            settings: The settings on which the meaning of the text depends. Later statements with the same settings share the view. None if
                the text may depend on more, such as session variables, which Spark resolves when it reads the text.
        """

        def read() -> DataFrame:
            frame = self._spark.sql(text)
            return frame.toDF(*columns) if columns and list(columns) != frame.columns else frame

        if settings is None:
            return self.register_frame(read())
        name = self._view_name(text, *columns, *settings)
        self._register_once(name, read)
        return backquote(name)

    def register_frame(self, frame: DataFrame) -> str:
        """Register rows under a new name. Other statements must not reuse such rows, for example those of a listing of files."""
        name = f"__rowmerge_{uuid4().hex}"
        with self._lock:
            self._register(name, frame)
        return backquote(name)

    def _view_name(self, *identity: str) -> str:
        return unique_name(self._session_id, *identity)

    def _register_once(self, name: str, read: Callable[[], DataFrame]) -> DataFrame:
        """Return the rows of a view. The first call reads and registers them."""
        with self._lock:
            if name not in self._frames:
                self._register(name, read())
            self._record_use(name)
            return self._frames[name]

    def _register(self, name: str, frame: DataFrame) -> None:
        """Register a view under a new name. If there are too many views, drop the least recently used ones."""
        register_view(frame, name)
        self._frames[name] = frame
        self._record_use(name)
        if len(self._frames) > MOST_VIEWS:
            self._drop_old_views()

    def _drop_old_views(self) -> None:
        """Drop the least recently used views that neither a statement nor a lazy DataFrame needs, until MOST_VIEWS remain."""
        first_protected_use = min(self._statements.values(), default=self._use_count)
        kept_names = frozenset(view.name.strip("`") for view in self._cached.values()).union(*self._views_of_plans.values())
        for name in list(self._frames):
            if len(self._frames) <= MOST_VIEWS or self._uses[name] > first_protected_use:
                return
            if name not in kept_names:
                del self._frames[name], self._uses[name]
                drop_view(self._spark, name)

    def _record_use(self, name: str) -> None:
        self._use_count += 1
        self._uses[name] = self._use_count
        self._frames.move_to_end(name)


class TemporaryViews:
    """The temporary views of a session, each with its query and the schema in which it was created. Names are not case-sensitive.

    Spark itself would bind a view to the table versions at its creation. Here, a statement that reads a view binds the text again, and so
    reads the newest versions.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, tuple[str, str]] = {}

    def create(self, name: str, query: str, schema: str, frame: DataFrame) -> None:
        """Create or replace a view.

        Args:
            name: The name of the view.
            query: The text of the query, for SQL statements of the session.
            schema: The schema of the unqualified names in the query.
            frame: The current rows of `query`, for the DataFrame API.
        """
        self._queries[name.lower()] = query, schema
        register_view(frame, name)

    def drop(self, name: str) -> bool:
        """Drop a view. Return whether it existed."""
        has_query = self._queries.pop(name.lower(), None) is not None
        return drop_view(self._spark, name) or has_query

    def exists(self, name: str) -> bool:
        """Return whether SQL or the DataFrame API created a view of this name."""
        return name.lower() in self._queries or is_temporary_view(self._spark, name)

    def query(self, name: str) -> tuple[str, str] | None:
        """Return the query of a view and the schema of its unqualified names, or None for a view of the DataFrame API."""
        return self._queries.get(name.lower())


class WarehouseFunctions:
    """The functions of the catalog, which are registered in one Spark session when they are called. Thread-safe."""

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark, self._catalog = spark, catalog
        self._session_id = uuid4().hex  # a drop must not affect another session over the same Spark
        self._registered: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, schema: str, name: str, *, is_qualified: bool) -> Function | None:
        """Return the function that a call names, or None for a Spark function or a function that does not exist.

        Args:
            schema: The schema of the function: the schema in the call, or the current schema if the call has none.
            name: The name of the function.
            is_qualified: Whether the call has a schema. Otherwise a function of the Spark session takes precedence.
        """
        function = self._catalog.functions.get(schema, name)
        return None if function is not None and not is_qualified and is_known(self._spark, name) else function

    def register(self, function: Function, body: str) -> str:
        """Register a function in Spark, and return its quoted name there.

        Args:
            function: The function of the catalog.
            body: The body of a SQL function, with bound names. Empty for a Python function.
        """
        name = unique_name("function", self._session_id, str(function), repr(function.definition), body)
        with self._lock:
            if name not in self._registered:
                self._register(name, function, body)
            self._registered.move_to_end(name)
        return backquote(name)

    def _register(self, name: str, function: Function, body: str) -> None:
        """Register a function under a new name. If there are too many functions, drop the least recently used one."""
        if function.definition.language == "sql":
            register_sql(self._spark, name, function.definition, body)
        else:
            register_python(self._spark, name, str(function), function.definition)
        self._registered[name] = None
        while len(self._registered) > MOST_FUNCTIONS:
            least_recent, _ = self._registered.popitem(last=False)
            unregister(self._spark, least_recent)


def unique_name(*identity: str) -> str:
    """Return the unquoted name of a view or function, with a digest of the strings that identify it."""
    return f"__rowmerge_{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:24]}"
