"""The metadata tables of manifests: `manifests` and `all_manifests`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import StringType

from rowmerge.iceberg.manifests.content import Manifest, ManifestContent, PartitionSummary
from rowmerge.iceberg.metadata.partition_values import source_type
from rowmerge.table.metadata.schema import Array, DataType
from rowmerge.table.snapshots.metadata_tables import BINARY, BOOLEAN, INT, LONG, STRING, MetadataRows, as_struct

_STATUSES = ("added", "existing", "deleted")
_COUNTS = tuple(f"{status}_{kind}_files_count" for kind, status in product(("data", "delete"), _STATUSES))
_SUMMARY = as_struct({"contains_null": BOOLEAN, "contains_nan": BOOLEAN, "lower_bound": STRING, "upper_bound": STRING})
_MANIFESTS: dict[str, DataType] = {
    "content": INT,
    "path": STRING,
    "length": LONG,
    "partition_spec_id": INT,
    "added_snapshot_id": LONG,
    **dict.fromkeys(_COUNTS, INT),
    "partition_summaries": Array(_SUMMARY),
}
_ALL_MANIFESTS: dict[str, DataType] = {**_MANIFESTS, "reference_snapshot_id": LONG, "key_metadata": BINARY}


def manifest_rows(manifests: Sequence[Manifest], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `manifests`: one for each manifest of a snapshot.

    Args:
        manifests: The manifests of the snapshot.
        metadata: The metadata of the table.
    """
    return MetadataRows.of(_MANIFESTS, _values(manifests, metadata))


def all_manifest_rows(manifests: Sequence[tuple[int, Manifest]], metadata: TableMetadata) -> MetadataRows:
    """Return the rows of `all_manifests`: one for each manifest of each snapshot.

    Args:
        manifests: The ids of snapshots, each with one of its manifests.
        metadata: The metadata of the table.
    """
    values = _values([manifest for _, manifest in manifests], metadata)
    values |= {
        "reference_snapshot_id": [snapshot_id for snapshot_id, _ in manifests],
        "key_metadata": [manifest.key_metadata for _, manifest in manifests],
    }
    return MetadataRows.of(_ALL_MANIFESTS, values)


def _values(manifests: Sequence[Manifest], metadata: TableMetadata) -> dict[str, Sequence[Any]]:
    """Return the values of the columns that `manifests` and `all_manifests` have in common."""
    counts: dict[str, list[int | None]] = {name: [] for name in _COUNTS}
    for manifest in manifests:
        own_kind = "data" if manifest.content is ManifestContent.DATA else "delete"
        for kind, status in product(("data", "delete"), _STATUSES):
            count = getattr(manifest, f"{status}_files") if kind == own_kind else 0
            counts[f"{status}_{kind}_files_count"].append(count)
    return {
        "content": [manifest.content for manifest in manifests],
        "path": [manifest.path for manifest in manifests],
        "length": [manifest.length for manifest in manifests],
        "partition_spec_id": [manifest.spec_id for manifest in manifests],
        "added_snapshot_id": [manifest.added_snapshot_id for manifest in manifests],
        **counts,
        "partition_summaries": [_summaries(manifest, metadata) for manifest in manifests],
    }


def _summaries(manifest: Manifest, metadata: TableMetadata) -> list[dict[str, Any]]:
    """Return the summaries of a manifest's partition fields, with bounds as texts, such as `2024-01` for a month."""
    spec = metadata.specs().get(manifest.spec_id)
    fields = () if spec is None else spec.fields
    summaries = []
    for field, summary in zip(fields, manifest.partitions, strict=False):
        type_ = field.transform.result_type(source_type(metadata, field) or StringType())

        def text(bound: bytes | None, type_: Any = type_, transform: Any = field.transform) -> str | None:
            return None if bound is None else transform.to_human_string(type_, from_bytes(type_, bound))

        summaries.append(_summary(summary, text(summary.lower), text(summary.upper)))
    return summaries


def _summary(summary: PartitionSummary, lower: str | None, upper: str | None) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": lower,
        "upper_bound": upper,
    }
