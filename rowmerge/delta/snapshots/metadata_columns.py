"""The metadata columns of a Delta table: the struct `_metadata`, with the ids of rows if the table tracks rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import pyarrow as pa

from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.features import is_enabled
from rowmerge.delta.metadata.properties import ROW_TRACKING
from rowmerge.delta.metadata.row_tracking import ROW_TRACKING_COLUMNS
from rowmerge.delta.snapshots.file_listing import files_of
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.metadata_columns import FIRST_ROW_ID, MODIFIED, PATH, VERSION, MetadataColumns, metadata_struct

_ROW_IDS = ("row_id", "base_row_id", "default_row_commit_version", "row_commit_version")
_MILLISECONDS = pa.timestamp("ms", tz="UTC")


def metadata_columns(files: LiveFiles, location: str, protocol: Protocol, metadata: Metadata) -> MetadataColumns:
    """Return the metadata columns of a version.

    Args:
        files: The live files of the version.
        location: The absolute path of the folder of the table.
        protocol: The protocol of the version.
        metadata: The metadata of the version.
    """
    read_properties = partial(_read_properties, files, location)
    names = [metadata.configuration.get(name) for name in ROW_TRACKING_COLUMNS]
    row_id, changed_in = (None if name is None else Field(name, Primitive("long")) for name in names)
    if not is_enabled(protocol, metadata, ROW_TRACKING) or row_id is None or changed_in is None:
        return MetadataColumns(Struct((metadata_struct(()),)), frozenset({MODIFIED}), read_properties)
    properties = frozenset({MODIFIED, FIRST_ROW_ID, VERSION})
    return MetadataColumns(Struct((metadata_struct(_ROW_IDS),)), properties, read_properties, Lineage(row_id, changed_in))


def _read_properties(files: LiveFiles, location: str, paths: Sequence[str], names: Collection[str]) -> pa.Table:
    """Return properties of data files: see `MetadataColumns`."""
    selected = files_of(files, location, paths)
    columns = {
        MODIFIED: (selected.column("modificationTime").cast(_MILLISECONDS).cast(pa.timestamp("us", tz="UTC")), True),
        FIRST_ROW_ID: (selected.column("baseRowId"), False),
        VERSION: (selected.column("defaultRowCommitVersion"), False),
    }
    arrays = [absolute_paths(location, selected.column("path")), *(columns[name][0] for name in names)]
    fields = [(PATH, False), *((name, columns[name][1]) for name in names)]
    schema = pa.schema([pa.field(name, array.type, nullable) for array, (name, nullable) in zip(arrays, fields, strict=True)])
    return pa.Table.from_arrays(arrays, schema=schema)
