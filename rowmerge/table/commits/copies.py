"""The copies that a deep clone makes of the files of its source.

The name of a copy is derived from the path of the original. Files never change, so a clone that is repeated copies only the files whose
copies the replaced table does not have. Two clones that run at the same time write equal copies. So a clone that loses the race deletes
none of them, and VACUUM deletes those that no version needs.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rowmerge.storage.copying import copy_objects
from rowmerge.storage.store import Storage


@dataclass(frozen=True)
class FileCopies:
    """The copies of the files of a version.

    `paths`: the path of each copy by the path of the original. `sizes`: the sizes of the copies that are new.
    """

    paths: Mapping[str, str]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class SourceFiles:
    """The files of a version that a deep clone copies.

    `table`: the name of the source. `storage`: its storage. `data`: the sizes of the data files by path. `deletes`: the paths of files
    with deleted rows.
    """

    table: str
    storage: Storage
    data: Mapping[str, int]
    deletes: Collection[str] = ()

    def copy_to(self, target: Storage, live_paths: Collection[str], folder: str) -> FileCopies:
        """Copy the files whose copies are not live in the target.

        Args:
            target: The storage of the clone.
            live_paths: The absolute paths of the live files of the table that the clone replaces, or no paths.
            folder: The folder below the target for files that are outside the source's folder, or an empty string.

        Raises:
            MissingDataFile: A file of the source does not exist.
            StorageError: A file cannot be copied.
        """
        paths = {path: f"{target.location}/{self._data_name(path, folder)}" for path in self.data}
        paths |= {path: f"{target.location}/{posixpath.join(folder, _unique_name(path))}" for path in self.deletes}
        new = [(path, copied) for path, copied in paths.items() if copied not in live_paths]
        copy_objects(self.table, self.storage, target, new)
        return FileCopies(paths, tuple(self.data[path] for path, _ in new if path in self.data))

    def _data_name(self, path: str, folder: str) -> str:
        """Return the relative path of a copy: in the same folder as the original if that is below the source's folder."""
        prefix = f"{self.storage.location}/"
        own_folder = posixpath.dirname(path[len(prefix) :]) if path.startswith(prefix) else folder
        return posixpath.join(own_folder, _unique_name(path))


def _unique_name(path: str) -> str:
    """Return the name of a copy. Files of deletion vectors have names in Delta's form, so that their descriptors can be relative."""
    extension = posixpath.splitext(path)[1]
    kind = "deletion_vector" if extension == ".bin" else "clone"
    return f"{kind}_{uuid.uuid5(uuid.NAMESPACE_URL, path)}{extension}"
