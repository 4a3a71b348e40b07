"""From table names in SQL to temporary views of Spark, each bound to one snapshot for the whole statement."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from rowmerge.catalog import Catalog, Function, Relation, TablesByPath
from rowmerge.commands.files import TABLE_FORMATS, FileSource
from rowmerge.commands.names import CATALOGS, SqlText, TableName
from rowmerge.errors import PlanError, SchemaNotFound, TableNotFound
from rowmerge.session.change_arguments import changes_asked
from rowmerge.session.description import RelationDescription, of_snapshot
from rowmerge.session.information_schema import INFORMATION_SCHEMA, TABLES, information
from rowmerge.spark.change_feed import read_changes
from rowmerge.spark.file_sources import absolute, read_file_source, size_and_age
from rowmerge.spark.functions import BUILT_IN, is_known, register_python, register_sql
from rowmerge.spark.functions import unregister as unregister_function
from rowmerge.spark.scan import read_snapshot
from rowmerge.spark.types import schema_of
from rowmerge.spark.views import is_temporary_view, milliseconds, register, unregister
from rowmerge.sql import Called, TableReference, bind, bind_expression, expression_of, names_of_with
from rowmerge.table.change_feed import TableChanges
from rowmerge.table.schema import backquote, quote, string_literal
from rowmerge.table.snapshot import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT_VIEWS, KEPT_FUNCTIONS = 512, 256


class Binder:
    """Finds what names mean and gives queries over our tables to Spark. Safe for several threads."""

    def __init__(
        self, spark: SparkSession, catalog: Catalog, schema: str, by_path: TablesByPath | None = None, catalog_name: str | None = None
    ) -> None:
        self.spark = spark
        self._catalog_names = CATALOGS if catalog_name is None else (catalog_name.lower(), *CATALOGS)
        self._by_path = by_path or TablesByPath()
        self._numbers = itertools.count()
        self._catalog = catalog
        self.schema = schema
        self._temporary: dict[str, str] = {}
        self._views: OrderedDict[str, DataFrame] = OrderedDict()
        self._functions: OrderedDict[str, None] = OrderedDict()
        self._own = uuid4().hex  # what this session drops, no other one needs
        self._lock = threading.RLock()

    # ---------------------------------------------------------- names

    def locate(self, name: TableName, default_schema: str = "") -> tuple[str, str]:
        """The schema and name of a table of ours. Raises TableNotFound for a name with too many parts."""
        parts = self.within_catalog(name.parts)
        if len(parts) == 1:
            return default_schema or self.schema, parts[0]
        if len(parts) == 2:
            return parts[0], parts[1]
        raise TableNotFound(str(name))

    def within_catalog(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The parts of a name of three or more without the first, where that is the catalog's name."""
        return parts[1:] if len(parts) > 2 and parts[0].lower() in self._catalog_names else parts

    def table(self, name: TableName) -> Table:
        """The existing table of this name. Raises TableNotFound with near names, TableError for a view."""
        schema, table = self.locate(name)
        if not self._catalog.schema_exists(schema):
            raise SchemaNotFound(quote(schema), self._catalog.schemas())
        return self._catalog.open(schema, table)

    def written(self, name: TableName) -> Table:
        """The table that a statement writes to, as its branch has it where one is named (`db.orders.branch_audit`).

        Raises as `table` does, VersionNotFound for a branch that is not there, PlanError for a tag.
        """
        found = self.reference_in(name)
        return self.table(name) if found is None else self.table(found[0]).branch(found[1])

    def reference_in(self, name: TableName) -> tuple[TableName, str] | None:
        """A name's branch or tag (`TableName.reference`); None where a table or view has the whole of it for its name."""
        if (found := name.reference) is None:
            return None
        parts = self.within_catalog(name.parts)
        whole = len(parts) == 2 and self.relation(*parts) is not None
        return None if whole else found

    def add_temporary(self, name: str, query: str) -> None:
        """CREATE TEMPORARY VIEW: the text is kept, so that each use sees the newest versions; Spark knows it too."""
        frame = self.query(query)
        with self._lock:
            self._temporary[name.lower()] = query
        frame.createOrReplaceTempView(backquote(name))

    def drop_temporary(self, name: str) -> bool:
        """Whether there was such a temporary view; it is gone now."""
        with self._lock:
            known = self._temporary.pop(name.lower(), None) is not None
        return unregister(self.spark, name) or known

    def is_temporary(self, name: str) -> bool:
        """Whether a temporary view of this name exists, ours or made through the DataFrame API."""
        return name.lower() in self._temporary or is_temporary_view(self.spark, name)

    # ---------------------------------------------------------- queries

    def query(self, text: str, statement: Statement | None = None) -> DataFrame:
        """A query over our tables, Spark's and temporary views, as a DataFrame."""
        names = statement or Statement(self)
        return self.spark.sql(bind(text, names.resolve, names.function))

    def statement(self, target: Snapshot, with_clause: SqlText | None = None) -> Statement:
        """The names of a statement that writes: its target means this snapshot wherever it is read.

        `with_clause`: the WITH list before the statement, whose names can be read in all of it.
        """
        text = with_clause.text if with_clause is not None else ""
        return Statement(self, pinned={target.line: target}, with_text=text, with_names=names_of_with(text) if text else frozenset())

    def frame(self, snapshot: Snapshot) -> DataFrame:
        """The rows of a snapshot; made once a version."""
        return self._frame(snapshot)[1]

    def temporary_text(self, name: str) -> str | None:
        """The query of a temporary view that was made by a statement."""
        return self._temporary.get(name.lower())

    def relation(self, schema: str, name: str) -> Relation | None:
        """What the catalog has under a name."""
        return self._catalog.relation(schema, name)

    def view_query(self, relation: Relation) -> tuple[str, str, tuple[str, ...]]:
        """A view's text, the schema of its unqualified names, and its columns."""
        view = self._catalog.view(relation.schema, relation.name)
        return view.sql, view.default_schema, view.columns.names

    def timestamp(self, text: str) -> int:
        """A timestamp expression in milliseconds since the epoch, in the session's time zone."""
        return milliseconds(self.spark, text)

    def register_snapshot(self, snapshot: Snapshot) -> str:
        """The quoted name of the view of a snapshot."""
        return backquote(self._frame(snapshot)[0])

    def register_changes(self, changes: TableChanges) -> str:
        """The quoted name of the view of change rows."""
        snapshot = changes.snapshot
        name = f"__rowmerge_{_digest('changes', snapshot.location, snapshot.identity, str(changes.first), str(changes.last))}"
        with self._lock:
            if name not in self._views:
                self._keep(name, read_changes(self.spark, changes))
            self._views.move_to_end(name)
        return backquote(name)

    def table_by_path(self, source: FileSource) -> Table:
        """The table whose folder a query names. Raises FilesNotFound."""
        return self._by_path.open(absolute(source.path), source.format, source.told)

    def describe_files(self, source: FileSource) -> RelationDescription:
        """What is known of files without reading them, or of the table whose folder it is. Raises FilesNotFound."""
        *schema, name = source.name.parts if source.name is not None else (source.path,)
        relation = Relation(schema[-1] if schema else "", name, "table", source.format)
        if source.format in TABLE_FORMATS:
            return of_snapshot(relation, self.table_by_path(source).snapshot())
        columns = schema_of(read_file_source(self.spark, source)).fields
        size, newest = size_and_age(self.spark, source)
        return RelationDescription(relation, columns, absolute(source.path), modified=newest, size=size)

    def register_files(self, source: FileSource) -> str:
        """The quoted name of a view of files, as they are listed now: no later statement reads the same listing."""
        name = f"__rowmerge_files_{next(self._numbers)}_{_digest(str(source))}"
        frame = read_file_source(self.spark, source)
        with self._lock:
            self._keep(name, frame)
        return backquote(name)

    def register_information(self, table: str) -> str:
        """The quoted name of a view of a table of `information_schema`, as it is now."""
        name = f"__rowmerge_information_{next(self._numbers)}_{table}"
        with self._lock:
            self._keep(name, information(self.spark, self._catalog, self._catalog_names[0], table))
        return backquote(name)

    def register_query(self, text: str, columns: tuple[str, ...]) -> str:
        """The quoted name of a view over bound text, its columns named anew."""
        name = f"__rowmerge_{_digest(text, *columns)}"
        with self._lock:
            if name not in self._views:
                frame = self.spark.sql(text)
                self._keep(name, frame.toDF(*columns) if columns and list(columns) != frame.columns else frame)
            self._views.move_to_end(name)
        return backquote(name)

    def function(self, schema: str, name: str) -> Function | None:
        """What the catalog has under a function's name."""
        return self._catalog.function(schema, name)

    def register_function(self, function: Function, body: str) -> str:
        """The quoted name of a function in Spark's session; of one in SQL, with its bound body."""
        definition = function.definition
        name = f"__rowmerge_{_digest('function', self._own, str(function), repr(definition), body)}"
        with self._lock:
            if name not in self._functions:
                if definition.language == "sql":
                    register_sql(self.spark, name, definition, body)
                else:
                    register_python(self.spark, name, str(function), definition)
                self._functions[name] = None
                while len(self._functions) > KEPT_FUNCTIONS:
                    unregister_function(self.spark, self._functions.popitem(last=False)[0])
            self._functions.move_to_end(name)
        return backquote(name)

    def _frame(self, snapshot: Snapshot) -> tuple[str, DataFrame]:
        name = f"__rowmerge_{_digest(snapshot.location, snapshot.identity)}"
        with self._lock:
            if name not in self._views:
                self._keep(name, read_snapshot(self.spark, snapshot))
            self._views.move_to_end(name)
            return name, self._views[name]

    def _keep(self, name: str, frame: DataFrame) -> None:
        register(frame, name)
        self._views[name] = frame
        while len(self._views) > KEPT_VIEWS:
            old, _ = self._views.popitem(last=False)
            unregister(self.spark, old)


@dataclass
class Statement:
    """The names of one statement: each is looked up once, so that it means one version everywhere in it.

    `pinned`: snapshots by their line that names must mean; `read`: lines of the tables that were read at their newest version, `newest`
    what that is. `with_text`: a WITH list before the statement, `with_names` its names in lower case.
    """

    binder: Binder
    schema: str = ""
    found: dict[tuple[str, ...], str | None] = field(default_factory=dict)
    within: tuple[str, ...] = ()
    pinned: Mapping[str, Snapshot] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    newest: dict[str, Snapshot] = field(default_factory=dict)
    with_text: str = ""
    with_names: frozenset[str] = frozenset()
    called: dict[tuple[str, str, bool], Called | None] = field(default_factory=dict)

    def resolve(self, reference: TableReference) -> str | None:
        """The quoted view for a name, or None for a name that is Spark's."""
        first = reference.name.parts[0]
        plain = not reference.timed and reference.changes is None
        if plain and len(reference.name.parts) == 1 and first.lower() in self.with_names:
            return self._view(f"WITH {first}", f"{self.with_text} select * from {backquote(first)}", self.schema, ())
        time = reference.timestamp.text if reference.timestamp else ""
        arguments = (str(reference.files),) if reference.files else tuple(argument.text for argument in reference.changes or ())
        at = (str(reference.version), reference.reference or "", time)
        key = (*(part.lower() for part in reference.name.parts), *at, self.schema, *arguments)
        if key not in self.found:
            self.found[key] = self._look_up(reference)
        return self.found[key]

    def _look_up(self, reference: TableReference) -> str | None:
        if reference.changes is not None:
            return self._changes(reference.changes)
        if reference.files is not None:
            return self._files(reference.files)
        parts = self.binder.within_catalog(reference.name.parts)
        timed = reference.timed
        if len(parts) == 1 and self.binder.is_temporary(parts[0]):
            text = self.binder.temporary_text(parts[0])
            if timed:
                raise PlanError(f"{parts[0]} is a temporary view: it has no versions. Name a table before VERSION or TIMESTAMP AS OF.")
            return None if text is None else self._view(f"temporary view {parts[0]}", text, self.binder.schema, ())
        if len(parts) > 1 and (found := self.binder.reference_in(TableName(parts))) is not None:
            return self._at_reference(*found, timed)
        if len(parts) > 2:
            return None
        schema, name = (self.schema or self.binder.schema, parts[0]) if len(parts) == 1 else parts
        relation = self.binder.relation(schema, name)
        if relation is None:
            told = schema.lower() == INFORMATION_SCHEMA and name.lower() in TABLES
            return self.binder.register_information(name.lower()) if told else None
        if relation.kind == "view":
            if timed:
                raise PlanError(
                    f"{relation.schema}.{relation.name} is a view: it has no versions. Name a table before VERSION or TIMESTAMP AS OF."
                )
            text, default_schema, columns = self.binder.view_query(relation)
            return self._view(f"{relation.schema}.{relation.name}", text, default_schema, columns)
        table = self.binder.table(TableName((schema, name)))
        if reference.version is not None:
            snapshot = table.snapshot_at(version=reference.version)
        elif reference.timestamp is not None:
            snapshot = table.snapshot_at(timestamp=self.binder.timestamp(reference.timestamp.text))
        elif reference.reference is not None:
            snapshot = self._read(table.at(reference.reference))
        else:
            snapshot = self._read(self._newest(table))
        return self.binder.register_snapshot(snapshot)

    def _at_reference(self, name: TableName, reference: str, timed: bool) -> str | None:
        """A table at a branch or tag; None for a name that the catalog does not know."""
        schema, table = self.binder.locate(name, self.schema)
        relation = self.binder.relation(schema, table)
        if relation is None or relation.kind == "view":
            return None
        if timed:
            raise PlanError(f"{name} is read at {reference} already. Leave VERSION or TIMESTAMP AS OF out, or name the table alone.")
        return self.binder.register_snapshot(self._read(self.binder.table(TableName((schema, table))).at(reference)))

    def _read(self, snapshot: Snapshot) -> Snapshot:
        """The newest snapshot of a table, a branch or a tag, as the statement has it."""
        self.read.add(snapshot.line)
        return self.newest.setdefault(snapshot.line, self.pinned.get(snapshot.line, snapshot))

    def _changes(self, arguments: tuple[SqlText, ...]) -> str:
        asked = changes_asked(self.binder.spark, arguments)
        schema, name = self.binder.locate(asked.table, self.schema)
        if (relation := self.binder.relation(schema, name)) is not None and relation.kind == "view":
            raise PlanError(f"{relation.schema}.{relation.name} is a view: it has no changes. Name a table in table_changes(…).")
        table = self.binder.table(TableName((schema, name)))
        newest = self._newest(table)
        changes = table.changes(newest, asked.first, asked.last)
        if changes.last == newest.version and (asked.last is None or asked.last.version != changes.last):
            self.read.add(newest.line)
        return self.binder.register_changes(changes)

    def _files(self, source: FileSource) -> str:
        if source.format not in TABLE_FORMATS:
            return self.binder.register_files(source)
        table = self.binder.table_by_path(source)
        version, time = source.options.get("versionAsOf"), source.options.get("timestampAsOf")
        if version is not None:
            if not version.lstrip("-").isdecimal():
                raise PlanError(f"versionAsOf of {source.told} is {version!r}, which is no version. Give a whole number.")
            return self.binder.register_snapshot(table.snapshot_at(version=int(version)))
        if time is not None:
            return self.binder.register_snapshot(table.snapshot_at(timestamp=self.binder.timestamp(string_literal(time))))
        self.read.add(table.location)
        return self.binder.register_snapshot(self._newest(table))

    def _newest(self, table: Table) -> Snapshot:
        if table.location not in self.newest:
            self.newest[table.location] = self.pinned.get(table.location) or table.snapshot()
        return self.newest[table.location]

    def _view(self, name: str, text: str, schema: str, columns: tuple[str, ...]) -> str:
        if name in self.within:
            raise PlanError(f"The view {name} reads itself ({' → '.join((*self.within, name))}). Replace one of these.")
        inner = self._inside(name, schema)
        return self.binder.register_query(bind(text, inner.resolve, inner.function), columns)

    def _inside(self, name: str, schema: str) -> Statement:
        """The names in the text of a view or a function."""
        return Statement(self.binder, schema, self.found, (*self.within, name), self.pinned, self.read, self.newest, called=self.called)

    # ---------------------------------------------------------- functions

    def function(self, written: TableName) -> Called | None:
        """What a called name means; None for one of Spark's, which comes first where no schema is named.

        Raises PlanError for a function that calls itself.
        """
        parts = self.binder.within_catalog(written.parts)
        plain = len(parts) == 1
        if len(parts) > 2 or (plain and parts[0].lower() in BUILT_IN):
            return None
        schema, called = (self.schema or self.binder.schema, parts[0]) if plain else parts
        if (name := f"{schema}.{called}()".lower()) in self.within:
            raise PlanError(f"The function {name} calls itself ({' → '.join((*self.within, name))}). Replace one of these.")
        key = (schema.lower(), called.lower(), plain)
        if key not in self.called:
            function = self.binder.function(schema, called)
            if function is not None and plain and is_known(self.binder.spark, called):
                function = None
            self.called[key] = None if function is None else self.meaning(function)
        return self.called[key]

    def meaning(self, function: Function) -> Called:
        """What calls of a function become."""
        definition, body = function.definition, ""
        if definition.language == "sql":
            inner = self._inside(f"{function.schema}.{function.name}()", function.default_schema)
            body = bind_expression(expression_of(definition.body), inner.resolve, inner.function)
        return Called(str(function), definition, body, lambda: self.binder.register_function(function, body))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
