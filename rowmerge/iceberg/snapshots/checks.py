"""Checks of a snapshot before its files are read or written."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.manifests.manifest_files import state_of
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.snapshots.live_files import LiveFiles

_WRITES_UUIDS = 21
"""The first release of pyarrow that writes Parquet's logical type UUID (apache/arrow, pull request 45866)."""


def check_partitions(metadata: TableMetadata, snapshot: IcebergVersion | None, live: LiveFiles) -> None:
    """Raise CorruptLog for a manifest of a partition spec that the table does not have, or that has other fields."""
    field_counts = {spec.spec_id: len(spec.fields) for spec in metadata.partition_specs}
    for manifest in live.manifests:
        if manifest.spec_id not in field_counts:
            assert snapshot is not None
            reason = f"the manifest {manifest.path} has the partition spec {manifest.spec_id}, which the table does not have"
            raise CorruptLog(plain_path(snapshot.manifest_list), reason)
        field_count = field_counts[manifest.spec_id]
        entries = live.read[state_of(manifest)].entries
        if entries and len(entries[0].file.partition) != field_count:
            reason = f"its files have {len(entries[0].file.partition)} partition values, and its partition spec has {field_count} fields"
            raise CorruptLog(plain_path(manifest.path), reason)


def check_formats(table: str, live: LiveFiles) -> None:
    """Raise UnsupportedTableFeature for data files of another format than Parquet."""
    other_formats = sorted({entry.file.format.upper() for entry in live.data} - {"PARQUET"})
    if other_formats:
        advice = "Rewrite its data files as Parquet in the engine that wrote them."
        raise UnsupportedTableFeature(table, f"data files of the format {other_formats[0]}", action="read", advice=advice)


def check_uuids(table: str, schema: Schema) -> None:
    """Raise UnsupportedTableFeature for a UUID column if this pyarrow omits the logical type: readers would see a `fixed[16]`."""
    if int(pa.__version__.split(".", 1)[0]) >= _WRITES_UUIDS:
        return
    for name in schema.column_names:
        if isinstance(schema.find_type(name), t.UUIDType):
            advice = f"Install pyarrow {_WRITES_UUIDS} or newer, here and on Spark's executors."
            raise UnsupportedTableFeature(
                table, f"type uuid of the column {name} (pyarrow {pa.__version__})", action="write", advice=advice
            )
