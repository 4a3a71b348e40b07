"""Where files of a table lie: metadata spells absolute paths as their writers liked, the engine in one way."""

from __future__ import annotations

from rowmerge.storage.store import Storage, absolute_location


def is_absolute(path: str) -> bool:
    """Whether a path of Iceberg's metadata names a file wherever it is read: it begins with a slash or a scheme."""
    return path.startswith("/") or ":/" in path


def plain_path(path: str) -> str:
    """An absolute path of Iceberg's metadata as the engine spells it, with its scheme: `/x`, `file:/x` and `file:///x` are one file.

    Iceberg's paths are not percent-encoded, so everything after the scheme stays as it is.
    """
    return absolute_location(path)


def located(storage: Storage, path: str) -> tuple[Storage, str]:
    """The storage that holds an absolute path, and the path below its root: `storage` itself where the path lies under it."""
    plain = plain_path(path)
    if plain.startswith(f"{storage.location}/"):
        return storage, plain[len(storage.location) + 1 :]
    folder, _, name = plain.rpartition("/")
    return storage.at(folder), name
