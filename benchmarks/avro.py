"""Measure decoding and encoding of a manifest with `rowmerge.iceberg.avro`, fastavro and pyiceberg.

    python -m benchmarks.avro [--entries 20000] [--runs 5]

The entries have the metrics of 16 columns. The three libraries run in turns in one process. The numbers are medians of CPU time with
their ratios to rowmerge's. fastavro and rowmerge decode to dicts, pyiceberg to its records. All write deflate; pyiceberg writes one
block per entry.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import fastavro
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest as write_pyiceberg_manifest,
)
from pyiceberg.table import StaticTable

from benchmarks.metadata.iceberg_logs import write_table
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.manifests.schemas import NAMES

Operation = Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.avro", description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-avro-") as folder:
        write_table(Path(folder), arguments.entries)
        table = StaticTable.from_metadata(f"{folder}/metadata/v1.metadata.json")
        print(f"{'CPU seconds, ratio of medians':<28}{'rowmerge':>10}{'fastavro':>18}{'pyiceberg':>18}")
        for name, operations in (("read", readers(table, arguments.entries)), ("write", writers(table))):
            ours, *others = medians(operations, arguments.runs)
            print(f"{name:<28}{ours:>10.2f}" + "".join(f"{seconds:>10.2f} {seconds / ours:>6.1f}x" for seconds in others), flush=True)


def readers(table: StaticTable, entries: int) -> list[Operation]:
    """Return the functions that read the table's manifest. Each of them was verified to read all entries."""
    data = manifest_bytes(table)
    operations: list[Operation] = [
        lambda: list(read_avro(data, "m.avro", NAMES).records),
        lambda: list(fastavro.reader(io.BytesIO(data))),
        lambda: read_pyiceberg_entries(table),
    ]
    assert all(len(read()) == entries for read in operations)
    return operations


def writers(table: StaticTable) -> list[Operation]:
    """Return the functions that write the table's manifest again."""
    data = manifest_bytes(table)
    file = read_avro(data, "m.avro", NAMES)
    records = list(file.records)
    metadata = {key: value for key, value in file.metadata.items() if not key.startswith("avro.")}
    parsed = fastavro.parse_schema(dict(file.schema))
    fastavro_records = list(fastavro.reader(io.BytesIO(data)))
    return [
        lambda: write_avro(file.schema, records, metadata),
        lambda: fastavro.writer(io.BytesIO(), parsed, fastavro_records, codec="deflate", metadata=metadata),
        partial(write_pyiceberg_entries, table, read_pyiceberg_entries(table)),
    ]


def manifest_bytes(table: StaticTable) -> bytes:
    return Path(manifest_path(table)).read_bytes()


def manifest_path(table: StaticTable) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    return manifest.manifest_path.removeprefix("file://")


def read_pyiceberg_entries(table: StaticTable) -> list[ManifestEntry]:
    with AvroFile[ManifestEntry](
        table.io.new_input(manifest_path(table)),
        MANIFEST_ENTRY_SCHEMAS[2],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return list(reader)


def write_pyiceberg_entries(table: StaticTable, entries: list[ManifestEntry]) -> None:
    output = table.io.new_output(f"{table.location()}/metadata/{time.time_ns()}.avro")
    with write_pyiceberg_manifest(2, table.spec(), table.schema(), output, 77, "deflate") as writer:
        for entry in entries:
            writer.add_entry(entry)


def medians(operations: list[Operation], runs: int) -> list[float]:
    """Return the median CPU seconds of each operation. The operations take turns."""
    seconds: list[list[float]] = [[] for _ in operations]
    for _ in range(runs):
        for operation, measured in zip(operations, seconds, strict=True):
            begun = time.process_time()
            operation()
            measured.append(time.process_time() - begun)
    return [median(measured) for measured in seconds]


if __name__ == "__main__":
    main()
