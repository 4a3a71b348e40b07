"""Stage a copy of a table's metadata in which every path has another prefix, so that the table can be copied to another location.

The steps follow Iceberg's RewriteTablePath. Metadata files, manifest lists, manifests and position deletes contain absolute paths, so these
are written again. Data files and equality deletes are only listed for the copy. The table itself does not change.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog, PlanError, UnsupportedTableFeature
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import newest
from rowmerge.iceberg.deletes.path_replacement import with_new_paths
from rowmerge.iceberg.deletes.position_deletes import FILE_PATH
from rowmerge.iceberg.manifests.content import Content, Status
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.store import absolute_location
from rowmerge.table.maintenance import PathRewrite, RewrittenPaths

_FILE_LIST = "file-list"
_NOT_APPLICABLE = "N/A"
_GZIP = b"\x1f\x8b"
_PATH_LISTS = (
    ("snapshots", "manifest-list"),
    ("metadata-log", "metadata-file"),
    ("statistics", "statistics-path"),
    ("partition-statistics", "statistics-path"),
)
"""The lists of table metadata whose entries contain a path, and its name."""


@dataclass
class PathRewriting:
    """One run of rewrite_table_path on a table."""

    operations: TableOperations
    table: str
    options: PathRewrite
    _plan: dict[str, str] = field(default_factory=dict, init=False)
    """The copies to make: the target of each source path."""

    def run(self) -> RewrittenPaths:
        """Write the metadata files with the new prefix, and the list of all files to copy.

        Raises:
            PlanError: A version is not in the metadata log, a path does not begin with the prefix, or both prefixes are equal.
            UnsupportedTableFeature: A position-delete file is not in the format Parquet or Puffin.
            CorruptLog: A file is damaged or missing.
            StorageError: A file cannot be read or written.
        """
        if self._source == plain_path(self.options.target_prefix):
            raise PlanError(f"The source prefix and the target prefix are both {self._source}. Specify another target prefix.")
        versions = self._versions()
        contents = [self._read_metadata(path) for path in versions]
        newest_content = contents[-1]
        start_ids = self._start_ids()
        delta_ids = {snapshot["snapshot-id"] for content in contents for snapshot in content.get("snapshots", ())} - start_ids
        snapshots = [snapshot for snapshot in newest_content.get("snapshots", ()) if snapshot["snapshot-id"] not in start_ids]
        lists = {snapshot["manifest-list"]: self._read_list(snapshot) for snapshot in snapshots}
        manifests = {record["manifest_path"]: record for _, records in lists.values() for record in records}
        changed = [record for record in manifests.values() if not start_ids or record["added_snapshot_id"] in delta_ids]
        delete_file_count, lengths = self._rewrite_manifests(changed, delta_ids)
        for path, (avro_file, records) in lists.items():
            self._put_list(path, avro_file, records, lengths)
        for path, content in zip(versions, contents, strict=True):
            self._put_metadata(path, content)
        file_list = self._put_file_list() if self.options.creates_file_list else _NOT_APPLICABLE
        return RewrittenPaths(versions[-1].rpartition("/")[2], file_list, len(changed), delete_file_count)

    @cached_property
    def _source(self) -> str:
        return plain_path(self.options.source_prefix)

    @cached_property
    def _staging(self) -> str:
        """The staging location. Its name begins with `_`, so that no reader takes the copies for files of this table."""
        location = self.options.staging_location
        return f"{self.operations.storage.location}/_copy-table-staging-{uuid.uuid4()}" if location is None else absolute_location(location)

    def _relative(self, path: str) -> str:
        """Return a path relative to the source prefix. Raise PlanError if it does not begin with the prefix."""
        absolute_path = plain_path(path)
        if absolute_path == self._source:
            return ""
        if not absolute_path.startswith(f"{self._source}/"):
            problem = f"The path {path} in the metadata of {self.table} does not begin with the source prefix {self.options.source_prefix}."
            raise PlanError(f"{problem} Specify a prefix of all paths, such as the table's location.")
        return absolute_path.removeprefix(f"{self._source}/")

    def _target_path(self, path: str) -> str:
        relative_path = self._relative(path)
        prefix = self.options.target_prefix.rstrip("/")
        return f"{prefix}/{relative_path}" if relative_path else prefix

    def _put_copy(self, path: str, data: bytes) -> None:
        """Write a changed file to the staging location, and plan its copy."""
        staging_path = f"{self._staging}/{self._relative(path)}"
        storage, relative_path = located(self.operations.storage, staging_path)
        storage.put(relative_path, data)
        self._plan[staging_path] = self._target_path(path)

    def _read(self, path: str, kind: str) -> bytes:
        storage, relative_path = located(self.operations.storage, path)
        try:
            return storage.get(relative_path)
        except FileNotFoundError as error:
            raise CorruptLog(plain_path(path), f"the {kind} is missing") from error

    # ------------------------------------------------------------------ metadata files

    @cached_property
    def _log(self) -> list[str]:
        """The metadata files of the table, oldest first."""
        current = newest(self.operations, self.table)
        return [*(entry.metadata_file for entry in current.metadata.metadata_log), current.path]

    def _index_of(self, version: str) -> int:
        """Return the position of a version in the log, by the name or the path of its file. Raise PlanError if it is not there."""
        for index, path in enumerate(self._log):
            if version in (path, path.rpartition("/")[2]):
                return index
        names = ", ".join(path.rpartition("/")[2] for path in self._log[-5:])
        raise PlanError(f"{version} is not in the metadata log of {self.table}. The newest versions are: {names}.")

    def _versions(self) -> list[str]:
        """Return the metadata files after the start version up to the end version."""
        end = len(self._log) - 1 if self.options.end_version is None else self._index_of(self.options.end_version)
        start = -1 if self.options.start_version is None else self._index_of(self.options.start_version)
        if start >= end:
            raise PlanError(f"The start version {self.options.start_version} of {self.table} is not before its end version. Exchange them.")
        return self._log[start + 1 : end + 1]

    def _read_metadata(self, path: str) -> dict[str, Any]:
        data = self._read(path, "metadata file (specify a later start_version if it was deleted)")
        try:
            content: dict[str, Any] = json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
        except (ValueError, OSError) as error:
            raise CorruptLog(plain_path(path), f"it is not valid table metadata ({error})") from error
        return content

    def _start_ids(self) -> set[int]:
        """Return the ids of the snapshots in the start version, whose files are in the target already."""
        if self.options.start_version is None:
            return set()
        content = self._read_metadata(self._log[self._index_of(self.options.start_version)])
        return {snapshot["snapshot-id"] for snapshot in content.get("snapshots", ())}

    def _put_metadata(self, path: str, content: Mapping[str, Any]) -> None:
        """Write a metadata file with the new prefix, and plan the copy of the statistics files in it."""
        rewritten = {**content, "location": self._target_path(content["location"])}
        for name, key in _PATH_LISTS:
            if name in content:
                rewritten[name] = [{**entry, key: self._target_path(entry[key])} for entry in content[name]]
        for name in ("statistics", "partition-statistics"):
            self._plan |= {entry["statistics-path"]: self._target_path(entry["statistics-path"]) for entry in content.get(name, ())}
        properties = content.get("properties", {})
        rewritten["properties"] = {name: self._property_with_target(text) for name, text in properties.items()}
        data = json.dumps(rewritten).encode()
        self._put_copy(path, gzip.compress(data) if path.endswith((".gz", ".gz.metadata.json")) else data)

    def _property_with_target(self, text: str) -> str:
        """Return the value of a property with the new prefix if it is a location below the source prefix."""
        is_location = text.startswith((self.options.source_prefix.rstrip("/") + "/", f"{self._source}/"))
        return self._target_path(text) if is_location else text

    # ------------------------------------------------------------------ manifest lists and manifests

    def _read_list(self, snapshot: Mapping[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
        if "manifest-list" not in snapshot:
            feature = "snapshots without a manifest list"
            raise UnsupportedTableFeature(
                self.table, feature, action="copy", advice="Rewrite its manifests with CALL system.rewrite_manifests."
            )
        path = snapshot["manifest-list"]
        avro_file = read_avro(self._read(path, "manifest list"), plain_path(path), {})
        return avro_file, list(avro_file.records)

    def _put_list(self, path: str, avro_file: Any, records: Sequence[dict[str, Any]], lengths: Mapping[str, int]) -> None:
        """Write a manifest list with the new paths and lengths of manifests."""
        rewritten = [
            {
                **record,
                "manifest_path": self._target_path(record["manifest_path"]),
                "manifest_length": lengths.get(record["manifest_path"], record["manifest_length"]),
            }
            for record in records
        ]
        self._put_copy(path, write_avro(avro_file.schema, rewritten, _own_metadata(avro_file.metadata)))

    def _rewrite_manifests(self, manifests: Sequence[Mapping[str, Any]], delta_ids: set[int]) -> tuple[int, dict[str, int]]:
        """Write manifests and their position deletes with the new prefix.

        Return the number of rewritten delete files, and the length of each manifest by its old path.
        """
        results = map_concurrently(partial(self._rewrite_manifest, delta_ids), manifests)
        lengths = {manifest["manifest_path"]: length for manifest, (length, _) in zip(manifests, results, strict=True)}
        return len({key for _, keys in results for key in keys}), lengths

    def _rewrite_manifest(self, delta_ids: set[int], manifest: Mapping[str, Any]) -> tuple[int, set[tuple[Any, ...]]]:
        """Write a manifest with the new prefix. Return its length, and the keys of the position deletes that were written again."""
        path = manifest["manifest_path"]
        avro_file = read_avro(self._read(path, "manifest"), plain_path(path), {})
        records, keys = [], set()
        for record in avro_file.records:
            file = _with_mappings(record["data_file"])
            is_live = record["status"] != Status.DELETED
            is_position_delete = file.get("content", Content.DATA) == Content.POSITION_DELETES
            size = self._rewrite_delete_file(file) if is_position_delete and is_live else file["file_size_in_bytes"]
            snapshot_id = record["snapshot_id"] if record["snapshot_id"] is not None else manifest["added_snapshot_id"]
            if is_position_delete and is_live:
                keys.add((file["file_path"], file.get("content_offset")))
            elif is_live and snapshot_id in delta_ids:
                self._plan[file["file_path"]] = self._target_path(file["file_path"])
            records.append({**record, "data_file": self._file_with_target(file, size, is_position_delete=is_position_delete)})
        data = write_avro(avro_file.schema, records, _own_metadata(avro_file.metadata))
        self._put_copy(path, data)
        return len(data), keys

    def _file_with_target(self, file: Mapping[str, Any], size: int, *, is_position_delete: bool) -> dict[str, Any]:
        """Return the manifest's record of a file with the new prefix. The bounds of position deletes are paths if they are of one file."""
        rewritten = {**file, "file_path": self._target_path(file["file_path"]), "file_size_in_bytes": size}
        if file.get("referenced_data_file"):
            rewritten["referenced_data_file"] = self._target_path(file["referenced_data_file"])
        if is_position_delete:
            lower, upper = (_path_bound(file.get(name)) for name in ("lower_bounds", "upper_bounds"))
            new_bound = self._target_path(lower.decode()).encode() if lower is not None and lower == upper else None
            for name in ("lower_bounds", "upper_bounds"):
                rewritten[name] = _with_path_bound(file.get(name), new_bound)
        return rewritten

    def _rewrite_delete_file(self, file: Mapping[str, Any]) -> int:
        """Write a position-delete file with the new prefix, and return its size. A Puffin file with several vectors is written once."""
        path = file["file_path"]
        staging_path = f"{self._staging}/{self._relative(path)}"
        storage, relative_path = located(self.operations.storage, staging_path)
        if staging_path not in self._plan:
            data = with_new_paths(self._read(path, "delete file"), path, file["file_format"], self._target_path)
            self._put_copy(path, data)
            return len(data)
        return len(storage.get(relative_path))

    def _put_file_list(self) -> str:
        """Write the list of the copies to make as lines `source,target`, and return its path."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self._plan.items())
        path = f"{self._staging}/{_FILE_LIST}"
        storage, relative_path = located(self.operations.storage, path)
        storage.put(relative_path, text.getvalue().encode())
        return path


def _own_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the key-value metadata of an Avro file without those that describe its encoding."""
    return {key: value for key, value in metadata.items() if not key.startswith("avro.")}


def _with_mappings(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest's record of a file with its maps by field id as dictionaries, as they are written."""
    return {name: {pair["key"]: pair["value"] for pair in value} if _is_map(value) else value for name, value in file.items()}


def _is_map(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and value[0].keys() == {"key", "value"}


def _path_bound(bounds: Mapping[int, bytes] | None) -> bytes | None:
    """Return the bound of the column `file_path` of position deletes."""
    return None if bounds is None or FILE_PATH not in bounds else bytes(bounds[FILE_PATH])


def _with_path_bound(bounds: Mapping[int, bytes] | None, bound: bytes | None) -> dict[int, bytes] | None:
    """Return bounds with another bound of the column `file_path`, or without it."""
    if bounds is None:
        return None
    others = {key: value for key, value in bounds.items() if key != FILE_PATH}
    return others if bound is None else {**others, FILE_PATH: bound}
