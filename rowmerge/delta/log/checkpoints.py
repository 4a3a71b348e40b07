"""Write checkpoints, which contain the state of one version (PROTOCOL.md, Checkpoints).

With `delta.checkpointPolicy` = classic, a checkpoint is one Parquet file (V1 Spec). With v2, it consists of a JSON file and of sidecars in
Parquet, which contain the file actions (V2 Spec). A table with many files then has many files of limited size instead of a very large one.
"""

from __future__ import annotations

import io
import json
import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import ADD, BOOLEAN, INT, LONG, REMOVE, TEXT, TEXT_MAP, file_schema, to_map
from rowmerge.delta.files.statistics import parsed_text
from rowmerge.delta.files.statistics_reading import bounds_type, nulls_type, read_statistics, statistics_type
from rowmerge.delta.files.text_values import from_text
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, SIDECARS, checkpoint_path, v2_checkpoint_path
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Action, Metadata, Transaction, domain_fields, serialize, transaction_fields, without_nulls
from rowmerge.delta.metadata.column_mapping import physical_indexed_leaves
from rowmerge.delta.metadata.features import writes_v2_checkpoints
from rowmerge.delta.metadata.properties import checkpoint_interval, tombstone_retention, transaction_retention
from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import Field, arrow_type

logger = logging.getLogger(__name__)

_TEXTS, _FORMAT = pa.list_(TEXT), pa.struct({"provider": TEXT, "options": TEXT_MAP})
_PROTOCOL = pa.struct({"minReaderVersion": INT, "minWriterVersion": INT, "readerFeatures": _TEXTS, "writerFeatures": _TEXTS})
_METADATA = pa.struct(
    {"id": TEXT, "name": TEXT, "description": TEXT, "format": _FORMAT, "schemaString": TEXT}
    | {"partitionColumns": _TEXTS, "configuration": TEXT_MAP, "createdTime": LONG}
)
_TRANSACTION = pa.struct({"appId": TEXT, "version": LONG, "lastUpdated": LONG})
_DOMAIN = pa.struct({"domain": TEXT, "configuration": TEXT, "removed": BOOLEAN})
_REMOVE_FIELDS = {**REMOVE, "partitionValues": TEXT_MAP}
_REMOVE = pa.struct(_REMOVE_FIELDS)
_ADD_FIELDS = [*(name for name in ADD if name != "stats"), "partitionValues", "tags"]
_BATCH = 65_536
"""The maximum number of file actions in a row group of a checkpoint."""
_MAX_SIDECAR_ACTIONS = 50_000
"""The maximum number of file actions in a sidecar, as in delta-spark (`spark.databricks.delta.checkpoint.partSize`)."""


def is_due(version: int, metadata: Metadata) -> bool:
    """Return whether `delta.checkpointInterval` requires a checkpoint of a version.

    Args:
        version: The committed version.
        metadata: The metadata of that version.

    Raises:
        ConfigurationError: The property is invalid.
    """
    return version > 0 and version % checkpoint_interval(metadata.configuration) == 0


def try_checkpoint(storage: Storage, state: State) -> bool:
    """Write the checkpoint of a committed version, and return whether this succeeded.

    A failure is only logged, because readers do not need the checkpoint.

    Args:
        storage: The storage of the table.
        state: The state of the version.
    """
    try:
        write_checkpoint(storage, state)
    except (RowmergeError, pa.ArrowException, OSError) as error:
        logger.warning("Cannot write the checkpoint of version %d of the table at %s: %s", state.version, storage.location, error)
        return False
    return True


def write_checkpoint(storage: Storage, state: State) -> None:
    """Write the checkpoint of a version in the form that `delta.checkpointPolicy` selects, and the hint `_last_checkpoint`.

    Args:
        storage: The storage of the table.
        state: The state of the version.

    Raises:
        ConfigurationError: A property that a checkpoint depends on is invalid.
        StorageError: A file could not be written. The checkpoint may exist without the hint, or sidecars without their checkpoint.
    """
    now = time.time_ns() // 1_000_000
    write = _write_v2_checkpoint if writes_v2_checkpoints(state.protocol, state.metadata) else _write_classic_checkpoint
    hint = {"version": state.version, **write(storage, state, now), "numOfAddFiles": state.files.count}
    storage.put(LAST_CHECKPOINT, json.dumps(hint).encode())


def _write_classic_checkpoint(storage: Storage, state: State, now: int) -> dict[str, Any]:
    """Write `<version>.checkpoint.parquet`, and return the fields of the hint that describe it."""
    data, action_count = _parquet_file(checkpoint_tables(state, now))
    storage.put(checkpoint_path(state.version), data)
    return {"size": action_count, "sizeInBytes": len(data)}


def _write_v2_checkpoint(storage: Storage, state: State, now: int) -> dict[str, Any]:
    """Write sidecars and then `<version>.checkpoint.<uuid>.json`, which refers to them. Return the fields of the hint that describe it."""
    sidecars, sidecar_action_count = [], 0
    for tables in _in_parts(sidecar_tables(state, now), _MAX_SIDECAR_ACTIONS):
        data, action_count = _parquet_file(iter(tables))
        sidecars.append(_put_sidecar(storage, data, now))
        sidecar_action_count += action_count
    sidecar_bytes = sum(sidecar["sizeInBytes"] for sidecar in sidecars)
    tags = {"sidecarNumActions": sidecar_action_count, "sidecarSizeInBytes": sidecar_bytes, "numOfAddFiles": state.files.count}
    metadata: Action = {"checkpointMetadata": {"version": state.version, "tags": {tag: str(value) for tag, value in tags.items()}}}
    actions = [metadata, *_non_file_actions(state, now), *({"sidecar": sidecar} for sidecar in sidecars)]
    path, content = v2_checkpoint_path(state.version, uuid.uuid4()), serialize(actions)
    storage.put(path, content)
    # delta-spark recognizes a V2 checkpoint in the hint by this field.
    top_level_file = {"path": path.rpartition("/")[2], "sizeInBytes": len(content), "modificationTime": now}
    size = sidecar_action_count + len(actions)
    return {"size": size, "sizeInBytes": sidecar_bytes + len(content), "v2Checkpoint": top_level_file}


def _put_sidecar(storage: Storage, data: bytes, now: int) -> dict[str, Any]:
    """Write a sidecar, and return the fields of its `sidecar` action. `now`: milliseconds since the epoch."""
    name = f"{uuid.uuid4()}.parquet"
    storage.put(f"{SIDECARS}/{name}", data)
    return {"path": name, "sizeInBytes": len(data), "modificationTime": now}


def _in_parts(tables: Iterable[pa.Table], max_rows: int) -> Iterator[list[pa.Table]]:
    """Yield the rows of all tables in parts, each of up to `max_rows` rows in one or more tables. Yield no part without rows."""
    part: list[pa.Table] = []
    free_rows = max_rows
    for table in tables:
        start = 0
        while start < table.num_rows:
            part.append(table.slice(start, free_rows))
            start += part[-1].num_rows
            free_rows -= part[-1].num_rows
            if not free_rows:
                yield part
                part, free_rows = [], max_rows
    if part:
        yield part


def _parquet_file(tables: Iterator[pa.Table]) -> tuple[bytes, int]:
    """Return a Parquet file with the rows of the tables as bytes, and the number of rows."""
    first = next(tables)
    buffer, row_count = io.BytesIO(), 0
    with pq.ParquetWriter(buffer, first.schema, compression="snappy", store_schema=False, write_page_checksum=True) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            row_count += table.num_rows
    return buffer.getvalue(), row_count


def checkpoint_tables(state: State, now: int) -> Iterator[pa.Table]:
    """Yield the actions of a checkpoint as tables with the same schema: one row per action, and one column per kind of action.

    Args:
        state: The state of the version.
        now: The current time in milliseconds since the epoch. It determines which transactions and tombstones have expired.
    """
    return _action_tables(_columns_except_add(state, now), state)


def sidecar_tables(state: State, now: int) -> Iterator[pa.Table]:
    """Yield the file actions of a checkpoint as tables with the same schema, with the columns `remove` and `add`.

    Args:
        state: The state of the version.
        now: The current time in milliseconds since the epoch. It determines which tombstones have expired.
    """
    return _action_tables({"remove": _unexpired_removes(state, now)}, state)


def _action_tables(columns_except_add: Mapping[str, pa.Array | pa.ChunkedArray], state: State) -> Iterator[pa.Table]:
    """Yield the actions in these columns and the `add` actions of all live files, as tables with the same schema."""
    schema = _checkpoint_schema(columns_except_add, state.metadata)
    yield _action_rows(columns_except_add, schema)
    for table in state.files.tables():
        for batch in table.to_batches(max_chunksize=_BATCH):
            yield _action_rows({"add": _add_actions(batch, state.metadata)}, schema)


def _checkpoint_schema(columns_except_add: Mapping[str, pa.Array | pa.ChunkedArray], metadata: Metadata) -> pa.Schema:
    """Return the schema of a checkpoint: the types of these columns, and that of the column `add`."""
    # The fields of `add` depend on the table. The conversion of an empty batch determines them without any file.
    no_files = pa.RecordBatch.from_pylist([], schema=file_schema(metadata.stored_partition_columns))
    types = [(name, column.type) for name, column in columns_except_add.items()]
    return pa.schema([*types, ("add", _add_actions(no_files, metadata).type)])


def _action_rows(columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Return each action in `columns` as a row of the checkpoint: its column has the action, and all other columns are null."""
    tables = [pa.table({name: actions}) for name, actions in columns.items()]
    # `concat_tables` fills the columns that a table lacks with nulls.
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default")


def _columns_except_add(state: State, now: int) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return the columns of all kinds of actions except `add`, without expired transactions and expired tombstones.

    `now`: the current time in milliseconds since the epoch.
    """
    return {
        "protocol": pa.array([state.protocol.action()["protocol"]], _PROTOCOL),
        "metaData": pa.array([_metadata_fields(state.metadata)], _METADATA),
        "txn": pa.array(transaction_fields(unexpired_transactions(state, now).items()), _TRANSACTION),
        "domainMetadata": pa.array(domain_fields(state.domains.items()), _DOMAIN),
        "remove": _unexpired_removes(state, now),
    }


def _non_file_actions(state: State, now: int) -> list[Action]:
    """Return all actions of a checkpoint except file actions, without expired transactions. `now`: milliseconds since the epoch."""
    transactions = transaction_fields(unexpired_transactions(state, now).items())
    return [
        state.protocol.action(),
        state.metadata.action(),
        *({"txn": without_nulls(fields)} for fields in transactions),
        *({"domainMetadata": fields} for fields in domain_fields(state.domains.items())),
    ]


def unexpired_transactions(state: State, now: int) -> Mapping[str, Transaction]:
    """Return the transactions within `delta.setTransactionRetentionDuration`, or all transactions if the property is not set.

    A transaction without `lastUpdated` never expires.

    Args:
        state: The state of the version.
        now: The current time in milliseconds since the epoch.
    """
    retention = transaction_retention(state.metadata.configuration)
    return {
        name: transaction
        for name, transaction in state.transactions.items()
        if retention is None or transaction.last_updated is None or transaction.last_updated > now - retention
    }


def _metadata_fields(metadata: Metadata) -> dict[str, object]:
    """Return the fields of the `metaData` action, with maps as the lists of pairs that Arrow requires."""
    fields = metadata.action()["metaData"]
    format_ = {"provider": fields["format"]["provider"], "options": list(fields["format"]["options"].items())}
    return {**fields, "format": format_, "configuration": list(fields["configuration"].items())}


def _unexpired_removes(state: State, now: int) -> pa.ChunkedArray:
    """Return the `remove` actions of the files that were removed within `delta.deletedFileRetentionDuration`.

    VACUUM must not delete these files yet. `now`: the current time in milliseconds since the epoch.
    """
    tombstones, expiry = state.tombstones, now - tombstone_retention(state.metadata.configuration)
    unexpired = tombstones.filter(pc.greater(pc.fill_null(tombstones["deletionTimestamp"], 0), expiry))
    chunks = []
    for batch in unexpired.to_batches(max_chunksize=_BATCH):
        columns = _action_fields(batch, _REMOVE_FIELDS) | {"dataChange": pc.fill_null(batch["dataChange"], True)}
        chunks.append(pa.StructArray.from_arrays(list(columns.values()), names=list(columns)).cast(_REMOVE))
    return pa.chunked_array(chunks, _REMOVE)


def _action_fields(batch: pa.RecordBatch, names: Iterable[str]) -> dict[str, pa.Array]:
    """Return the named fields of file actions as columns, in the order of `names`. Each row of `batch` is a file."""
    return {name: to_map(batch["partition"]) if name == "partitionValues" else batch[name] for name in names}


def _add_actions(batch: pa.RecordBatch, metadata: Metadata) -> pa.StructArray:
    """Return the `add` actions of live files."""
    data_change = pa.repeat(pa.scalar(False), batch.num_rows)  # a checkpoint does not change data
    columns = _action_fields(batch, _ADD_FIELDS) | {"dataChange": data_change} | _statistics_columns(batch, metadata)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _statistics_columns(batch: pa.RecordBatch, metadata: Metadata) -> dict[str, pa.Array]:
    """Return the statistics fields of `add`: as JSON (`stats`), as structs (`stats_parsed`, `partitionValues_parsed`), or both.

    The table's properties select the representation. Invalid JSON from the log becomes null, so that no reader of the checkpoint fails.
    """
    writes_json = metadata.configuration.get("delta.checkpoint.writeStatsAsJson", "true").lower() != "false"
    writes_structs = metadata.configuration.get("delta.checkpoint.writeStatsAsStruct", "true").lower() != "false"
    struct_columns: dict[str, pa.Array] = {}
    is_invalid_json = None
    if writes_structs:
        struct_columns["stats_parsed"], is_invalid_json = _struct_statistics(batch, metadata)
        if metadata.partition_columns:
            struct_columns["partitionValues_parsed"] = _parsed_partition_values(batch["partition"], metadata)
    elif writes_json:
        # `read_statistics` parses the JSON, which finds the invalid strings. No column statistics are needed, hence no fields.
        is_invalid_json = read_statistics(batch, fields=[]).unreadable
    if not writes_json:
        return struct_columns
    return {"stats": _json_statistics(batch, is_invalid_json), **struct_columns}


def _json_statistics(batch: pa.RecordBatch, is_invalid_json: pa.Array | None) -> pa.Array:
    """Return the field `stats`: the statistics of each file as JSON.

    An earlier checkpoint may have statistics only as structs, which are in the column `parsed` of `batch`. These are converted to JSON.

    `is_invalid_json`: a mask of the files whose JSON is invalid, for which null is returned. None if all JSON is valid.
    """
    stats = batch["stats"]
    if is_invalid_json is not None:
        stats = pc.if_else(is_invalid_json, pa.scalar(None, pa.string()), stats)
    if "parsed" not in batch.schema.names:
        return stats
    is_missing = pc.or_(pc.is_null(stats), pc.fill_null(pc.equal(stats, ""), False))
    is_convertible = pc.and_(is_missing, pc.is_valid(batch["parsed"]))
    converted_texts = [parsed_text(statistics) for statistics in batch["parsed"].filter(is_convertible).to_pylist()]
    return pc.replace_with_mask(stats, is_convertible, pa.array(converted_texts, pa.string()))


def _struct_statistics(batch: pa.RecordBatch, metadata: Metadata) -> tuple[pa.StructArray, pa.Array | None]:
    """Return the field `stats_parsed`, and a mask of the files with invalid JSON statistics (None if all are valid).

    The structs of an earlier checkpoint (`parsed`) are reused if their columns and types are the same. Otherwise, the JSON is parsed.
    """
    fields = _indexed_fields(metadata)
    struct_type = _stats_parsed_type(fields)
    reusable_statistics = _reusable_statistics(batch["parsed"], struct_type) if "parsed" in batch.schema.names else None
    if reusable_statistics is not None:
        return reusable_statistics, None  # the writer of the earlier checkpoint has validated the JSON
    # With `as_written`, bounds stay as the log has them. Only a reader widens bounds that are not safe for file skipping.
    statistics = read_statistics(batch, fields, as_written=True)
    columns = {"numRecords": statistics.records, "tightBounds": statistics.tight, "nullCount": statistics.nulls}
    columns |= {"minValues": statistics.lower, "maxValues": statistics.upper}
    structs = pa.StructArray.from_arrays([columns[field.name] for field in struct_type], fields=list(struct_type))
    return structs, statistics.unreadable


def _stats_parsed_type(fields: Sequence[Field]) -> pa.StructType:
    """Return the type of `stats_parsed` for these columns. Structs without fields are left out, because Parquet cannot store them."""
    type_ = statistics_type(bounds_type(fields), nulls_type(fields))
    return pa.struct([field for field in type_ if not pa.types.is_struct(field.type) or field.type.num_fields])


def _indexed_fields(metadata: Metadata) -> list[Field]:
    """Return the columns that have statistics, with their physical names."""
    stored_schema = metadata.stored_schema
    leaves = physical_indexed_leaves(metadata.schema, stored_schema, metadata.partition_columns, metadata.configuration)
    indexed_columns = {leaf[0] for leaf in leaves}
    return [field for field in stored_schema if field.name in indexed_columns]


def _reusable_statistics(parsed: pa.StructArray, target_type: pa.StructType) -> pa.StructArray | None:
    """Return the statistics of an earlier checkpoint with the fields of `target_type`.

    Returns None if a file has no statistics, or if a field is missing or has a different type. Only `tightBounds` may be missing.
    """
    if parsed.null_count:
        return None
    parsed_types = {field.name: field.type for field in parsed.type}
    columns: list[pa.Array] = []
    for field in target_type:
        if parsed_types.get(field.name) == field.type:
            columns.append(pc.struct_field(parsed, [field.name]))
        elif field.name == "tightBounds":
            # Writers without deletion vectors omit the field. Null means that the bounds are tight (PROTOCOL.md, Per-file Statistics).
            columns.append(pa.nulls(len(parsed), field.type))
        else:
            return None
    return pa.StructArray.from_arrays(columns, fields=list(target_type))


def _parsed_partition_values(texts: pa.StructArray, metadata: Metadata) -> pa.StructArray:
    """Return the field `partitionValues_parsed`: the partition values in the columns' types.

    `texts`: the partition values as strings, with one field per partition column. An empty string stands for null.
    """
    types = {field.name: arrow_type(field.type) for field in metadata.stored_schema.select(metadata.stored_partition_columns)}
    columns = []
    for name, type_ in types.items():
        text = pc.struct_field(texts, [name])
        text_or_null = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        columns.append(from_text(text_or_null, type_))
    return pa.StructArray.from_arrays(columns, names=list(types))
