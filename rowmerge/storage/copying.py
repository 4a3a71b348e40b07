"""Copy objects between stores, in pieces, so that large data files need little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import obstore
from obstore.exceptions import BaseError

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import MissingDataFile, StorageError
from rowmerge.storage.store import Storage, locate

_PIECE = 8 * 2**20


def copy_objects(table: str, source: Storage, target: Storage, paths: Sequence[tuple[str, str]]) -> None:
    """Copy objects concurrently. Each gets its name when it is complete, and replaces an older object of the name.

    Args:
        table: The name of the source table in errors.
        source: The storage of the source table.
        target: The storage to which the objects are copied.
        paths: The absolute path of each object, and of its copy.

    Raises:
        MissingDataFile: An object does not exist.
        StorageError: An object cannot be read or written.
    """
    map_concurrently(partial(_copy_object, table, source, target), paths)
    target.sync([copied for _, copied in paths])


def _copy_object(table: str, source: Storage, target: Storage, paths: tuple[str, str]) -> None:
    """Copy one object. `paths`: its absolute path, and that of the copy."""
    path, copied_path = paths
    source_store, source_path = locate(source, path)
    target_store, target_path = locate(target, copied_path)
    if not source_store.exists(source_path):
        raise MissingDataFile(table, path)
    pieces = _read_pieces(table, source_store, source_path, path)
    try:
        writer = obstore.open_writer(target_store.client, target_path)
        for piece in pieces:
            writer.write(piece)
        writer.close()  # gives the copy its name, so it is not called after an error
    except (BaseError, OSError) as error:
        raise StorageError(copied_path, target_store.reason_of(error)) from None


def _read_pieces(table: str, store: Storage, relative_path: str, path: str) -> Iterator[bytes]:
    """Yield the content of an object. Its errors name the object, and are not those of the copy.

    `relative_path`: the path of the object in the storage. `path`: its absolute path.
    """
    try:
        reader = obstore.open_reader(store.client, relative_path, buffer_size=_PIECE)
        while piece := reader.read(_PIECE):
            yield bytes(piece)
    except FileNotFoundError as error:
        raise MissingDataFile(table, path) from error
    except (BaseError, OSError) as error:
        raise StorageError(path, store.reason_of(error)) from None
