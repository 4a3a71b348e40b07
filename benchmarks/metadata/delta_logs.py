"""Synthetic Delta logs of many files and commits, with statistics of lineitem's 16 columns and without data files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS_OF_A_FILE = 100_000
KEYS_OF_A_FILE = 400_000
"""l_orderkey of file n lies in [n * KEYS_OF_A_FILE, (n + 1) * KEYS_OF_A_FILE)."""
COMMITS_AFTER = 5
"""The number of commits after the checkpoint. Each adds one file."""

COLUMNS = {
    "l_orderkey": "long",
    "l_partkey": "long",
    "l_suppkey": "long",
    "l_linenumber": "integer",
    "l_quantity": "decimal(12,2)",
    "l_extendedprice": "decimal(12,2)",
    "l_discount": "decimal(12,2)",
    "l_tax": "decimal(12,2)",
    "l_returnflag": "string",
    "l_linestatus": "string",
    "l_shipdate": "date",
    "l_commitdate": "date",
    "l_receiptdate": "date",
    "l_shipinstruct": "string",
    "l_shipmode": "string",
    "l_comment": "string",
}
_LOWER = (
    '"l_partkey":%d,"l_suppkey":1,"l_linenumber":1,"l_quantity":1.00,"l_extendedprice":%d.%02d,"l_discount":0.00,"l_tax":0.00,'
    '"l_returnflag":"A","l_linestatus":"F","l_shipdate":"1992-01-%02d","l_commitdate":"1992-01-31","l_receiptdate":"1992-01-03",'
    '"l_shipinstruct":"COLLECT COD","l_shipmode":"AIR","l_comment":" Tiresias %x about the blith"'
)
_UPPER = (
    '"l_partkey":%d,"l_suppkey":10000,"l_linenumber":7,"l_quantity":50.00,"l_extendedprice":%d.%02d,"l_discount":0.10,"l_tax":0.08,'
    '"l_returnflag":"R","l_linestatus":"O","l_shipdate":"1998-12-%02d","l_commitdate":"1998-10-31","l_receiptdate":"1998-12-31",'
    '"l_shipinstruct":"TAKE BACK RETURN","l_shipmode":"TRUCK","l_comment":"zzle? slyly %x final plate"'
)
_NULLS = ",".join(f'"{name}":0' for name in COLUMNS)
_TEXT_MAP = pa.map_(pa.string(), pa.string())
_BATCH = 100_000


def write_log(folder: Path, files: int, *, structs: bool) -> None:
    """Write the log of a table with this number of files: a checkpoint, and one commit for each of the last COMMITS_AFTER files.

    `structs`: whether the checkpoint also contains typed statistics, as Delta on Spark writes them by default.
    """
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    version = 10
    in_checkpoint = files - COMMITS_AFTER
    (log / f"{version:020d}.json").write_text(_lines({"commitInfo": {"operation": "WRITE", "timestamp": 1_750_000_000_000}}))
    _write_checkpoint(log, version, in_checkpoint, structs=structs)
    for extra in range(COMMITS_AFTER):
        (log / f"{version + 1 + extra:020d}.json").write_text(commit_of(in_checkpoint + extra))


def write_commits(folder: Path, commits: int, checkpoint: int | None) -> None:
    """Write the log of a table with this number of commits of one file each, with a checkpoint of one version or without one."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(_lines(_protocol(), _metadata()))
    for version in range(1, commits):
        (log / f"{version:020d}.json").write_text(commit_of(version - 1))
    if checkpoint is not None:
        _write_checkpoint(log, checkpoint, checkpoint, structs=False)


def file_name(number: int) -> str:
    return f"part-{number:08d}-0e3f7c2a-5b1d-4c55-9a53-{number:012x}-c000.snappy.parquet"


def statistics(number: int) -> str:
    """Return the JSON statistics of one file."""
    lower, upper = _bounds(number)
    return f'{{"numRecords":{ROWS_OF_A_FILE},"minValues":{lower},"maxValues":{upper},"nullCount":{{{_NULLS}}}}}'


def _bounds(number: int) -> tuple[str, str]:
    """Return the minima and maxima of one file. Some of the values occur in no other file."""
    mixed = number * 2_654_435_761 % 2**32
    varying = (mixed % 1000, 900 + mixed % 997, mixed % 100, 1 + mixed % 28, mixed)
    low, high = number * KEYS_OF_A_FILE, (number + 1) * KEYS_OF_A_FILE - 1
    return f'{{"l_orderkey":{low},{_LOWER % varying}}}', f'{{"l_orderkey":{high},{_UPPER % varying}}}'


def table_schema() -> str:
    """Return the `schemaString` of the tables."""
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in COLUMNS.items()]
    return json.dumps({"type": "struct", "fields": fields})


def _protocol() -> dict[str, object]:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata() -> dict[str, object]:
    return {
        "metaData": {
            "id": "6f0c1c52-7f4e-4f0e-9d55-0d2d3a3b7d11",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": table_schema(),
            "partitionColumns": [],
            "configuration": {"delta.checkpointInterval": "1000000"},
            "createdTime": 1_750_000_000_000,
        }
    }


def _lines(*actions: dict[str, object]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


def commit_of(number: int) -> str:
    """Return the text of a commit that adds one file."""
    add = {
        "path": file_name(number),
        "partitionValues": {},
        "size": 12_000_000 + number % 1000,
        "modificationTime": 1_750_000_000_000,
        "dataChange": True,
        "stats": statistics(number),
    }
    info = {"operation": "WRITE", "timestamp": 1_750_000_000_000, "operationParameters": {"mode": "Append"}}
    return _lines({"commitInfo": info}, {"add": add})


def _write_checkpoint(log: Path, version: int, files: int, *, structs: bool) -> None:
    schema, batches = None, _checkpoint_batches(files, structs=structs)
    path = log / f"{version:020d}.checkpoint.parquet"
    first = next(batches)
    schema = first.schema
    with pq.ParquetWriter(path, schema, compression="snappy", store_schema=False) as writer:
        for table in (first, *batches):
            writer.write_table(table)
    hint = {"version": version, "size": files + 2, "sizeInBytes": os.path.getsize(path), "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _checkpoint_batches(files: int, *, structs: bool) -> Iterator[pa.Table]:
    add_type = _adds(np.arange(1), structs=structs).type
    metadata = dict(_metadata()["metaData"])  # type: ignore[call-overload]
    metadata["format"] = {"provider": "parquet", "options": []}
    metadata["configuration"] = list(metadata["configuration"].items())
    protocol_type = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    metadata_type = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _TEXT_MAP),
            ("createdTime", pa.int64()),
        ]
    )
    schema = pa.schema([("protocol", protocol_type), ("metaData", metadata_type), ("add", add_type)])
    head = [{**_protocol(), "metaData": None, "add": None}, {"protocol": None, "metaData": metadata, "add": None}]
    yield pa.Table.from_pylist(head, schema=schema)
    for start in range(0, files, _BATCH):
        numbers = np.arange(start, min(start + _BATCH, files))
        null_columns = [pa.nulls(len(numbers), field.type) for field in list(schema)[:2]]
        yield pa.Table.from_arrays([*null_columns, _adds(numbers, structs=structs)], schema=schema)


def _adds(numbers: np.ndarray, *, structs: bool) -> pa.StructArray:
    count = len(numbers)
    texts = pa.array([file_name(number) for number in numbers.tolist()], pa.string())
    stats = pa.array([statistics(number) for number in numbers.tolist()], pa.string())
    columns = {
        "path": texts,
        "partitionValues": pa.MapArray.from_arrays(
            pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string()), pa.array([], pa.string())
        ),
        "size": pa.array(12_000_000 + numbers % 1000, pa.int64()),
        "modificationTime": pa.array(np.full(count, 1_750_000_000_000), pa.int64()),
        "dataChange": pa.array(np.zeros(count, bool)),
        "stats": stats,
    }
    if structs:
        columns["stats_parsed"] = _typed(numbers)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _typed(numbers: np.ndarray) -> pa.StructArray:
    """Return the statistics as `stats_parsed`."""
    fields = [(name, {"long": pa.int64(), "integer": pa.int32()}.get(type_, pa.string())) for name, type_ in COLUMNS.items()]
    sides = []
    for texts in zip(*(_bounds(number) for number in numbers.tolist()), strict=True):
        values = pa.array([json.loads(text, parse_float=str) for text in texts], pa.struct(fields))
        columns = [pc.struct_field(values, [name]).cast(_arrow_type(type_)) for name, type_ in COLUMNS.items()]
        sides.append(pa.StructArray.from_arrays(columns, names=list(COLUMNS)))
    nulls = pa.StructArray.from_arrays([pa.repeat(pa.scalar(0, pa.int64()), len(numbers)) for _ in COLUMNS], names=list(COLUMNS))
    records = pa.repeat(pa.scalar(ROWS_OF_A_FILE, pa.int64()), len(numbers))
    return pa.StructArray.from_arrays([records, *sides, nulls], names=["numRecords", "minValues", "maxValues", "nullCount"])


def _arrow_type(type_: str) -> pa.DataType:
    return {"long": pa.int64(), "integer": pa.int32(), "date": pa.date32(), "string": pa.string()}.get(type_, pa.decimal128(12, 2))
