"""How data files and change files of a table are written: the settings that the driver sends to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID, FilesLineage, WriteSpec
from rowmerge.parquet.leaf_columns import BloomFilter, ColumnOptions, leaves
from rowmerge.parquet.partitions import HashedPaths, PartitionKey
from rowmerge.spark.reading.stored_columns import nullable_schema
from rowmerge.spark.writing.distribution import is_bucket_of_uuid
from rowmerge.table.metadata.parquet_settings import ColumnSettings
from rowmerge.table.metadata.partitioning import VOID, PartitionField
from rowmerge.table.metadata.schema import UUID, Field, Struct, arrow_type
from rowmerge.table.metadata.shape import Lineage, TableShape
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE
from rowmerge.table.snapshots.files import RowOrigin

_MIN_ROW_GROUP_BYTES = 1024 * 1024
"""The minimum size of a row group in bytes of Arrow data. The statistics of smaller row groups would make the footer too large."""


def write_spec(table: TableShape) -> WriteSpec:
    """Return how data files of this table are written, according to the properties of the table and the defaults of `WriteSpec`.

    `names` are all columns of the table. `schema` are the columns of a data file under their names in the table. A data file of a Delta
    table does not contain the partition columns (PROTOCOL.md, Data Files). `file_schema` are the same columns under their names in files.
    The writer collects the bounds of all columns. The commit drops the bounds that the table's properties exclude.
    """
    columns_not_in_files = () if table.partition_values_in_files else tuple(field.column[0] for field in table.partitioning)
    column_pairs = zip(table.schema, table.stored_schema, strict=True)
    pairs_in_files = [(column, file_column) for column, file_column in column_pairs if column.name not in columns_not_in_files]
    schema = nullable_schema(Struct(tuple(column for column, _ in pairs_in_files)))
    file_schema = nullable_schema(Struct(tuple(file_column for _, file_column in pairs_in_files)))
    parquet = table.settings.parquet
    target_size = table.settings.target_file_size or WriteSpec.target_file_size
    return WriteSpec(
        root=table.data_location,
        names=table.schema.names,
        schema=schema,
        file_schema=file_schema,
        by_field_id=table.by_field_id,
        partition=tuple(_partition_key(table, field) for field in table.partitioning),
        partition_values_in_files=table.partition_values_in_files,
        is_ordered=bool(table.ordering),
        bounded_columns=frozenset(schema.names),
        hashed_paths=_hashed_paths(table),
        target_file_size=target_size,
        row_group_size=parquet.row_group_size or min(WriteSpec.row_group_size, max(target_size, _MIN_ROW_GROUP_BYTES)),
        compression=parquet.codec or WriteSpec.compression,
        compression_level=parquet.level,
        format_version=parquet.format_version or WriteSpec.format_version,
        random_prefix_length=table.settings.random_prefix_length,
        page_arguments=parquet.pages.writer_arguments,
        column_options=_column_options(schema, file_schema, parquet.columns),
        filesystem_options=table.filesystem_options,
    )


def _hashed_paths(table: TableShape) -> HashedPaths | None:
    """Return the form of hashed paths, or None if the table does not have them.

    A folder outside the table may belong to several tables. As in Iceberg, paths there contain the last two names of the table's location.
    """
    with_partitions = table.settings.partitions_in_hashed_paths
    if with_partitions is None:
        return None
    is_inside_table = f"{table.data_location}/".startswith(f"{table.location}/")
    return HashedPaths("" if is_inside_table else "/".join(table.location.split("/")[-2:]), with_partitions)


def _column_options(schema: pa.Schema, file_schema: pa.Schema, settings: ColumnSettings) -> ColumnOptions:
    """Return the options of the writer for single columns. As in Iceberg, settings of columns that the table lacks have no effect.

    Args:
        schema: The columns of a data file, under the names that they have in the table.
        file_schema: The same columns, under the names that they have in the file.
        settings: The settings, by the names of columns in the table.
    """
    leaves_by_name = {".".join(leaf.path): leaf for leaf in leaves(pa.struct(list(schema)), pa.struct(list(file_schema)))}
    parquet_paths = {name: leaf.parquet_path for name, leaf in leaves_by_name.items()}
    return ColumnOptions(
        without_dictionary=frozenset(parquet_paths[name] for name in settings.without_dictionary if name in parquet_paths),
        without_statistics=frozenset(parquet_paths[name] for name in settings.without_statistics if name in parquet_paths),
        bloom_filters={
            parquet_paths[name]: BloomFilter(column.false_positive_rate, column.distinct_values, settings.bloom_filter_bytes)
            for name, column in settings.bloom_filters.items()
            if name in leaves_by_name and leaves_by_name[name].may_have_bloom_filter
        },
    )


def _partition_key(table: TableShape, field: PartitionField) -> PartitionKey:
    """Return how the writer computes the values of a partition field and names the folders of the partitions.

    A bucket of UUIDs is computed from the bytes in files, all other values from the column as Spark represents it. The folders of an
    Iceberg table are named after the field, those of a Delta table after the physical name of the column (column mapping).
    """
    if field.transform.name == VOID:  # all values are NULL, even if the source column was dropped
        return PartitionKey(field.name, folder=field.name, source=(), type=pa.null(), transform=str(field.transform))
    column = table.schema.at(field.column, case_sensitive=True)
    assert column is not None
    type_ = pa.binary(UUID.length) if is_bucket_of_uuid(table, field) else arrow_type(column.type)
    physical_names = dict(zip(table.schema.names, table.stored_schema.names, strict=True))
    folder = field.name if table.partition_values_in_files else physical_names[field.name]  # only in Iceberg, data files have the values
    return PartitionKey(field.name, folder, source=field.column, type=type_, transform=str(field.transform))


def change_rows_spec(spec: WriteSpec, location: str) -> WriteSpec:
    """Return how change rows are written: like data rows, with the change type as the last column (PROTOCOL.md, Change Data Files).

    Args:
        spec: The settings with which data files of the table are written.
        location: The folder of change files.
    """
    change_type = pa.field(CHANGE_TYPE, pa.string())
    schema, file_schema = spec.schema.append(change_type), spec.file_schema.append(change_type)
    change_spec = replace(spec, names=(*spec.names, CHANGE_TYPE), schema=schema, file_schema=file_schema)
    return replace(change_spec, root=location, bounded_columns=frozenset(), prefix="cdc")


def with_lineage_columns(spec: WriteSpec, lineage: Lineage, origins: Mapping[str, RowOrigin]) -> WriteSpec:
    """Return the settings with the hidden columns of row lineage added to the schemas.

    Args:
        spec: The settings with which data files of the table are written.
        lineage: The hidden columns.
        origins: The row lineage of the files from which the rows come, by the path that the tasks get.
    """
    hidden_columns = ((ROW_ID, lineage.row_id), (CHANGED_IN, lineage.changed_in))
    schema = pa.schema([*spec.schema, *nullable_schema(Struct(tuple(Field(name, column.type) for name, column in hidden_columns)))])
    file_schema = pa.schema([*spec.file_schema, *nullable_schema(Struct(tuple(column for _, column in hidden_columns)))])
    files_lineage = FilesLineage({path: (origin.first_row_id, origin.version) for path, origin in origins.items()})
    return replace(spec, schema=schema, file_schema=file_schema, lineage=files_lineage)
