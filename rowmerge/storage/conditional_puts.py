"""A probe for conditional puts (`If-None-Match: *`). Without them, two writers could overwrite each other's commits."""

from __future__ import annotations

import threading
from contextlib import suppress
from uuid import uuid4

from rowmerge.errors import ConditionalPutsUnsupported, StorageError
from rowmerge.storage.store import Put, Storage

_PROBES = 2
"""The number of times that a store is probed."""

_probed_buckets: set[tuple[str, str]] = set()
"""The bucket and the configuration fingerprint of each store that honours conditional puts."""
_probe_lock = threading.Lock()


def check_conditional_puts(storage: Storage) -> None:
    """Verify, once per bucket and process, that an object store honours conditional puts. A local disk always does.

    Raises:
        ConditionalPutsUnsupported: The store ignores or refuses conditional puts, or the storage options disable them.
        StorageError: The store cannot be written to.
    """
    if not storage.is_remote:
        return
    bucket = storage.location.partition("://")[2].partition("/")[0]
    key = (bucket, storage.configuration.fingerprint)
    with _probe_lock:
        if key in _probed_buckets:
            return
        probe_conditional_puts(storage)
        _probed_buckets.add(key)


def probe_conditional_puts(storage: Storage) -> None:
    """Verify that the second of two conditional puts of a new name fails.

    Raises:
        ConditionalPutsUnsupported: The store ignores or refuses conditional puts, or the storage options disable them.
        StorageError: The store cannot be written to.
    """
    # Another process may delete one probe object, as a file of a table that it drops. So a single overwritten object proves nothing.
    if all(_conditional_put_overwrites(storage) for _ in range(_PROBES)):
        raise ConditionalPutsUnsupported(storage.address, "it ignores them, so two writers could overwrite each other's commits")


def _conditional_put_overwrites(storage: Storage) -> bool:
    """Return whether the second of two conditional puts overwrites the object of the first.

    Raises the errors of `check_conditional_puts`.
    """
    probe = f".rowmerge-probe-{uuid4()}"
    try:
        storage.put_if_absent(probe, b"1")
        return storage.put_if_absent(probe, b"2") is Put.CREATED
    except NotImplementedError as error:
        reason = f"the storage options disable them ({storage.reason_of(error)})"
        raise ConditionalPutsUnsupported(storage.address, reason) from error
    except StorageError as error:
        if "501 Not Implemented" not in error.reason:
            raise
        raise ConditionalPutsUnsupported(storage.address, f"it refuses them ({error.reason})") from error
    finally:
        with suppress(StorageError):  # without permission to delete, the probe stays
            storage.delete([probe])
