"""The views of a Hive metastore, as Iceberg's HiveCatalog for Java stores views."""

from __future__ import annotations

import getpass
import time
from contextlib import suppress

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    AlreadyExistsException,
    EnvironmentContext,
    FieldSchema,
    NoSuchObjectException,
    Table as HiveTable,
    UnknownDBException,
)
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.hive import DO_NOT_UPDATE_STATS, HIVE2_COMPATIBLE, SchemaToHiveConverter, _construct_hive_storage_descriptor
from pyiceberg.exceptions import CommitFailedException, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.utils.properties import property_as_bool
from thrift.Thrift import TApplicationException

from rowmerge.iceberg.catalogs.hive.catalog import LockingHiveCatalog
from rowmerge.iceberg.catalogs.metastore_views import VIRTUAL_VIEW, ViewDefinition, metadata_path

_MAX_RETENTION = 2**31 - 1


class HiveViews:
    """The views of a Hive metastore. `rowmerge.iceberg.catalogs.metastore_views.ViewEntries` documents the methods.

    Changes of a view hold its lock, as in Iceberg's HiveCatalog for Java.
    """

    def __init__(self, catalog: LockingHiveCatalog) -> None:
        """Initialize the views of a catalog."""
        self._catalog = catalog

    def names(self, namespace: str) -> list[str]:
        with self._catalog._client as client, suppress(NoSuchObjectException, UnknownDBException):
            names = _view_names(client, namespace)
            views = client.get_table_objects_by_name(namespace, names) if names else []
            return [view.tableName for view in views if _path(view) is not None]
        return []

    def path(self, view: tuple[str, str]) -> str | None:
        with self._catalog._client as client:
            return _path(_table(client, *view))

    def create(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        database, name = view
        now = int(time.time())
        table = HiveTable(
            tableName=name,
            dbName=database,
            owner=definition.metadata["properties"].get("hive.metastore.table.owner", getpass.getuser()),
            createTime=now,
            lastAccessTime=now,
            retention=_MAX_RETENTION,
            partitionKeys=[],
            tableType=VIRTUAL_VIEW,
        )
        self._define(table, definition)
        with self._catalog._client as client, suppress(AlreadyExistsException):
            client.create_table(table)
            return True
        return False

    def replace(self, view: tuple[str, str], definition: ViewDefinition) -> bool:
        with self._catalog.locked(*view) as client:
            table = _table(client, *view)
            if table is None or _path(table) != definition.previous_path:
                return False
            self._define(table, definition)
            with suppress(CommitFailedException):
                _alter(client, view, table)
                return True
            return False

    def rename(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give a view another name. Return False if a table or view has the new name.

        Args:
            source: The namespace and the name of the view.
            target: The new namespace and the new name.

        Raises:
            CommitFailedException: Another writer has changed the view, or the lock has expired.
            NoSuchViewError: The view does not exist.
        """
        with self._catalog.locked(*source) as client:
            table = _table(client, *source)
            if table is None or _path(table) is None:
                raise NoSuchViewError(".".join(source))
            table.dbName, table.tableName = target
            with suppress(TableAlreadyExistsError):
                _alter(client, source, table)
                return True
            return False

    def drop(self, view: tuple[str, str], path: str) -> bool:
        with self._catalog.locked(*view) as client:
            if _path(_table(client, *view)) != path:
                return False
            client.drop_table(*view, deleteData=False)
            return True

    def _define(self, table: HiveTable, definition: ViewDefinition) -> None:
        """Give a table of the metastore the definition of a view."""
        is_compatible = property_as_bool(self._catalog.properties, HIVE2_COMPATIBLE, True)
        columns = definition.columns(SchemaToHiveConverter(is_compatible))
        table.sd = _construct_hive_storage_descriptor(Schema(), definition.location, is_compatible)
        table.sd.cols = [FieldSchema(*column) for column in columns]
        table.parameters = definition.parameters(table.parameters)
        table.viewOriginalText = table.viewExpandedText = definition.sql


def _table(client: Client, database: str, name: str) -> HiveTable | None:
    """Return the metastore's table of this name, whatever it represents, or None."""
    with suppress(NoSuchObjectException):
        return client.get_table(database, name)
    return None


def _path(table: HiveTable | None) -> str | None:
    return None if table is None else metadata_path(table.tableType, table.parameters)


def _view_names(client: Client, database: str) -> list[str]:
    """Return the names of all views in a database, or of all tables and views if the metastore is older than 2.3."""
    try:
        names: list[str] = client.get_tables_by_type(database, "*", VIRTUAL_VIEW)
    except TApplicationException as error:
        if error.type != TApplicationException.UNKNOWN_METHOD:
            raise
        names = client.get_all_tables(database)
    return names


def _alter(client: Client, view: tuple[str, str], table: HiveTable) -> None:
    """Replace or rename a view."""
    client.alter_table_with_environment_context(*view, table, EnvironmentContext(properties={DO_NOT_UPDATE_STATS: "true"}))


def open_hive_views(catalog: Catalog) -> HiveViews | None:
    """Return the views of a Hive metastore, or None for a catalog of another type."""
    return HiveViews(catalog) if isinstance(catalog, LockingHiveCatalog) else None
