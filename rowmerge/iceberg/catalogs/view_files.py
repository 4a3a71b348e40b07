"""The metadata files of views (Iceberg View Spec) in catalogs whose clients write these files themselves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage, absolute_location

_MAX_READS = 20
"""The maximum number of reads of a view, each of which fails only if another process replaces or drops the view at the same time."""
_OWN_FOLDER = ".view-"
"""The part of the location of a view that rowmerge has created. No other relation has files there."""


class ViewFiles:
    """The metadata files of the views of a catalog. The file names are those of Iceberg's catalogs for Java."""

    def __init__(self, open_storage: Callable[[str], Storage]) -> None:
        """Initialize the files. `open_storage`: a function that returns the storage of a view's location."""
        self._open_storage = open_storage

    def read_newest(self, current_path: Callable[[], str | None]) -> tuple[str, dict[str, Any]] | None:
        """Return the path and the content of a view's newest metadata file, or None if the view does not exist.

        Args:
            current_path: A function that asks the catalog for the path of the file. It returns None if the view does not exist.

        Raises:
            FileNotFoundError: The file to which the catalog refers does not exist.
        """
        for _ in range(_MAX_READS):
            path = current_path()
            if path is None:
                return None
            try:
                return path, self._read(path)
            except FileNotFoundError as error:  # another process has dropped the view, or replaced it several times
                missing_file = error
        raise missing_file

    def _read(self, path: str) -> dict[str, Any]:
        folder, _, file = path.rpartition("/")
        data = self._open_storage(folder).get(file)
        metadata: dict[str, Any] = json.loads(gzip.decompress(data) if file.endswith(".gz.metadata.json") else data)
        return metadata

    def write(self, metadata: Mapping[str, Any], number: int) -> str:
        """Write a metadata file with a unique name, and return its path.

        Args:
            metadata: The content of the file.
            number: The number at the beginning of the file's name.
        """
        file = f"metadata/{number:05d}-{uuid4()}.metadata.json"
        self._open_storage(metadata["location"]).put(file, json.dumps(metadata, ensure_ascii=False, indent=2).encode())
        return f"{metadata['location']}/{file}"

    def discard(self, path: str) -> None:
        """Delete a metadata file that this process has written, and to which the catalog does not refer."""
        storage = self._open_storage(location_of_file(path))
        try_delete_files(storage, [[absolute_location(path)]], PathOrigin.THIS_PROCESS)

    def delete_files(self, location: str, older_than: int | None = None) -> None:
        """Delete metadata files of a view if rowmerge has created the view.

        Args:
            location: The location of the view.
            older_than: The number of the first file to keep, or None to delete all files.
        """
        if _OWN_FOLDER not in location.rpartition("/")[2]:
            return
        storage = self._open_storage(location)
        paths = [f"{storage.location}/{file.path}" for file in storage.list("metadata")]
        old_paths = [path for path in paths if older_than is None or number_of_file(path) < older_than]
        try_delete_files(storage, [old_paths], PathOrigin.LISTING)
        if older_than is None:
            storage.remove_folders()


def number_of_file(path: str) -> int:
    """Return the number at the beginning of a metadata file's name, or 0 if the name has none."""
    number = path.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0


def location_of_file(path: str) -> str:
    """Return the location of the view to which a metadata file belongs."""
    return path.rpartition("/metadata/")[0]
