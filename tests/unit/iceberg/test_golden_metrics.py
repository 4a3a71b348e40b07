"""The metrics that Iceberg on Spark wrote of its data files, beside those that the same rows have here."""

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

from rowmerge.iceberg.manifests.bounds import bounds_column
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list
from rowmerge.iceberg.manifests.metrics import file_metrics, metrics_modes
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.table.snapshots.files import AddedFile
from tests.support.iceberg_tables import opened

TABLES = ["all_types", "bucket_types", "identity_types", "sorted", "transforms", "v1", "v3"]


def columns_of(file: ContentFile, schema: Schema) -> dict[str, pa.ChunkedArray]:
    """The primitive columns at the top of a data file, by the table's names; uuids as text."""
    names = {field.field_id: field for field in schema.fields if field.field_type.is_primitive}
    rows = pq.read_table(plain_path(file.path)[len("file://") :], partitioning=None)
    found = {}
    for column in rows.schema:
        field = names.get(int((column.metadata or {}).get(b"PARQUET:field_id", -1)))
        if field is not None:
            values = rows[column.name]
            if isinstance(field.field_type, UUIDType):
                values = pa.chunked_array(
                    [pa.array([str(UUID(bytes=v)) if v else None for v in values.cast(pa.binary(16)).to_pylist()], pa.string())]
                )
            found[field.name] = values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
    return found


def added_of(file: ContentFile, columns: dict[str, pa.ChunkedArray]) -> AddedFile:
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for name, values in columns.items():
        if not (pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()):
            known = sorted(value for value in values.to_pylist() if value is not None)
            lower |= {name: known[0]} if known else {}
            upper |= {name: known[-1]} if known else {}
    return AddedFile(
        file.path, file.size, file.records, lower=lower, upper=upper, nulls={name: v.null_count for name, v in columns.items()}
    )


@pytest.mark.parametrize("name", TABLES)
def test_metrics_are_those_of_java(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    schema = metadata.schema()
    modes = metrics_modes(schema, metadata.properties)
    manifests = read_manifest_list(storage, metadata.current_snapshot().manifest_list)
    files = [entry.file for manifest in manifests for entry in read_manifest(storage, manifest) if entry.live]
    compared = 0
    for file in (file for file in files if file.content is Content.DATA):
        columns = columns_of(file, schema)
        ours = file_metrics(added_of(file, columns), schema, modes)
        ids = {schema.find_field(column).field_id for column in columns}
        for mine, theirs in ((ours["value_counts"], file.value_counts), (ours["null_counts"], file.null_counts)):
            assert {id_: mine.get(id_) for id_ in ids} == {id_: theirs.get(id_) for id_ in ids}
        certain = ids - {id_ for id_, count in file.nan_counts.items() if count}
        for mine, theirs in ((ours["lower"], file.lower), (ours["upper"], file.upper)):
            assert {id_: mine.get(id_) for id_ in certain} == {id_: theirs.get(id_) for id_ in certain}
            compared += sum(id_ in mine for id_ in certain)
        assert all(count == 0 for id_, count in ours["nan_counts"].items() if file.nan_counts.get(id_) == 0)
    assert compared > 0


@pytest.mark.parametrize("name", [*TABLES, "schema_evolution", "partition_evolution"])
def test_rows_lie_within_the_bounds_that_java_wrote(name: str, tmp_path: Path) -> None:
    storage, metadata = opened(name, tmp_path)
    schema = metadata.schema()
    manifests = read_manifest_list(storage, metadata.current_snapshot().manifest_list)
    files = [entry.file for manifest in manifests for entry in read_manifest(storage, manifest) if entry.live]
    for file in (file for file in files if file.content is Content.DATA):
        for column, values in columns_of(file, schema).items():
            field = schema.find_field(column)
            (lower,) = bounds_column([file.lower.get(field.field_id)], field.field_type).to_pylist()
            (upper,) = bounds_column([file.upper.get(field.field_id)], field.field_type).to_pylist()
            known = [value for value in values.to_pylist() if value is not None and value == value]
            assert all((lower is None or lower <= value) and (upper is None or value <= upper) for value in known), column
