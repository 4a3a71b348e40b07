"""pyiceberg's catalog of a Hive metastore, with locks that are checked and whose holders are named."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from uuid import uuid4

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.hive import HIVE2_COMPATIBLE, HiveCatalog
from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from rowmerge.iceberg.catalogs.hive.client import Connections, MetastoreClient

_MAX_WAIT = 2.0
"""The maximum seconds between two questions whether a lock is acquired."""


class LockingHiveCatalog(HiveCatalog):
    """pyiceberg's catalog of a Hive metastore. It waits for locks with short intervals, and names the holder of a lock."""

    def __init__(self, name: str, **properties: str) -> None:
        """Initialize the catalog.

        Args:
            name: The name of the catalog.
            properties: The properties of pyiceberg.
        """
        # Hive 2 does not know "timestamp with local time zone". Iceberg on Spark writes "timestamp", too.
        super().__init__(name, **{HIVE2_COMPATIBLE: "true", **properties})
        self._client = Connections(self.properties)  # type: ignore[assignment]
        self._min_wait, self._max_wait = float(self._lock_check_min_wait_time or 0), float(self._lock_check_max_wait_time or 0)
        # The same time as in pyiceberg, whose intervals double from 2 seconds on.
        waits = (2.0 * 2**attempt for attempt in range(int(self._lock_check_retries or 1) - 1))
        self._max_lock_seconds = sum(min(max(wait, self._min_wait), self._max_wait) for wait in waits)

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create a database below the warehouse, as Iceberg's HiveCatalog for Java does.

        Args:
            namespace: The name of the database.
            properties: The properties of the database.
        """
        warehouse = self.properties.get("warehouse")
        default = {"location": f"{warehouse.rstrip('/')}/{self.identifier_to_database(namespace)}.db"} if warehouse else {}
        super().create_namespace(namespace, {**default, **properties})

    @contextmanager
    def locked(self, database: str, name: str) -> Iterator[MetastoreClient]:
        """Yield a client while this process holds the lock of a table or view.

        Args:
            database: The name of the database.
            name: The name of the table or view.

        Raises:
            CommitFailedException: The metastore has aborted the lock.
            WaitingForLockException: Another process has not released the lock in time.
        """
        with self._client as client:
            lock = client.lock(self._create_lock_request(database, name))
            try:
                if lock.state != LockState.ACQUIRED:
                    self._wait_for_lock(database, name, lock.lockid, client)
                yield client
            finally:
                client.unlock(UnlockRequest(lockid=lock.lockid))

    def _create_lock_request(self, database_name: str, table_name: str) -> LockRequest:
        component = LockComponent(
            level=LockLevel.TABLE,
            type=LockType.EXCLUSIVE,
            dbname=database_name,
            tablename=table_name,
            operationType=DataOperationType.NO_TXN,
            isTransactional=True,
        )
        agent = f"rowmerge-{os.getpid()}-{uuid4()}"
        return LockRequest(component=[component], user=getpass.getuser(), hostname=socket.gethostname(), agentInfo=agent)

    def _wait_for_lock(self, database_name: str, table_name: str, lockid: int, open_client: Client) -> LockResponse:
        deadline, wait = time.monotonic() + self._max_lock_seconds, self._min_wait
        while True:
            response = open_client.check_lock(CheckLockRequest(lockid=lockid))
            if response.state == LockState.ACQUIRED:
                return response
            if response.state != LockState.WAITING:
                raise CommitFailedException(f"The metastore has aborted the lock {lockid} of {database_name}.{table_name}")
            if time.monotonic() >= deadline:
                raise WaitingForLockException(self._describe_holder(database_name, table_name, lockid, open_client))
            time.sleep(min(wait, max(deadline - time.monotonic(), 0)))
            wait = min(wait * 1.5, self._max_wait, _MAX_WAIT)

    def _describe_holder(self, database: str, name: str, lock_id: int, client: Client) -> str:
        """Return a message about the lock for which this process has waited in vain, with the remedy."""
        locks = client.show_locks(ShowLocksRequest()).locks or ()
        other_locks = [lock for lock in locks if (lock.dbname, lock.tablename) == (database, name) and lock.lockid != lock_id]
        holder = min(other_locks, key=lambda lock: lock.lockid, default=None)
        if holder is None:
            return f"The lock of {database}.{name} was not acquired within {self._max_lock_seconds:g} s. Run the statement again"
        since = datetime.fromtimestamp((holder.acquiredat or holder.lastheartbeat) / 1000, timezone.utc)
        process = f"{holder.user}@{holder.hostname} ({holder.agentInfo}) since {since:%Y-%m-%d %H:%M:%S} UTC"
        problem = f"The lock {holder.lockid} was not released within {self._max_lock_seconds:g} s (lock-check-retries)"
        remedy = f"If its process has ended, remove the lock as the page about Hive describes (UnlockRequest(lockid={holder.lockid}))"
        return f"{database}.{name} is locked by {process}. {problem}. If its process runs, run the statement again. {remedy}"


def open_hive_catalog(catalog: Catalog) -> Catalog:
    """Return pyiceberg's catalog of a Hive metastore with checked locks. Return any other catalog, and a subclass of a user, unchanged."""
    return LockingHiveCatalog(catalog.name, **catalog.properties) if type(catalog) is HiveCatalog else catalog
