"""Manifests of Iceberg on Spark are read as pyiceberg reads them and are unchanged after a rewrite."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list as pyiceberg_list
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_deletes
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import (
    ManifestHeader,
    read_manifest,
    read_manifest_list,
    schema_of_spec,
    write_manifest,
    write_manifest_list,
)
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage
from tests.golden.iceberg.tables import NAMES
from tests.support.iceberg_tables import opened


def manifests_of(storage: Storage, metadata: TableMetadata) -> list[Manifest]:
    return list({manifest.path: manifest for s in metadata.snapshots for manifest in read_manifest_list(storage, s.manifest_list)}.values())


@pytest.mark.parametrize("name", NAMES)
def test_manifest_entries_match_pyiceberg(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    io = PyArrowFileIO()
    for snapshot in metadata.snapshots:
        pyiceberg_manifests = list(pyiceberg_list(io.new_input(snapshot.manifest_list)))
        manifests = read_manifest_list(storage, snapshot.manifest_list)
        for manifest, other in zip(manifests, pyiceberg_manifests, strict=True):
            assert (manifest.path, manifest.length, manifest.spec_id) == (
                other.manifest_path,
                other.manifest_length,
                other.partition_spec_id,
            )
            assert (manifest.content, manifest.sequence_number, manifest.min_sequence_number) == (
                other.content,
                other.sequence_number,
                other.min_sequence_number,
            )
            assert (manifest.added_files, manifest.existing_files, manifest.deleted_files) == (
                other.added_files_count,
                other.existing_files_count,
                other.deleted_files_count,
            )
            entries = other.fetch_manifest_entry(io, discard_deleted=False)
            assert [entry_values(entry) for entry in read_manifest(storage, manifest)] == [
                pyiceberg_entry_values(entry) for entry in entries
            ]


def entry_values(entry: Entry) -> tuple[Any, ...]:
    file = entry.file
    return (
        (int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number),
        (int(file.content), file.path, file.format, file.records, file.size, file.spec_id, file.sort_order_id),
        tuple(map(plain_value, file.partition)),
        (dict(file.column_sizes), dict(file.value_counts), dict(file.null_counts), dict(file.nan_counts)),
        (dict(file.lower), dict(file.upper), file.split_offsets, file.equality_ids),
    )


def pyiceberg_entry_values(entry: Any) -> tuple[Any, ...]:
    file = entry.data_file
    return (
        (int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number),
        (
            int(file.content),
            file.file_path,
            str(file.file_format.value),
            file.record_count,
            file.file_size_in_bytes,
            file.spec_id,
            file.sort_order_id,
        ),
        tuple(plain_value(file.partition[at]) for at in range(len(file.partition))),
        (file.column_sizes or {}, file.value_counts or {}, file.null_value_counts or {}, file.nan_value_counts or {}),
        (file.lower_bounds or {}, file.upper_bounds or {}, tuple(file.split_offsets or ()), tuple(file.equality_ids or ())),
    )


def plain_value(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    return value.bytes if isinstance(value, uuid.UUID) else value


@pytest.mark.parametrize("name", NAMES)
def test_a_rewritten_manifest_equals_the_original(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    version = max(metadata.format_version, 2)
    for manifest in manifests_of(storage, metadata):
        entries = read_manifest(storage, manifest)
        spec = next(spec for spec in metadata.partition_specs if spec.spec_id == manifest.spec_id)
        path = f"{storage.location}/metadata/{uuid.uuid4()}.avro"
        header = ManifestHeader(manifest.content, spec, schema_of_spec(metadata, spec.spec_id), version)
        rewritten = write_manifest(storage, path, entries, header, manifest.added_snapshot_id)
        new_fields = {"path": path, "length": rewritten.length, "sequence_number": 9, "min_sequence_number": rewritten.min_sequence_number}
        rewritten = replace(rewritten, sequence_number=9)
        assert rewritten == replace(manifest, **new_fields, first_row_id=None)
        assert rewritten.min_sequence_number == min((entry.sequence_number for entry in entries if entry.live), default=UNASSIGNED)
        assert [entry_values(entry) for entry in read_manifest(storage, rewritten)] == [entry_values(entry) for entry in entries]
        listed = f"{storage.location}/metadata/snap-{uuid.uuid4()}.avro"
        write_manifest_list(storage, listed, [rewritten], snapshot_id=1, parent_id=None, sequence_number=9, format_version=version)
        (read,) = read_manifest_list(storage, listed)
        assert read == replace(rewritten, min_sequence_number=read.min_sequence_number)


@pytest.mark.parametrize("name", NAMES)
def test_deleted_positions_match_manifest_counts_and_data_files(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    current = metadata.current_snapshot()
    manifests = read_manifest_list(storage, current.manifest_list) if current else ()
    files = [entry.file for manifest in manifests for entry in read_manifest(storage, manifest) if entry.live]
    rows = {plain_path(file.path): file.records for file in files if file.content is Content.DATA}
    deletes = [file for file in files if file.content is Content.POSITION_DELETES]
    for file in deletes:
        read = read_deletion_vectors if file.format == "PUFFIN" else read_position_deletes
        deleted = read(storage, [file])
        assert sum(len(positions) for positions in deleted.values()) == file.records
        assert all(positions.max() < rows.get(path, 2**62) for path, positions in deleted.items())
    expected = json.loads(json.dumps(current.summary.additional_properties)) if current and current.summary else {}
    assert sum(file.records for file in deletes) == int(expected.get("total-position-deletes", 0))
