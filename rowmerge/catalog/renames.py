"""Rename tables and views of a warehouse folder without moving a file, because an object store cannot rename a folder at once.

A relation stays in its *home*, the folder in which it was created. Two kinds of files, in the subfolder `_names`, connect names and homes:

- A *record* in the home, `_names/<number>.json`, states the current name of the relation there. The newest record counts. Without a
  record, or with a record without an id, the home belongs to the name of its folder.
- A *claim* in the folder of the new name, `_names/claim.json`, states the home. It counts if it has the id of the home's newest record.

RENAME puts the claim first and then the record, each only if it is absent. Before the record, the old name refers to the relation. After
it, the new name does. So a killed rename leaves one of the two, and no reader finds both or none. A claim without its record has no effect.
A statement that needs the name first puts the record which the claim announces, but with the old id. The interrupted rename then cannot
continue.

A new relation with the old name gets a home of its own, `<name>~~<id>`, while the renamed one is in the folder of the name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from rowmerge.catalog import errors
from rowmerge.catalog.layout import (
    FOREIGN_TABLE,
    METADATA_SUFFIXES,
    POINTER,
    ExternalTable,
    FolderContent,
    Leftovers,
    RenamedFolder,
    TableFolder,
    ViewFolder,
    inspect_folder,
    inspect_name,
    put_pointer,
)
from rowmerge.catalog.names import quoted_name
from rowmerge.errors import AlreadyExists, CorruptLog, MetadataChanged
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage, get_if_exists
from rowmerge.table.commits.commit import put_once
from rowmerge.table.commits.drop_markers import NAMES
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.relations import Relation

OTHER_HOME = "~~"
"""The beginning of the suffix of a home that is not the folder of a name."""

_CLAIM = f"{NAMES}/claim.json"
_RECORD_PATH = re.compile(rf"{NAMES}/(\d{{20}})\.json")
_ATTEMPTS = 10
"""The maximum number of attempts to claim a name. An attempt fails only if another process claims the name at the same time."""


@dataclass(frozen=True)
class Record:
    """The newest statement in a home about the name of its relation. Number 0 without an id stands for a home without records."""

    number: int = 0
    id: str | None = None
    claimed: str | None = None
    """The path of the folder with the claim."""


@dataclass(frozen=True)
class Claim:
    """The home of the relation that has a name. `id` and `number`: the id and the number of the record that makes the claim count."""

    home: str
    number: int = 0
    id: str | None = None
    external: ExternalTable | None = None
    """The external table, or None if the relation is in its home."""


@dataclass(frozen=True)
class Place:
    """The folder of an existing relation, and what it contains. `claim`: the claim that led to the folder, or None without one."""

    home: str
    content: FolderContent
    record: Record = Record()
    claim: Claim | None = None

    def relation(self, schema: str, name: str) -> Relation:
        """Return the relation with its name.

        Args:
            schema: The name of the schema.
            name: The name of the relation.
        """
        if isinstance(self.content, TableFolder | ExternalTable):
            return Relation.of_table(schema, name, self.content.format)
        return Relation.of_view(schema, name)


class Names:
    """The relations of a warehouse folder by the path of their name, which is `<schema>/<name>` in the form of folders."""

    def __init__(self, warehouse: Storage) -> None:
        """Initialize the names of the warehouse at the location of `warehouse`."""
        self._warehouse = warehouse

    def find(self, path: str, known_iceberg_files: Cache[bool]) -> Place | None:
        """Return the relation that has a name, or None if no relation has it.

        Args:
            path: The path of the name.
            known_iceberg_files: A cache of metadata files that belong to Iceberg tables, as for `inspect_folder`.

        Raises:
            CorruptLog: A pointer, a record, a claim, or the metadata of a view is invalid.
            StorageError: A file cannot be listed or read.
        """
        content = inspect_name(self._warehouse.child(path), known_iceberg_files)
        if not isinstance(content, RenamedFolder):
            return None if content is None or isinstance(content, Leftovers) else Place(path, content)
        claim = self._claim(path)
        if claim is not None and (place := self._claimed(claim, known_iceberg_files)) is not None:
            return place
        record = self._newest_record(path)
        own_content = None if record.id is not None else inspect_folder(self._warehouse.child(path), known_iceberg_files)
        return None if own_content is None else Place(path, own_content, record)

    def home_of_new(self, path: str, *, is_external: bool = False) -> str:
        """Return the path of the folder for a new relation, whose name no relation has.

        It is the folder of the name, unless a renamed relation is still there.

        Args:
            path: The path of the name.
            is_external: Whether the relation is an external table, which needs a folder only for its records.

        Raises:
            StorageError: A file cannot be read or written.
        """
        while (record := self._newest_record(path)).id is not None:
            claim = None if record.claimed is None else self._claim(record.claimed)
            counts = claim is not None and claim.id == record.id and self._claimed(claim, Cache(0)) is not None
            if counts or isinstance(inspect_folder(self._warehouse.child(path)), TableFolder | ViewFolder):
                return _other_home(path)
            # The renamed relation was dropped, so its home belongs to the name again. A killed rename may have left its old pointer.
            self._warehouse.delete([f"{path}/{POINTER}"])
            self._put_record(path, Record(record.number + 1))
        # A late deletion of an old pointer must not delete a new one. So a folder with records gets no pointer again.
        return _other_home(path) if is_external and record.number > 0 else path

    def home_at(self, path: str, location: str) -> str | None:
        """Return the path of the home at a location, or None if the location is not one of the homes for relations of this name.

        Args:
            path: The path of the name.
            location: The absolute location of a folder.
        """
        default_location = self._warehouse.child(path).location
        suffix = location.removeprefix(default_location)
        is_home = location.startswith(default_location) and (not suffix or suffix.startswith(OTHER_HOME))
        return f"{path}{suffix}" if is_home else None

    def register(self, path: str, external: ExternalTable, label: str) -> None:
        """Give a name, which no relation has, to an external table.

        Args:
            path: The path of the name.
            external: The external table.
            label: The name in messages.

        Raises:
            AlreadyExists: Another relation has taken the name.
            CommitStateUnknown: It is not known whether the table got the name.
        """
        home = self.home_of_new(path, is_external=True)
        if home != path:
            self.confirm(path, home, label, lambda: None, external)
        elif put_pointer(self._warehouse.child(path), external, f"the name {label} of the table at {external.location}"):
            self.confirm(path, home, label, lambda: self._warehouse.delete([f"{path}/{POINTER}"]))
        else:
            raise _name_taken(label)

    def confirm(self, path: str, home: str, label: str, withdraw: Callable[[], None], external: ExternalTable | None = None) -> None:
        """Give a name to a relation that was just created, or check that a concurrent rename has not taken the name.

        Args:
            path: The path of the name.
            home: The path of the relation's home.
            label: The name in messages.
            withdraw: A function that drops the relation again. It is called if another relation has taken the name.
            external: The external table, or None for a relation in its home.

        Raises:
            AlreadyExists: Another relation has taken the name.
            CommitStateUnknown: It is not known whether the claim was written.
        """
        is_taken = not self._try_claim(path, Claim(home, external=external)) if home != path else self._is_taken(path)
        if is_taken:
            withdraw()
            raise _name_taken(label)

    def rename(self, place: Place, path: str, new_path: str, label: str) -> None:
        """Give a relation another name, which no relation has.

        Args:
            place: The relation.
            path: The path of its name.
            new_path: The path of its new name.
            label: The relation's name in messages.

        Raises:
            AlreadyExists: Another relation has taken the new name.
            CommitStateUnknown: It is not known whether the relation was renamed.
            MetadataChanged: A concurrent statement renamed the relation.
        """
        new_record = self._next_record(place, new_path, label)
        external = place.content if isinstance(place.content, ExternalTable) else None
        claim = Claim(place.home, new_record.number, new_record.id, external)
        if not self._try_claim(new_path, claim) or self._has_own_relation(new_path):
            self.delete_claim(new_path, claim)
            raise AlreadyExists(f"A concurrent statement created a table or view with the new name of {label}. Choose another name.")
        if not self._put_record(place.home, new_record):
            self.delete_claim(new_path, claim)
            raise _name_changed(label, new_record)
        self.release(path, place)

    def set_location(self, place: Place, path: str, external: ExternalTable, label: str) -> None:
        """Let the name of a table refer to an external table instead. The files of the table stay where they are.

        Args:
            place: The table that has the name.
            path: The path of the name.
            external: The external table.
            label: The name in messages.

        Raises:
            CommitStateUnknown: It is not known whether the name refers to the external table.
            MetadataChanged: A concurrent statement renamed the table, or set its location.
        """
        old_claim, record = place.claim, self._next_record(place, path, label)
        if old_claim is not None:
            # One put replaces the claim, and the record stays. A rename between the lookup and the put has made the claim void.
            self._warehouse.put(f"{path}/{_CLAIM}", _claim_content(replace(old_claim, external=external)))
        elif not self._try_claim(path, Claim(place.home, record.number, record.id, external)) or not self._put_record(path, record):
            raise _name_changed(label, record)

    def release(self, path: str, place: Place) -> None:
        """Delete the files that connect a name with a relation that was dropped, or that has another name now.

        Args:
            path: The path of the name.
            place: The relation.
        """
        if place.claim is not None:
            self.delete_claim(path, place.claim)
        elif isinstance(place.content, ExternalTable):
            self._warehouse.delete([f"{path}/{POINTER}"])

    def delete_claim(self, path: str, claim: Claim) -> None:
        """Delete a claim if the folder still has it.

        Args:
            path: The path of the folder with the claim.
            claim: The claim to delete.
        """
        if self._claim(path) == claim:
            self._warehouse.delete([f"{path}/{_CLAIM}"])

    def _claimed(self, claim: Claim, known_iceberg_files: Cache[bool]) -> Place | None:
        """Return the relation to which a claim refers, or None if the claim does not count or the relation was dropped."""
        record = self._newest_record(claim.home)
        if record.id != claim.id:
            return None
        content = claim.external or inspect_folder(self._warehouse.child(claim.home), known_iceberg_files)
        is_relation = content is claim.external or isinstance(content, TableFolder | ViewFolder)
        return Place(claim.home, content, record, claim) if content is not None and is_relation else None

    def _is_taken(self, path: str) -> bool:
        """Return whether a claim on a name counts. If not, prevent that an interrupted rename makes it count later."""
        claim = self._claim(path)
        if claim is None:
            return False
        record = self._newest_record(claim.home)
        if record.number < claim.number:
            self._put_record(claim.home, Record(claim.number, record.id, record.claimed))
        return self._claimed(claim, Cache(0)) is not None

    def _try_claim(self, path: str, claim: Claim) -> bool:
        """Put a claim on a name. Return False if another claim on it counts. Replace claims that do not count."""
        folder = self._warehouse.child(path)
        for _ in range(_ATTEMPTS):
            if put_once(folder, _CLAIM, _claim_content(claim), f"the new name {path}"):
                return True
            other = self._claim(path)
            if other is not None and self._is_taken(path):
                return False
            if other is not None:
                self.delete_claim(path, other)
        return False

    def _has_own_relation(self, path: str) -> bool:
        """Return whether the folder of a name contains a relation with this name, which a concurrent statement created."""
        content = inspect_folder(self._warehouse.child(path))
        return isinstance(content, TableFolder | ViewFolder | ExternalTable) and self._newest_record(path).id is None

    def _newest_record(self, home: str) -> Record:
        paths = [file.path for file in self._warehouse.child(home).list(NAMES)]
        number = max((int(match[1]) for path in paths if (match := _RECORD_PATH.fullmatch(path))), default=0)
        if number == 0:
            return Record()
        content = self._read(f"{home}/{_record_path(number)}") or {}
        return Record(number, content.get("id"), content.get("claimed"))

    def _next_record(self, place: Place, path: str, label: str) -> Record:
        """Return the record after that of a place, for a claim in the folder `path`. Raise MetadataChanged if another record came first."""
        self._is_taken(path)  # A claim of a killed rename there may announce the same number, and is void from now on.
        newest_record = self._newest_record(place.home)
        if newest_record.id != place.record.id:
            raise _name_changed(label, newest_record)
        return Record(newest_record.number + 1, str(uuid4()), path)

    def _put_record(self, home: str, record: Record) -> bool:
        content = {"id": record.id, "claimed": record.claimed, "writer": str(uuid4())}
        data = json.dumps(content, ensure_ascii=False).encode()
        return put_once(self._warehouse.child(home), _record_path(record.number), data, f"the name of the relation in {home}")

    def _claim(self, path: str) -> Claim | None:
        content = self._read(f"{path}/{_CLAIM}")
        if content is None:
            return None
        try:
            external = None if content["external"] is None else ExternalTable(**content["external"])
            return Claim(content["home"], content["number"], content["id"], external)
        except (LookupError, TypeError) as error:
            raise CorruptLog(f"{self._warehouse.location}/{path}/{_CLAIM}", "it is not the claim of a renamed relation") from error

    def _read(self, path: str) -> dict[str, Any] | None:
        data = get_if_exists(self._warehouse, path)
        return None if data is None else dict(parse_object(data, f"{self._warehouse.location}/{path}"))


def _other_home(path: str) -> str:
    """Return the path of a new home beside the folder of a name. It is not the folder of any name, because `~` begins an escape there."""
    return f"{path}{OTHER_HOME}{uuid4().hex}"


def _name_taken(label: str) -> AlreadyExists:
    return AlreadyExists(f"A concurrent statement gave the name {label} to another table or view. Choose another name.")


def _name_changed(label: str, record: Record) -> MetadataChanged:
    return MetadataChanged(label, record.number, "another statement", action="changed its name or its location, or needs the new name")


def _claim_content(claim: Claim) -> bytes:
    """Return the content of the file with a claim. The UUID makes the bytes unique for `put_once`."""
    external = None if claim.external is None else {"location": claim.external.location, "format": claim.external.format}
    content = {"home": claim.home, "number": claim.number, "id": claim.id, "external": external, "writer": str(uuid4())}
    return json.dumps(content, ensure_ascii=False).encode()


def _record_path(number: int) -> str:
    return f"{NAMES}/{number:020d}.json"


def check_metadata(place: Place | None, relation: Relation, action: str) -> None:
    """Check that a relation, if it exists, is not an Iceberg table whose metadata belongs to another catalog.

    Args:
        place: The place of the relation, or None if it does not exist.
        relation: The relation.
        action: The verb of the attempted action, such as `drop`.

    Raises:
        UnsupportedTableFeature: The metadata belongs to another catalog.
    """
    if place is not None and place.content == FOREIGN_TABLE:
        raise errors.foreign_metadata(quoted_name(relation.schema, relation.name), action)


def unused_location(storage: Storage) -> str:
    """Return the location of a new table in an Iceberg catalog, which records names itself.

    It is that of `storage`, or another one if a renamed table may have its metadata there.

    Raises:
        StorageError: The location cannot be listed.
    """
    is_used = any(file.path.endswith(METADATA_SUFFIXES) for file in storage.list("metadata"))
    return f"{storage.location}-{uuid4().hex}" if is_used else storage.location


def is_chosen_location(location: str, default_location: str) -> bool:
    """Return whether `unused_location` can return a location for a storage at `default_location`."""
    return re.fullmatch(rf"{re.escape(default_location)}(-[0-9a-f]{{32}})?", location) is not None
