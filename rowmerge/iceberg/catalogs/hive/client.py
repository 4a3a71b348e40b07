"""The client of a Hive metastore: a connection for each thread, and changes of tables that are compared with their last state.

pyiceberg's catalog replaces a table without a comparison, because it holds the lock of the table. But a lock expires if a writer stops for
some minutes, and renaming takes no lock. So each change also names the metadata file that it replaces. Metastores since 2.3.10 and 4.0
compare it (HIVE-26882); others ignore it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    EnvironmentContext,
    InvalidObjectException,
    InvalidOperationException,
    LockRequest,
    LockResponse,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    ShowLocksRequest,
    Table as HiveTable,
    UnlockRequest,
)
from pyiceberg.catalog.hive import (
    DO_NOT_UPDATE_STATS,
    PROP_METADATA_LOCATION,
    PROP_PREVIOUS_METADATA_LOCATION,
    HiveCatalog,
    _HiveClient,
)
from pyiceberg.exceptions import BadRequestError, CommitFailedException, TableAlreadyExistsError
from pyiceberg.typedef import Properties
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

_CONNECTION_LOST = (TTransportException, OSError)
_Connect = Callable[[], AbstractContextManager["MetastoreClient"]]


class MetastoreClient(Client):  # type: ignore[misc]  # the client is generated, and has no types
    """The client of one connection to a metastore. Its changes of tables name the metadata file that they replace."""

    def __init__(self, protocol: Any, connect: _Connect) -> None:
        """Initialize the client.

        Args:
            protocol: The protocol of the open connection.
            connect: A function that opens another connection.
        """
        super().__init__(protocol)
        self._connect = connect
        self._lock_id: int | None = None

    def lock(self, rqst: LockRequest) -> LockResponse:
        """Request a lock, which is acquired or waits.

        Raises:
            BadRequestError: The metastore has no locks.
        """
        try:
            response = super().lock(rqst)
        except (TApplicationException, *_CONNECTION_LOST) as error:
            with suppress(Exception):  # the metastore may have stored the lock before the error
                self._release_lost_lock(rqst)
            if not isinstance(error, TApplicationException):
                raise
            problem = f"The metastore cannot lock a table ({error}). Its log has the cause"
            advice = "If its database lacks the tables of locks (HIVE_LOCKS), create them with Hive's schematool -initSchema"
            raise BadRequestError(f"{problem}. {advice}") from error
        self._lock_id = response.lockid
        return response

    def unlock(self, rqst: UnlockRequest) -> None:
        """Release a lock, with a new connection if this one is lost. Do nothing if the lock has expired."""
        self._lock_id = None
        with suppress(NoSuchLockException):
            try:
                super().unlock(rqst)
            except _CONNECTION_LOST:
                with self._connect() as client:
                    super(MetastoreClient, client).unlock(rqst)  # one attempt only

    def _release_lost_lock(self, request: LockRequest) -> None:
        """Release the lock of a request whose response is lost. It is known by its agent."""
        with self._connect() as client:
            for lock in client.show_locks(ShowLocksRequest()).locks or ():
                if lock.agentInfo == request.agentInfo:
                    client.unlock(UnlockRequest(lockid=lock.lockid))

    def create_table(self, tbl: HiveTable) -> None:
        """Create a table.

        Raises:
            BadRequestError: The metastore has refused the definition, has no such database, or cannot create the table's folder.
        """
        try:
            super().create_table(tbl)
        except (InvalidObjectException, InvalidOperationException, MetaException, NoSuchObjectException) as error:
            cause = f"{error.message} ({type(error).__name__})"  # some messages are only the name of the database
            raise BadRequestError(f"The metastore refuses {tbl.dbName}.{tbl.tableName}: {cause}") from error

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: HiveTable, environment_context: EnvironmentContext
    ) -> None:
        """Replace or rename a table or view, if its metadata file is the expected one.

        Args:
            dbname: The name of the database.
            tbl_name: The name of the table.
            new_tbl: The new table. Its parameters contain the metadata file that it replaces, or keep the file if it has another name.
            environment_context: The settings of the change.

        Raises:
            BadRequestError: The metastore has refused the definition.
            CommitFailedException: Another writer has changed the table, or the lock has expired.
            TableAlreadyExistsError: A table or view has the new name.
        """
        is_renamed = (new_tbl.dbName, new_tbl.tableName) != (dbname, tbl_name)
        expected = new_tbl.parameters.get(PROP_METADATA_LOCATION if is_renamed else PROP_PREVIOUS_METADATA_LOCATION)
        if expected is not None:
            comparison = {"expected_parameter_key": PROP_METADATA_LOCATION, "expected_parameter_value": expected}
            environment_context.properties = {**(environment_context.properties or {}), **comparison}
        self._check_lock()
        try:
            self._alter(dbname, tbl_name, new_tbl, environment_context)
        except InvalidOperationException as error:
            if is_renamed:
                self._check_is_free(new_tbl, error)
            if "incompatible" not in str(error.message):
                raise BadRequestError(f"The metastore refuses the change of {dbname}.{tbl_name}: {error.message}") from error
            self._remove_columns(dbname, tbl_name)
            self._alter(dbname, tbl_name, new_tbl, environment_context)

    def _alter(self, database: str, name: str, table: HiveTable, context: EnvironmentContext) -> None:
        """Replace or rename a table. Raises CommitFailedException if its metadata file is not the expected one in `context`."""
        try:
            super().alter_table_with_environment_context(database, name, table, context)
        except MetaException as error:
            if "has been modified" in str(error.message):
                raise CommitFailedException(f"Another writer has changed {database}.{name}") from error
            raise

    def _check_lock(self) -> None:
        """Check the lock of this connection, if it has one, which also renews it. Raises CommitFailedException if the lock has expired."""
        if self._lock_id is not None:
            try:
                self.check_lock(CheckLockRequest(lockid=self._lock_id))
            except NoSuchLockException as error:
                raise CommitFailedException(f"The lock {self._lock_id} has expired before the commit") from error

    def _check_is_free(self, table: HiveTable, error: InvalidOperationException) -> None:
        """Raise an error if the new name of a table is in use. Otherwise, raise the error of the metastore: the database is missing."""
        with suppress(NoSuchObjectException):
            self.get_table(table.dbName, table.tableName)
            raise TableAlreadyExistsError(f"{table.dbName}.{table.tableName} already exists") from error
        raise error

    def _remove_columns(self, database: str, name: str) -> None:
        """Remove the columns of a table in the metastore. Readers of Iceberg take the columns from the metadata file.

        By default, a metastore refuses columns whose types differ from those of the old columns at the same positions
        (`hive.metastore.disallow.incompatible.col.type.changes`). It compares only columns that both have.
        """
        table = self.get_table(database, name)
        table.sd.cols = []
        path = table.parameters[PROP_METADATA_LOCATION]
        properties = {DO_NOT_UPDATE_STATS: "true", "expected_parameter_key": PROP_METADATA_LOCATION, "expected_parameter_value": path}
        self._alter(database, name, table, EnvironmentContext(properties=properties))


class Connections(threading.local):
    """Open a connection for each block, in the thread of the block. pyiceberg's client shares one connection between threads."""

    def __init__(self, properties: Properties) -> None:
        """Initialize the connections. `properties`: the properties of the catalog, whose `uri` may list several metastores."""
        self._properties = properties
        self._open: list[_HiveClient] = []

    def __enter__(self) -> MetastoreClient:
        uris = [uri.strip() for uri in self._properties["uri"].split(",")]
        for uri in uris:
            connection = HiveCatalog._create_hive_client({**self._properties, "uri": uri})
            try:
                client = connection.__enter__()
            except _CONNECTION_LOST:
                if uri == uris[-1]:
                    raise
            else:
                self._open.append(connection)
                return MetastoreClient(client._iprot, lambda: self)
        raise AssertionError("split returns at least one address")

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)
