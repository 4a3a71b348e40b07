"""File metrics match those that Iceberg on Spark wrote for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import UUIDType

from rowmerge.iceberg.manifests.bounds import decode_bounds
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list
from rowmerge.iceberg.manifests.metrics import file_metrics, metrics_modes
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.table.snapshots.files import AddedFile
from tests.support.iceberg_tables import opened

TABLES = ["all_types", "bucket_types", "identity_types", "sorted", "transforms", "v1", "v3"]


def columns_of(file: ContentFile, schema: Schema) -> dict[str, pa.ChunkedArray]:
    """Return the top-level primitive columns of a data file by the table's names; UUIDs are strings."""
    names = {field.field_id: field for field in schema.fields if field.field_type.is_primitive}
    rows = pq.read_table(plain_path(file.path)[len("file://") :], partitioning=None)
    columns = {}
    for column in rows.schema:
        field = names.get(int((column.metadata or {}).get(b"PARQUET:field_id", -1)))
        if field is not None:
            values = rows[column.name]
            if isinstance(field.field_type, UUIDType):
                values = pa.chunked_array(
                    [pa.array([str(UUID(bytes=v)) if v else None for v in values.cast(pa.binary(16)).to_pylist()], pa.string())]
                )
            columns[field.name] = values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
    return columns


def added_of(file: ContentFile, columns: dict[str, pa.ChunkedArray]) -> AddedFile:
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for name, values in columns.items():
        if not (pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()):
            non_null = sorted(value for value in values.to_pylist() if value is not None)
            lower |= {name: non_null[0]} if non_null else {}
            upper |= {name: non_null[-1]} if non_null else {}
    return AddedFile(
        file.path, file.size, file.records, lower=lower, upper=upper, nulls={name: v.null_count for name, v in columns.items()}
    )


@pytest.mark.parametrize("name", TABLES)
def test_file_metrics_match_java(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    schema = metadata.schema()
    modes = metrics_modes(schema, metadata.properties)
    manifests = read_manifest_list(storage, metadata.current_snapshot().manifest_list)
    files = [entry.file for manifest in manifests for entry in read_manifest(storage, manifest) if entry.live]
    compared = 0
    for file in (file for file in files if file.content is Content.DATA):
        columns = columns_of(file, schema)
        metrics = file_metrics(added_of(file, columns), schema, modes)
        ids = {schema.find_field(column).field_id for column in columns}
        for own_values, java_values in ((metrics["value_counts"], file.value_counts), (metrics["null_counts"], file.null_counts)):
            assert {id_: own_values.get(id_) for id_ in ids} == {id_: java_values.get(id_) for id_ in ids}
        certain = ids - {id_ for id_, count in file.nan_counts.items() if count}
        for own_values, java_values in ((metrics["lower"], file.lower), (metrics["upper"], file.upper)):
            assert {id_: own_values.get(id_) for id_ in certain} == {id_: java_values.get(id_) for id_ in certain}
            compared += sum(id_ in own_values for id_ in certain)
        assert all(count == 0 for id_, count in metrics["nan_counts"].items() if file.nan_counts.get(id_) == 0)
    assert compared > 0


@pytest.mark.parametrize("name", [*TABLES, "schema_evolution", "partition_evolution"])
def test_java_bounds_enclose_the_rows(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    schema = metadata.schema()
    manifests = read_manifest_list(storage, metadata.current_snapshot().manifest_list)
    files = [entry.file for manifest in manifests for entry in read_manifest(storage, manifest) if entry.live]
    for file in (file for file in files if file.content is Content.DATA):
        for column, values in columns_of(file, schema).items():
            field = schema.find_field(column)
            (lower,) = decode_bounds(pa.array([file.lower.get(field.field_id)], pa.binary()), field.field_type).to_pylist()
            (upper,) = decode_bounds(pa.array([file.upper.get(field.field_id)], pa.binary()), field.field_type).to_pylist()
            non_null = [value for value in values.to_pylist() if value is not None and value == value]
            assert all((lower is None or lower <= value) and (upper is None or value <= upper) for value in non_null), column
