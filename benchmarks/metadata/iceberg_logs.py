"""Synthetic Iceberg tables of many files, in manifests of the usual size, with metrics of lineitem's columns."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, NestedField, StringType

from benchmarks.metadata.delta_logs import COLUMNS, KEYS_OF_A_FILE, ROWS_OF_A_FILE, file_name
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import ManifestHeader, write_manifest, write_manifest_list
from rowmerge.storage.store import Storage

ENTRIES_OF_A_MANIFEST = 20_000
_TYPES = {"long": LongType(), "integer": IntegerType(), "date": DateType(), "string": StringType()}
_SIZES = {"long": 8, "integer": 4, "date": 4, "string": 16}


def write_table(folder: Path, files: int, *, snapshots: int = 1) -> None:
    """Write a table with this number of files.

    Args:
        folder: The folder of the table.
        files: The number of data files, which do not exist.
        snapshots: The number of snapshots. The newest one has all files. The manifest lists of the others do not exist.
    """
    storage = Storage(str(folder))
    schema = Schema(*(NestedField(n, name, _TYPES.get(type_, DecimalType(12, 2))) for n, (name, type_) in enumerate(COLUMNS.items(), 1)))
    empty = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, storage.location, {"format-version": "2"})
    manifests = []
    for start in range(0, files, ENTRIES_OF_A_MANIFEST):
        numbers = range(start, min(start + ENTRIES_OF_A_MANIFEST, files))
        manifests.append(
            write_manifest(
                storage,
                f"{storage.location}/metadata/{start:012d}-m0.avro",
                [Entry.added(_file(storage.location, number), 77) for number in numbers],
                ManifestHeader(ManifestContent.DATA, empty.spec(), empty.schema()),
                snapshot_id=77,
            )
        )
    manifest_list = f"{storage.location}/metadata/snap-77-1-0.avro"
    write_manifest_list(storage, manifest_list, manifests, snapshot_id=77, parent_id=None, sequence_number=snapshots)
    metadata = json.loads(empty.model_dump_json())
    listed = _snapshots(storage.location, manifest_list, snapshots, metadata["last-updated-ms"])
    metadata |= {
        "last-sequence-number": snapshots,
        "current-snapshot-id": 77,
        "snapshots": listed,
        "snapshot-log": [{key: snapshot[key] for key in ("snapshot-id", "timestamp-ms")} for snapshot in listed],
        "refs": {"main": {"snapshot-id": 77, "type": "branch"}},
    }
    storage.put("metadata/v1.metadata.json", json.dumps(metadata).encode())
    storage.put("metadata/version-hint.text", b"1")


def _snapshots(location: str, manifest_list: str, count: int, now: int) -> list[dict[str, Any]]:
    """Return snapshots of appends, one second after another. The last one has the identifier 77 and the manifest list."""
    ids = [*range(1_001, 1_000 + count), 77]
    return [
        {
            "snapshot-id": id_,
            "sequence-number": number,
            "timestamp-ms": now - 1_000 * (count - number),
            "manifest-list": manifest_list if id_ == 77 else f"{location}/metadata/snap-{id_}-1-0.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
            **({"parent-snapshot-id": ids[number - 2]} if number > 1 else {}),
        }
        for number, id_ in enumerate(ids, 1)
    ]


def _file(location: str, number: int) -> ContentFile:
    lower, upper = (struct.pack("<q", key) for key in (number * KEYS_OF_A_FILE, (number + 1) * KEYS_OF_A_FILE - 1))
    ids = range(1, len(COLUMNS) + 1)
    bounds = {n: b"a" * _SIZES.get(type_, 3) for n, type_ in enumerate(COLUMNS.values(), 1)}
    return ContentFile(
        Content.DATA,
        f"{location}/data/{file_name(number)}",
        ROWS_OF_A_FILE,
        12_000_000,
        column_sizes=dict.fromkeys(ids, 700_000),
        value_counts=dict.fromkeys(ids, ROWS_OF_A_FILE),
        null_counts=dict.fromkeys(ids, 0),
        lower=bounds | {1: lower},
        upper=bounds | {1: upper},
        split_offsets=(4,),
    )
