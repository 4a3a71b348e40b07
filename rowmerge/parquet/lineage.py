"""Keep the ids of rows, and the versions that last changed them, when rows are written to another file.

A format may derive the id of a row from its place in a file (Iceberg's row lineage). A row that moves keeps its id in a hidden column of
the new file. `TableShape.row_lineage` names the columns, and `Snapshot.row_origins` says what each file gives to its rows. An updated row
keeps its id alone, a moved row also the version of its last change, and a new row neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

ROW_ID, CHANGED_IN = "__rowmerge_row_id", "__rowmerge_changed_in"
"""The names of the two hidden columns among the table's columns."""


@dataclass(frozen=True)
class FilesLineage:
    """By path, the id of a file's first row, None if its rows have no ids, and the version of all its rows."""

    origins: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def ids_and_versions(self, paths: pa.Array, positions: pa.Array, stored: tuple[pa.Array, pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Return the ids of rows, and the versions that last changed them, by their paths and positions in files.

        `stored`: the hidden columns of the rows. A NULL stands for the value that follows from the file.
        """
        stored_ids, stored_versions = stored
        encoded = pc.dictionary_encode(paths)
        origins = [self.origins.get(path, (None, 0)) for path in encoded.dictionary.to_pylist()]
        first_ids = pc.take(pa.array([first_id for first_id, _ in origins], pa.int64()), encoded.indices)
        file_versions = pc.take(pa.array([version for _, version in origins], pa.int64()), encoded.indices)
        ids = pc.coalesce(stored_ids, pc.add(first_ids, positions.cast(pa.int64())))
        versions = pc.coalesce(stored_versions, file_versions)
        return ids, pc.if_else(pc.is_valid(ids), versions, pa.scalar(None, pa.int64()))


def with_lineage(rows: pa.Table, ids: pa.Array, versions: pa.Array) -> pa.Table:
    """Set both hidden columns, which are appended to rows without them."""
    for name, values in ((ROW_ID, ids), (CHANGED_IN, versions)):
        index = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if index < 0 else rows.set_column(index, name, values)
    return rows
