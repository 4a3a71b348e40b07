"""The golden Iceberg tables: their names, their expected rows, and a copy of each in another folder.

Iceberg's metadata contain absolute paths: in metadata files, manifest lists and manifests, in position-delete files and in the footers of
Puffin files. A copy has new paths in all of them. Its data files are byte-identical.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.readers import newest_metadata

FOLDER = Path(__file__).parent / "tables"
NAMES = sorted(file.stem for file in FOLDER.glob("*.json"))
MAGIC = b"PFA1"
"""At the beginning and the end of a puffin file, and before its footer (Iceberg spec, Puffin)."""


def expected(name: str) -> dict[str, Any]:
    """Return what Iceberg on Spark read: `columns`, `rows` as `comparable` returns them, and `snapshots`, the rows of each by its id."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def comparable(rows: pa.Table) -> list[str]:
    """Return the rows as sorted JSON with columns by name, independent of a reader's types for timestamps, UUIDs and maps."""
    return sorted(json.dumps({name: _json_value(row[name]) for name in sorted(row)}, ensure_ascii=False) for row in rows.to_pylist())


def _json_value(value: Any) -> Any:
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"
        case datetime() | date() | time():
            return value.isoformat()
        case float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case bytes() if len(value) == 16:
            return str(UUID(bytes=value))  # how pyiceberg gives a uuid
        case bytes():
            return value.hex()
        case UUID():
            return str(value)
        case dict():
            return {name: _json_value(each) for name, each in value.items()}
        case list() if value and all(isinstance(entry, tuple) for entry in value):
            return sorted(([_json_value(key), _json_value(each)] for key, each in value), key=str)  # a map
        case list():
            return [_json_value(each) for each in value]
    return value


def copied(name: str, folder: Path) -> str:
    """Unpack a golden table into a folder, rewrite its paths, and return its newest metadata file."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        # Python 3.11.3 and older lack the filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    newest = newest_metadata(str(folder))
    relocate(folder, json.loads(_text(Path(newest)))["location"], str(folder))
    return newest


def relocate(folder: Path, old: str, new: str) -> None:
    """Replace the prefix `old` of every path in a table's metadata. The table's files are in `folder`."""

    def moved(value: str) -> str:
        for prefix in (old, f"file:{old}", f"file://{old}"):
            if value == prefix or value.startswith(f"{prefix}/"):
                return new + value[len(prefix) :]
        return value

    for file in folder.rglob("*-deletes.parquet"):
        _rewrite_parquet(file, moved)
    for file in folder.rglob("*.puffin"):
        _rewrite_puffin(file, moved)
    avro = list((folder / "metadata").glob("*.avro"))
    # A manifest list says how long manifests are, and a manifest how long delete files are.
    for file in (f for f in avro if not f.name.startswith("snap-")):
        _rewrite_avro(file, moved)
    for file in (f for f in avro if f.name.startswith("snap-")):
        _rewrite_avro(file, moved)
    for file in (folder / "metadata").glob("*.metadata.json"):
        text = json.dumps(_everywhere(json.loads(_text(file)), moved))
        file.write_bytes(gzip.compress(text.encode()) if ".gz." in file.name else text.encode())


def _text(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if ".gz." in file.name else data


def _everywhere(value: Any, moved: Callable[[str], str]) -> Any:
    match value:
        case str():
            return moved(value)
        case dict():
            return {key: _everywhere(each, moved) for key, each in value.items()}
        case list():
            return [_everywhere(each, moved) for each in value]
    return value


def _rewrite_avro(file: Path, moved: Callable[[str], str]) -> None:
    with file.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, metadata, codec = reader.writer_schema, dict(reader.metadata), reader.codec
        records = [_relocated(record, moved) for record in reader]
    user_metadata = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
    output = io.BytesIO()
    fastavro.writer(output, schema, records, codec=codec, metadata=user_metadata)
    file.write_bytes(output.getvalue())


def _relocated(record: Any, moved: Callable[[str], str]) -> Any:
    """Return an entry of a manifest list or manifest with new paths. Of partition values and bounds, only position deletes have paths."""
    if "manifest_path" in record:
        path = moved(record["manifest_path"])
        return {**record, "manifest_path": path, "manifest_length": Path(path.removeprefix("file://")).stat().st_size}
    data = {**record["data_file"], "file_path": moved(record["data_file"]["file_path"])}
    if data.get("referenced_data_file"):
        data["referenced_data_file"] = moved(data["referenced_data_file"])
    if data.get("content"):
        # A delete file that an earlier snapshot had may be gone.
        path = Path(data["file_path"].removeprefix("file://"))
        data["file_size_in_bytes"] = path.stat().st_size if path.is_file() else data["file_size_in_bytes"]
        for bounds in ("lower_bounds", "upper_bounds"):
            data[bounds] = [{**b, "value": _bound(b, moved)} for b in data[bounds]] if data[bounds] else data[bounds]
    return {**record, "data_file": data}


def _bound(bound: Any, moved: Callable[[str], str]) -> bytes:
    path_of_position_delete = 2147483546
    return moved(bound["value"].decode()).encode() if bound["key"] == path_of_position_delete else bound["value"]


def _rewrite_parquet(file: Path, moved: Callable[[str], str]) -> None:
    table = pq.read_table(file, partitioning=None)
    if "file_path" not in table.column_names:
        return  # equality deletes
    paths = pa.array([moved(path) for path in table["file_path"].to_pylist()], pa.string())
    table = table.set_column(0, table.schema.field("file_path"), paths)
    pq.write_table(table, file, compression="zstd", store_schema=False)


def _rewrite_puffin(file: Path, moved: Callable[[str], str]) -> None:
    """Rewrite the footer of a Puffin file; blobs keep their offsets (Iceberg spec, Puffin: Magic Payload PayloadSize Flags Magic)."""
    data = file.read_bytes()
    (size,) = struct.unpack("<i", data[-12:-8])
    start = len(data) - 12 - size
    assert data[start - 4 : start] == MAGIC and data[-4:] == MAGIC and data[-8] & 1 == 0, "a compressed footer is not known here"
    footer = json.dumps(_everywhere(json.loads(data[start : start + size]), moved)).encode()
    file.write_bytes(data[:start] + footer + struct.pack("<i", len(footer)) + data[-8:])
