"""Dictionaries of Parquet columns: which columns of a new file have none, and which columns of a file are copied with theirs."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DEFAULT_BYTES = 1024 * 1024
"""The size in bytes at which PyArrow stops to use the dictionary of a column, unless its argument `dictionary_pagesize_limit` is set."""
_MIN_ROWS, _SAMPLED_ROWS = 65_536, 8_192
"""The minimum number of rows for an estimate of distinct values, and the number of rows that it reads."""
_MAX_DISTINCT_SHARE, _MAX_EXCESS = 0.7, 1.5
"""The largest useful dictionary, as a share of the values of its column and as a multiple of the size at which PyArrow stops to use it."""
_MAX_BYTES_OF_CODE = 2.5
"""The maximum average size in bytes of a value in a column chunk with a dictionary. Codes take up to two bytes, texts at least four."""
_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
"""The encodings of column chunks that Arrow can read as codes and a dictionary."""


def columns_without_dictionary(rows: pa.Table, max_bytes: int) -> frozenset[str]:
    """Return the top-level columns for which a dictionary makes a file larger and slower to write, such as unique keys.

    PyArrow begins each column with a dictionary. It continues without it when the dictionary exceeds a size, but keeps the pages so far. So
    a dictionary is useful only if it stays below this size, and if its values repeat. The number of distinct values is an estimate from a
    random sample of rows.

    Args:
        rows: The rows of a row group.
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
    """Return random rows, which depend only on the number of rows. Arrow would copy whole columns, so each batch is sampled separately."""
    indexes = np.sort(np.random.default_rng(0).integers(rows.num_rows, size=_SAMPLED_ROWS))
    batches, start = [], 0
    for batch in rows.to_batches():
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
    value_count = len(sample) - sample.null_count
    if not value_count:
        return False
    most_distinct = min(
        _MAX_EXCESS * max_bytes / _plain_bytes(sample, value_count), _MAX_DISTINCT_SHARE * row_count * value_count / len(sample)
    )
    return bool(pc.count_distinct(sample).as_py() > most_distinct * (1 - math.exp(-value_count / most_distinct)))


def _plain_bytes(sample: pa.Array, value_count: int) -> float:
    """Return the average size in bytes of a value in a dictionary, where a text or binary value follows its length in four bytes."""
    if pa.types.is_decimal(sample.type):
        return 4 if sample.type.precision <= 9 else 8 if sample.type.precision <= 18 else 16
    if pa.types.is_string(sample.type) or pa.types.is_binary(sample.type):
        return 4 + float(pc.sum(pc.binary_length(sample)).as_py()) / value_count
    return float(sample.type.bit_width) / 8


def text_columns_with_dictionary(source: pq.ParquetFile) -> list[str]:
    """Return the names of the top-level text columns of a file whose values are codes of a dictionary.

    Arrow can read these columns as codes and dictionary. To filter and write the codes takes a fraction of the time for texts.

    Args:
        source: The open file.
    """
    footer, schema = source.metadata, source.schema_arrow
    columns = [(index, footer.schema.column(index).path) for index in range(footer.num_columns)]
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    # A dot may be part of a name or precede the name of a nested field.
    texts = [(index, name) for index, name in columns if "." not in name and schema.field(name).type == pa.string()]
    return [name for index, name in texts if all(_has_codes(group.column(index)) for group in groups)]


def _has_codes(chunk: pq.ColumnChunkMetaData) -> bool:
    """Return whether the values of a column chunk are so small that they must be codes of a dictionary."""
    null_count = chunk.statistics.null_count if chunk.statistics is not None and chunk.statistics.has_null_count else 0
    max_size = _MAX_BYTES_OF_CODE * (chunk.num_values - null_count)
    return chunk.has_dictionary_page and _ENCODINGS.issuperset(chunk.encodings) and chunk.total_uncompressed_size <= max_size


def with_one_dictionary(rows: pa.Table) -> pa.Table:
    """Return the rows with one dictionary for all chunks of a column, which has only the values of these rows.

    Arrow's Parquet writer decodes codes whose dictionary differs from the previous one. The values of a dictionary become the bounds of the
    column, so it must not have values of deleted rows.

    Args:
        rows: The rows of a row group.
    """
    rows = rows.unify_dictionaries()
    for index, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and rows.num_rows:
            rows = rows.set_column(index, field, _without_unused_values(rows.column(index)))
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
