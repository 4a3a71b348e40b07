"""Normalize file paths in metadata. Writers spell absolute paths in several ways, such as `/x` and `file:/x`."""

from __future__ import annotations

from rowmerge.storage.store import Storage, absolute_location, locate


def is_absolute(path: str) -> bool:
    """Return whether a path in metadata begins with a slash or contains a scheme."""
    return path.startswith("/") or ":/" in path


def plain_path(path: str) -> str:
    """Return the normal form of an absolute path in metadata, with its scheme: `/x`, `file:/x` and `file:///x` name the same file.

    Paths in Iceberg metadata are not percent-encoded, so the part after the scheme does not change.
    """
    return absolute_location(path)


def located(storage: Storage, path: str) -> tuple[Storage, str]:
    """Return the store that contains an absolute path, and the relative path in this store.

    Args:
        storage: The store of the table. It is returned if it contains the path.
        path: An absolute path, as written in the metadata.
    """
    return locate(storage, plain_path(path))
