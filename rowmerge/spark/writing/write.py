"""Running the sink: outcome rows in, written files and deleted positions out.

If a table has a change data feed, the outcome rows also hold the target row before the change. The same task writes data files and
`_change_data`, without a second read or a join. A version with change rows must hold all of them, so inserted rows are written twice then.
Copied rows are never written as change rows. Appends and removals of whole files need none, because readers derive changes from files.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.errors.tables import unreadable_data_file
from rowmerge.parquet.data_files import HeldColumns, WriteSpec
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID, FilesLineage
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.parquet.reading import UnreadableFile
from rowmerge.parquet.rewriting import write_live_rows
from rowmerge.spark.reading.scan import lineage_columns, read_snapshot, spark_path
from rowmerge.spark.types import frame_of
from rowmerge.spark.values.outcomes import moved_rows, outcome_columns
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather, Parts, distributed
from rowmerge.spark.writing.executors import shipped
from rowmerge.spark.writing.few_rows import FEW_ROWS, sink_here
from rowmerge.spark.writing.leftovers import discard_attempt
from rowmerge.spark.writing.written import Written, added_file, discard, discard_paths, written_of
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.partitioning import BUCKET, VOID, Distribution, PartitionField
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, NESTED_IDS, UUID, Field, Struct, arrow_schema, arrow_type, bare, held_types, sql_name
from rowmerge.table.metadata.shape import Lineage, TableShape
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE
from rowmerge.table.snapshots.files import FileListing, Positions, RowOrigin
from rowmerge.table.snapshots.snapshot import Snapshot

_LEAST_ROW_GROUP = 1024 * 1024
"""In bytes of Arrow data: a smaller one tells a reader little for its place in the footer."""
REWRITTEN_HERE = 8 * 1024 * 1024


def write_spec(table: TableShape) -> WriteSpec:
    """How this table's data files are written. Bounds are kept of the first 32 columns, as Delta does by default."""
    outside = () if table.partition_values_in_files else tuple(field.column[0] for field in table.partitioning)
    pairs = [pair for pair in zip(table.schema, table.stored_schema, strict=True) if pair[0].name not in outside]
    columns = _optional(Struct(tuple(field for field, _ in pairs)))
    parquet = table.settings.parquet
    target = table.settings.target_file_size or WriteSpec.target_file_size
    return WriteSpec(
        root=table.data_location,
        names=table.schema.names,
        schema=columns,
        stored=_optional(Struct(tuple(held for _, held in pairs))),
        by_field_id=table.by_field_id,
        partition=tuple(_partition_key(table, field) for field in table.partitioning),
        values_in_files=table.partition_values_in_files,
        ordered=bool(table.ordering),
        bounds=frozenset(columns.names),
        target_file_size=target,
        row_group_size=parquet.row_group_size or min(WriteSpec.row_group_size, max(target, _LEAST_ROW_GROUP)),
        compression=parquet.codec or WriteSpec.compression,
        compression_level=parquet.level,
        filesystem_options=table.filesystem_options,
    )


def _partition_key(table: TableShape, field: PartitionField) -> PartitionKey:
    if field.transform.name == VOID:
        return PartitionKey(field.name, field.name, (), pa.null(), str(field.transform))
    source = table.schema.at(field.column, case_sensitive=True)
    assert source is not None
    in_files = held_types(table.schema).at(field.column, case_sensitive=True)
    # A UUID's bucket is that of its bytes.
    of_uuids = field.transform.name == BUCKET and in_files is not None and in_files.type == UUID
    type_ = pa.binary(UUID.length) if of_uuids else arrow_type(source.type)
    stored_names = dict(zip(table.schema.names, table.stored_schema.names, strict=True))
    folder = field.name if table.partition_values_in_files else stored_names[field.name]
    return PartitionKey(field.name, folder, field.column, type_, str(field.transform))


def _optional(schema: Struct) -> pa.Schema:
    """A column that is NOT NULL in the table is written as optional, as Spark does: later rules may relax it."""
    return arrow_schema(bare(schema, kept=(FIELD_ID, NESTED_IDS)))


def change_rows_spec(spec: WriteSpec, location: str) -> WriteSpec:
    """How the change rows of a table are written (PROTOCOL.md, Change Data Files): as its data, with the type of the change behind."""
    kind = pa.field(CHANGE_TYPE, pa.string())
    columns = {"names": (*spec.names, CHANGE_TYPE), "schema": spec.schema.append(kind), "stored": spec.stored.append(kind)}
    return replace(spec, root=location, bounds=frozenset(), prefix="cdc", **columns)


def _taking_along(spec: WriteSpec, columns: Lineage, origins: Mapping[str, RowOrigin]) -> WriteSpec:
    """With the hidden columns of what rows take along from files; `origins` are by path as the tasks know it."""
    fields = ((ROW_ID, columns.row_id), (CHANGED_IN, columns.changed_in))
    named, stored = (_optional(Struct(tuple(part))) for part in ((Field(n, f.type) for n, f in fields), (f for _, f in fields)))
    schema, held = pa.schema([*spec.schema, *named]), pa.schema([*spec.stored, *stored])
    return replace(
        spec,
        schema=schema,
        stored=held,
        lineage=FilesLineage({path: (origin.first_row_id, origin.version) for path, origin in origins.items()}),
    )


def write_outcomes(
    outcomes: DataFrame,
    table: TableShape,
    *,
    gather: Gather,
    changes_to: str | None = None,
    may_repeat: bool = False,
    distribution: Distribution | None = None,
    origins: tuple[Lineage, Mapping[str, RowOrigin]] | None = None,
    may_be_few: bool = False,
) -> Written:
    """Run the job. `gather`, `distribution`: how rows come together before they are written; see `distributed`.

    `origins`: the hidden columns, and what the files of target rows give to them by what FILE says, where rows are to take that along.
    `changes_to`: the folder that the same job writes change rows to. `may_repeat`: one target row may stand in several outcome rows, of
    which the first makes a change row. `may_be_few`: up to FEW_ROWS rows come to the driver, which writes them itself; when there are more,
    the job is run again. When it fails, the files of its finished tasks are deleted.
    """
    spec = replace(write_spec(table), attempt=str(uuid.uuid4()))
    changes = None if changes_to is None else change_rows_spec(spec, changes_to)
    if origins is not None:
        spec = _taking_along(spec, *origins)
    columns = outcome_columns(outcomes, len(table.schema))
    written = columns.after or columns.before
    if may_be_few:
        some = (outcomes.coalesce(1) if gather is Gather.ONE_TASK else outcomes).limit(FEW_ROWS + 1)
        rows = (distributed(some, table, written, gather=Gather.DRIVER) if written else some).toArrow()
        if rows.num_rows <= FEW_ROWS:
            return sink_here(rows, spec, columns, changes)
    if changes_to is not None and may_repeat and gather is not Gather.ONE_TASK:
        # The rows of one target row must meet in one task; new rows may go anywhere.
        elsewhere = F.when(F.col(FILE).isNull(), F.monotonically_increasing_id())
        outcomes = outcomes.repartition(F.col(FILE), F.col(POSITION), elsewhere)
    elif written:
        outcomes = distributed(outcomes, table, written, gather=gather, distribution=distribution)
    if gather is Gather.DRIVER:
        return sink_here(outcomes.toArrow(), spec, columns, changes)
    return _run(outcomes, spec, columns, changes)


def _run(outcomes: DataFrame, spec: WriteSpec, columns: OutcomeColumns, changes: WriteSpec | None) -> Written:
    try:
        messages = outcomes.mapInArrow(shipped(sink.outcome_sink, spec, columns, changes), "message binary").toArrow()
    except BaseException:
        discard_attempt(spec, changes)
        raise
    return _together(messages)


def rewrite_in_order(spark: SparkSession, snapshot: Snapshot, files: FileListing, parts: Parts, *, target_size: int) -> Written:
    """Write files again without their deleted rows, all of them in the table's order."""
    spec = replace(write_spec(snapshot.shape), attempt=str(uuid.uuid4()), target_file_size=target_size)
    hidden = snapshot.shape.row_lineage
    if hidden is not None:
        origins = snapshot.row_origins(files.paths)
        spec = _taking_along(spec, hidden, {spark_path(path): origin for path, origin in origins.items()})
    rows = read_snapshot(spark, snapshot, files, addresses=hidden is not None, lineage=True)
    outcomes = moved_rows(rows, snapshot.schema.names)
    columns = outcome_columns(outcomes, len(snapshot.schema))
    outcomes = distributed(outcomes, snapshot.shape, columns.after, gather=Gather.NOT, parts=parts)
    return _run(outcomes, spec, columns, None)


@dataclass(frozen=True)
class Rewrite:
    """Files of one partition that are written again together: all their deleted positions by path; `size`: their bytes."""

    deleted: Mapping[str, Positions]
    partition: Mapping[str, object]
    size: int


def rewrite_files(spark: SparkSession, snapshot: Snapshot, rewrites: Sequence[Rewrite], *, target_size: int | None = None) -> Written:
    """Write files again without their deleted rows: read, drop, write, no join. `target_size`: bytes of a file.

    Few bytes are rewritten here, without the latency of a Spark job.
    """
    spec = write_spec(snapshot.shape)
    paths = [path for rewrite in rewrites for path in rewrite.deleted]
    if snapshot.shape.row_lineage is not None:
        spec = _taking_along(spec, snapshot.shape.row_lineage, snapshot.row_origins(paths))
    spec = replace(spec, ordered=False, others=_others(snapshot, spec, paths), initial=_initial_values(spark, snapshot.shape))
    if target_size is not None:
        spec = replace(spec, target_file_size=target_size)
    return run_rewrites(spark, snapshot.name, spec, rewrites)


def run_rewrites(spark: SparkSession, table: str, spec: WriteSpec, rewrites: Sequence[Rewrite]) -> Written:
    """Write files again that hold the columns as `spec` says, of a table that is called `table`."""
    if sum(rewrite.size for rewrite in rewrites) <= REWRITTEN_HERE:
        return _rewrite_here(spec, table, rewrites)
    jobs = pa.table(
        {
            "paths": pa.array([list(rewrite.deleted) for rewrite in rewrites], pa.list_(pa.string())),
            "positions": pa.array([[p.serialize() for p in rewrite.deleted.values()] for rewrite in rewrites], pa.list_(pa.binary())),
            "partition": pa.array([pickle.dumps(dict(rewrite.partition)) for rewrite in rewrites], pa.binary()),
        }
    )
    frame = frame_of(spark, jobs).repartition(len(rewrites))
    return _together(frame.mapInArrow(shipped(sink.rewrite_sink, spec), "message binary").toArrow())


def _initial_values(spark: SparkSession, table: TableShape) -> dict[str, pa.Array]:
    """What columns hold in rows of files that do not have them, as arrays of one value."""
    if not table.supports_initial_defaults:
        return {}
    pairs = zip(table.schema, table.stored_schema, strict=True)
    texts = {field.name: (field.type, held.metadata[INITIAL]) for field, held in pairs if INITIAL in held.metadata}
    if not texts:
        return {}
    values = spark.sql("select " + ", ".join(f"cast({text} as {sql_name(type_)})" for type_, text in texts.values())).toArrow()
    typed = zip(texts.items(), values.columns, strict=True)
    return {name: column.combine_chunks().cast(arrow_type(type_)) for (name, (type_, _)), column in typed}


def _others(snapshot: Snapshot, spec: WriteSpec, paths: Sequence[str]) -> dict[str, HeldColumns]:
    """Those of these files that do not hold the columns as new files do."""
    found: dict[str, HeldColumns] = {}
    for layout in snapshot.layouts(paths):
        if layout.by_field_id != spec.by_field_id:
            stored = [h for field, h in zip(snapshot.schema, layout.stored, strict=True) if field.name in spec.schema.names]
            held = Struct((*stored, *(hidden for _, hidden in lineage_columns(snapshot.shape.row_lineage, layout))))
            found |= dict.fromkeys(layout.paths, HeldColumns(_optional(held), layout.by_field_id, layout.outside))
    return found


def _rewrite_here(spec: WriteSpec, table: str, rewrites: Sequence[Rewrite]) -> Written:
    written = Written()
    try:
        for rewrite in rewrites:
            files = write_live_rows(spec, dict(rewrite.deleted), dict(rewrite.partition), discard_paths)
            written.files += [added_file(vars(file)) for file in files]
    except UnreadableFile as error:
        discard(written.files, spec.filesystem_options)
        raise unreadable_data_file(table, error.path, error.reason) from error
    except BaseException:
        discard(written.files, spec.filesystem_options)
        raise
    return written


def _together(messages: pa.Table) -> Written:
    total = Written()
    for payload in messages["message"].to_pylist():
        total.add(written_of(pickle.loads(payload)))
    return total
