"""The first page of a listing, which an object store returns with one request."""

from __future__ import annotations

from functools import partial

import obstore
from obstore.exceptions import BaseError

from rowmerge.errors import StorageError
from rowmerge.storage.store import Storage, StoredObject, local_path, stored_object

PAGE = 1000
"""The number of objects in a page. S3 returns as many with one request, and other stores as many or more."""


def list_page(storage: Storage, prefix: str, after: str) -> list[StoredObject]:
    """Return the first objects below a folder, sorted by path. Fewer than PAGE objects are all that there are.

    Args:
        storage: The storage of the folder.
        prefix: The path of the folder.
        after: The path after which the listed paths must sort.

    Raises:
        StorageError: The folder cannot be listed.
    """
    if local_path(storage.location) is not None:
        return storage.list(prefix, after=after)[:PAGE]
    try:
        pages = partial(obstore.list, storage.client, prefix=prefix, offset=after, chunk_size=PAGE)
        page = storage.send(lambda: next(iter(pages()), []))
    except BaseError as error:
        raise StorageError(f"{storage.location}/{prefix}", storage.reason_of(error)) from error
    return sorted(map(stored_object, page), key=lambda item: item.path)
