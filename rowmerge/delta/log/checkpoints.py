"""Writing classic checkpoints: the state of one version in one Parquet file (PROTOCOL.md, Checkpoints, V1 Spec).

Tables with the feature v2Checkpoint get the same: a classic checkpoint after the V1 spec is allowed for every table.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator, Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.files.columns import TEXT_MAP, VECTOR, to_map
from rowmerge.delta.files.statistics import parsed_text
from rowmerge.delta.files.statistics_reading import bounds_type, nulls_type, read_statistics
from rowmerge.delta.files.text_values import from_text
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, checkpoint_path
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Action, Metadata, Transaction
from rowmerge.delta.metadata.column_mapping import stored_indexed_leaves
from rowmerge.delta.metadata.properties import checkpoint_interval, tombstone_retention, transaction_retention
from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import arrow_type

logger = logging.getLogger(__name__)

_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", TEXT_MAP),
        ("createdTime", pa.int64()),
    ]
)
_TRANSACTION = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
_BATCH = 65_536
"""How many files are put into a row group."""


def is_due(version: int, metadata: Metadata) -> bool:
    """Whether a checkpoint is written after this version."""
    return version > 0 and version % checkpoint_interval(metadata.configuration) == 0


def try_checkpoint(storage: Storage, state: State) -> bool:
    """Write the checkpoint of a version that is committed, and return whether it was written. A failure is logged and does no harm."""
    try:
        write_checkpoint(storage, state)
    except (RowmergeError, pa.ArrowException, OSError) as error:
        logger.warning("No checkpoint of version %d was written at %s: %s", state.version, storage.location, error)
        return False
    return True


def write_checkpoint(storage: Storage, state: State, *, now: int | None = None) -> None:
    """Write `%020d.checkpoint.parquet` and the hint `_last_checkpoint`. `now`: milliseconds, for what has expired. Raises StorageError."""
    now = time.time_ns() // 1_000_000 if now is None else now
    tables = checkpoint_tables(state, now)
    first = next(tables)
    buffer, actions = io.BytesIO(), 0
    with pq.ParquetWriter(buffer, first.schema, compression="snappy", store_schema=False, write_page_checksum=True) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            actions += table.num_rows
    data = buffer.getvalue()
    storage.put(checkpoint_path(state.version), data)
    hint = {"version": state.version, "size": actions, "sizeInBytes": len(data), "numOfAddFiles": state.files.count}
    storage.put(LAST_CHECKPOINT, json.dumps(hint).encode())


def checkpoint_tables(state: State, now: int) -> Iterator[pa.Table]:
    """One action a row, each in its own column; some actions at a time, all tables of one schema."""
    assert state.protocol is not None
    assert state.metadata is not None
    metadata = state.metadata
    transactions = [
        {"appId": name, "version": transaction.version, "lastUpdated": transaction.last_updated}
        for name, transaction in unexpired_transactions(state, now).items()
    ]
    domains = [{"domain": name, "configuration": text, "removed": False} for name, text in state.domains.items()]
    small = {
        "protocol": pa.array([state.protocol.action()["protocol"]], _PROTOCOL),
        "metaData": pa.array([_pairs(metadata.action())], _METADATA),
        "txn": pa.array(transactions, _TRANSACTION),
        "domainMetadata": pa.array(domains, _DOMAIN),
        "remove": _removes(state, now - tombstone_retention(metadata.configuration)),
    }
    none = _add(pa.RecordBatch.from_pylist([], schema=state.files.no_rows.schema), metadata)
    columns = {**small, "add": none}
    nothing = pa.schema([pa.field(name, column.type) for name, column in columns.items()]).empty_table()
    yield pa.concat_tables([nothing, *(pa.table({name: column}) for name, column in small.items())], promote_options="default")
    for table in state.files.tables():
        for batch in table.to_batches(max_chunksize=_BATCH):
            yield pa.concat_tables([nothing, pa.table({"add": _add(batch, metadata)})], promote_options="default")


def unexpired_transactions(state: State, now: int) -> Mapping[str, Transaction]:
    """The transactions within `delta.setTransactionRetentionDuration`, all without that property. One without a time never expires."""
    assert state.metadata is not None
    retention = transaction_retention(state.metadata.configuration)
    if retention is None:
        return state.transactions
    return {
        name: transaction
        for name, transaction in state.transactions.items()
        if transaction.last_updated is None or transaction.last_updated > now - retention
    }


def _pairs(action: Action) -> dict[str, object]:
    fields = action["metaData"]
    format_ = {"provider": fields["format"]["provider"], "options": list(fields["format"]["options"].items())}
    return {**fields, "format": format_, "configuration": list(fields["configuration"].items())}


def _removes(state: State, expired: int) -> pa.ChunkedArray:
    """Tombstones that vacuum still has to respect."""
    table = state.tombstones
    table = table.filter(pc.greater(pc.fill_null(table["deletionTimestamp"], 0), expired))
    chunks = []
    for batch in table.to_batches(max_chunksize=_BATCH):
        columns = {
            "path": batch["path"],
            "deletionTimestamp": batch["deletionTimestamp"],
            "dataChange": pc.fill_null(batch["dataChange"], True),
            "extendedFileMetadata": batch["extendedFileMetadata"],
            "partitionValues": to_map(batch["partition"]),
            "size": batch["size"],
            "deletionVector": batch["deletionVector"],
            "baseRowId": batch["baseRowId"],
            "defaultRowCommitVersion": batch["defaultRowCommitVersion"],
        }
        chunks.append(pa.StructArray.from_arrays(list(columns.values()), names=list(columns)))
    type_ = pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            ("partitionValues", TEXT_MAP),
            ("size", pa.int64()),
            ("deletionVector", VECTOR),
            ("baseRowId", pa.int64()),
            ("defaultRowCommitVersion", pa.int64()),
        ]
    )
    return pa.chunked_array([chunk.cast(type_) for chunk in chunks], type_)


def _add(batch: pa.RecordBatch, metadata: Metadata) -> pa.StructArray:
    columns = {
        "path": batch["path"],
        "partitionValues": to_map(batch["partition"]),
        "size": batch["size"],
        "modificationTime": batch["modificationTime"],
        # A checkpoint is no change.
        "dataChange": pa.repeat(pa.scalar(False), batch.num_rows),
        "tags": batch["tags"],
        "deletionVector": batch["deletionVector"],
        "baseRowId": batch["baseRowId"],
        "defaultRowCommitVersion": batch["defaultRowCommitVersion"],
        "clusteringProvider": batch["clusteringProvider"],
    }
    as_text, as_struct = (
        metadata.configuration.get(f"delta.checkpoint.writeStatsAs{form}", "true").lower() != "false" for form in ("Json", "Struct")
    )
    struct, unreadable = _struct_statistics(batch, metadata) if as_struct else (None, read_statistics(batch, []).unreadable)
    if as_text:
        columns["stats"] = _json_statistics(batch, unreadable)
    if struct is not None:
        columns["stats_parsed"] = struct
        if metadata.partition_columns:
            columns["partitionValues_parsed"] = _struct_partition(batch["partition"], metadata)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _json_statistics(batch: pa.RecordBatch, unreadable: pa.Array | None) -> pa.Array:
    """The statistics as text, also of files that an earlier checkpoint gave as structs alone. Those that cannot be read are left out."""
    stats = batch["stats"] if unreadable is None else pc.if_else(unreadable, pa.scalar(None, pa.string()), batch["stats"])
    if "parsed" not in batch.schema.names:
        return stats
    missing = pc.or_(pc.is_null(stats), pc.fill_null(pc.equal(stats, ""), False))
    missing = pc.and_(missing, pc.is_valid(batch["parsed"]))
    texts = [parsed_text(parsed) for parsed in batch["parsed"].filter(missing).to_pylist()]
    return pc.replace_with_mask(stats, missing, pa.array(texts, pa.string()))


def _struct_statistics(batch: pa.RecordBatch, metadata: Metadata) -> tuple[pa.StructArray, pa.Array | None]:
    """The statistics in typed fields, and which texts are none if any are not."""
    stored = metadata.stored_schema
    leaves = stored_indexed_leaves(metadata.schema, stored, metadata.partition_columns, metadata.configuration)
    fields = [field for field in stored if any(leaf[0] == field.name for leaf in leaves)]
    bounds = bounds_type(fields)
    types = {"numRecords": pa.int64(), "tightBounds": pa.bool_(), "minValues": bounds, "maxValues": bounds, "nullCount": nulls_type(fields)}
    kept = pa.struct([(name, type_) for name, type_ in types.items() if not pa.types.is_struct(type_) or type_.num_fields])
    if "parsed" in batch.schema.names and (before := _as_before(batch["parsed"], kept)) is not None:
        return before, None
    found = read_statistics(batch, fields, as_written=True)
    columns = {
        "numRecords": found.records,
        "tightBounds": found.tight,
        "minValues": found.lower,
        "maxValues": found.upper,
        "nullCount": found.nulls,
    }
    return pa.StructArray.from_arrays([columns[field.name] for field in kept], fields=list(kept)), found.unreadable


def _as_before(parsed: pa.StructArray, wanted: pa.StructType) -> pa.StructArray | None:
    """Statistics as an earlier checkpoint had them, None where a file has none or a column has become another one."""
    there = {field.name: field.type for field in parsed.type}
    if parsed.null_count or any(there.get(field.name) != field.type for field in wanted if field.name != "tightBounds"):
        return None
    children = [
        pc.struct_field(parsed, [field.name]) if there.get(field.name) == field.type else pa.nulls(len(parsed), field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted))


def _struct_partition(texts: pa.StructArray, metadata: Metadata) -> pa.StructArray:
    fields = metadata.stored_schema.select(metadata.stored_partition_columns).fields
    columns = []
    for field in fields:
        text = pc.struct_field(texts, [field.name])
        columns.append(from_text(pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), field.type))
    return pa.StructArray.from_arrays(columns, fields=[pa.field(field.name, arrow_type(field.type)) for field in fields])
