"""Build the manifest content of a written data file."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.manifests.bounds import stored_value
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.manifests.metrics import MetricsMode, file_metrics
from rowmerge.iceberg.metadata.partition_values import partition_value_name
from rowmerge.table.snapshots.files import AddedFile


def content_file(file: AddedFile, metadata: TableMetadata, modes: Mapping[int, MetricsMode]) -> ContentFile:
    """Return the `ContentFile` of a data file of the table's current schema and spec; `modes` are the metrics modes by column id."""
    schema, spec = metadata.schema(), metadata.spec()
    types = [field.field_type for field in spec.partition_type(schema).fields]
    values = [file.partition.get(partition_value_name(spec, schema, index)) for index in range(len(types))]
    return ContentFile(
        content=Content.DATA,
        path=file.path,
        records=file.records,
        size=file.size,
        spec_id=spec.spec_id,
        partition=tuple(stored_value(value, type_) for value, type_ in zip(values, types, strict=True)),
        sort_order_id=metadata.default_sort_order_id if file.ordered else None,
        **vars(file_metrics(file, schema, modes)),
    )
