"""Resolve file paths of metadata. Writers spell absolute paths in several ways, the engine in one."""

from __future__ import annotations

from rowmerge.storage.store import Storage, absolute_location, locate


def is_absolute(path: str) -> bool:
    """Return whether a path of metadata begins with a slash or a scheme, and so does not depend on its reader."""
    return path.startswith("/") or ":/" in path


def plain_path(path: str) -> str:
    """Return an absolute path of metadata as the engine spells it, with its scheme: `/x`, `file:/x` and `file:///x` are one file.

    Iceberg's paths are not percent-encoded, so everything after the scheme stays as it is.
    """
    return absolute_location(path)


def located(storage: Storage, path: str) -> tuple[Storage, str]:
    """Return the storage that contains an absolute path, and the relative path in it. It is `storage` itself if that contains the path."""
    return locate(storage, plain_path(path))
