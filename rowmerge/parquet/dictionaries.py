"""Dictionaries of Parquet columns: which columns of a new file have none, and which text columns a rewrite copies with theirs.

A column with a dictionary stores each distinct value once, and for each row a code, the index of its value.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DEFAULT_BYTES = 1024 * 1024
"""The size in bytes at which PyArrow stops to use the dictionary of a column, unless its argument `dictionary_pagesize_limit` is set."""
_MIN_ROWS, _SAMPLED_ROWS, _MIN_SAMPLED_VALUES = 65_536, 8_192, 256
"""The minimum number of rows for an estimate of distinct values, the number of rows that it reads, and the minimum of values in them."""
_MAX_CHUNKS = 64
"""The maximum number of chunks that are sampled one after another. A table with more chunks is first copied into one, which is faster."""
_MAX_DISTINCT_SHARE, _MAX_EXCESS = 0.7, 1.5
"""The maximum size of a useful dictionary: as a share of the values of its column, and as a multiple of the size `max_bytes` below."""
_MAX_BYTES_OF_CODE = 2.5
"""The maximum average size in bytes of values that must be codes. Most codes take up to two bytes, a text takes at least four."""
_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
"""The encodings of column chunks that Arrow can read as codes and a dictionary."""


def columns_without_dictionary(rows: pa.Table, max_bytes: int) -> frozenset[str]:
    """Return the top-level columns for which a dictionary makes a file larger and slower to write, such as unique keys.

    PyArrow begins each column with a dictionary. When the dictionary exceeds a size, PyArrow continues without it, but keeps the pages so
    far. So a dictionary is useful only if values repeat, and if it exceeds this size by less than a half. The number of distinct values is
    an estimate from a random sample.

    Args:
        rows: The first row group of a file, with the types that the file stores. It decides for all row groups.
        max_bytes: The size in bytes at which PyArrow stops to use a dictionary.
    """
    if rows.num_rows < _MIN_ROWS:
        return frozenset()
    names = [field.name for field in rows.schema if _may_repeat(field.type)]
    columns = zip(names, _sample(rows.select(names)).columns, strict=True)
    return frozenset(name for name, column in columns if _is_dictionary_useless(column.combine_chunks(), rows.num_rows, max_bytes))


def _may_repeat(type_: pa.DataType) -> bool:
    """Return whether values of a type can have a dictionary whose usefulness is unknown."""
    return not (pa.types.is_nested(type_) or pa.types.is_dictionary(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_))


def _sample(rows: pa.Table) -> pa.Table:
    """Return random rows, which depend only on the number of rows."""
    if rows.num_columns and rows.column(0).num_chunks > _MAX_CHUNKS:
        rows = rows.combine_chunks()
    indexes = np.sort(np.random.default_rng(0).integers(rows.num_rows, size=_SAMPLED_ROWS))
    batches, start = [], 0
    for batch in rows.to_batches():  # to take rows of a whole table, Arrow copies all its chunks
        first, end = np.searchsorted(indexes, [start, start + batch.num_rows])
        batches.append(batch.take(pa.array(indexes[first:end] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(batches, rows.schema)


def _is_dictionary_useless(sample: pa.Array, row_count: int, max_bytes: int) -> bool:
    """Return whether a column probably has too many distinct values for a dictionary.

    A sample of k values from D equally frequent ones has about D * (1 - exp(-k / D)) distinct values.

    Args:
        sample: A random sample of the column's values.
        row_count: The number of rows from which the sample comes.
        max_bytes: The size in bytes at which PyArrow stops to use a dictionary.
    """
    values = sample.storage if isinstance(sample.type, pa.BaseExtensionType) else sample
    value_count = len(values) - values.null_count
    if value_count < _MIN_SAMPLED_VALUES:
        return False
    most_distinct = min(
        _MAX_EXCESS * max_bytes / _plain_bytes(values, value_count), _MAX_DISTINCT_SHARE * row_count * value_count / len(values)
    )
    return bool(pc.count_distinct(values).as_py() > most_distinct * (1 - math.exp(-value_count / most_distinct)))


def _plain_bytes(sample: pa.Array, value_count: int) -> float:
    """Return the average size in bytes of a value in a dictionary, where a text or binary value follows its length in four bytes."""
    if pa.types.is_decimal(sample.type):
        return 4 if sample.type.precision <= 9 else 8 if sample.type.precision <= 18 else 16
    if pa.types.is_string(sample.type) or pa.types.is_binary(sample.type):
        return 4 + float(pc.sum(pc.binary_length(sample)).as_py()) / value_count
    return max(float(sample.type.bit_width) / 8, 4)  # Parquet has no shorter integers


def text_columns_with_dictionary(source: pq.ParquetFile) -> list[str]:
    """Return the names of the top-level text columns that a file stores as codes with a dictionary.

    Arrow can read these columns as codes and dictionary. To filter and write the codes takes a fraction of the time that texts take.

    Args:
        source: The open file.
    """
    footer, schema = source.metadata, source.schema_arrow
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    names = []
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        position = schema.get_field_index(name)  # negative for nested columns, and for a name of two columns
        # A dot may be part of a name or precede the name of a nested field.
        is_text = position >= 0 and "." not in name and schema.field(position).type == pa.string()
        if is_text and all(_has_codes(group.column(index)) for group in groups):
            names.append(name)
    return names


def _has_codes(chunk: pq.ColumnChunkMetaData) -> bool:
    """Return whether the values of a column chunk are so small that most of them must be codes of a dictionary."""
    null_count = chunk.statistics.null_count if chunk.statistics is not None and chunk.statistics.has_null_count else 0
    max_size = _MAX_BYTES_OF_CODE * (chunk.num_values - null_count)
    return chunk.has_dictionary_page and _ENCODINGS.issuperset(chunk.encodings) and chunk.total_uncompressed_size <= max_size


def decoded_bytes(rows: pa.Table) -> int:
    """Return the size in bytes of rows in memory if text columns that are codes were texts. It determines the size of row groups."""
    return sum(map(_decoded_bytes, rows.columns)) if _code_columns(rows) else rows.nbytes


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """Return the size of the decoded values of a column in bytes, estimated from the average size of the values of its dictionaries."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return sum(len(chunk) * (4 + chunk.dictionary.nbytes // max(len(chunk.dictionary), 1)) for chunk in column.chunks)


def _code_columns(rows: pa.Table) -> list[int]:
    """Return the indexes of the columns that are codes with a dictionary."""
    return [index for index, type_ in enumerate(rows.schema.types) if pa.types.is_dictionary(type_)]


def with_one_dictionary(rows: pa.Table) -> pa.Table:
    """Combine the dictionaries of each column into one, which contains only values of these rows.

    Arrow's Parquet writer decodes codes whose dictionary differs from the previous one. The values of a dictionary become the bounds of the
    column, so it must not have values of deleted rows.

    Args:
        rows: The rows of a row group.
    """
    indexes = _code_columns(rows)
    if indexes and rows.num_rows:
        rows = rows.unify_dictionaries()
        for index in indexes:
            rows = rows.set_column(index, rows.schema.field(index), _without_unused_values(rows.column(index)))
    return rows


def _without_unused_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with codes of one dictionary that contains each value of the column, and no other value."""
    dictionary = column.chunk(0).dictionary
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
    used_codes = pc.unique(codes).drop_null()
    if len(used_codes) == len(dictionary):
        return column
    used_values = dictionary.take(used_codes)
    chunks = [pc.index_in(chunk, value_set=used_codes) for chunk in codes.chunks]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(chunk, used_values) for chunk in chunks], column.type)
