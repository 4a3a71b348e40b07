"""What rows take along when they are written to another file: their ids, and the version that last changed them.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import rowmerge.

A format may derive the id of a row from its place in a file (Iceberg's row lineage). A row that moves keeps its id in a hidden column of
the new file. `TableShape.row_lineage` names the columns, and `Snapshot.row_origins` says what each file gives to its rows. An updated row
keeps its id alone, a moved row also the version of its last change, and a new row neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

ROW_ID, CHANGED_IN = "__rowmerge_row_id", "__rowmerge_changed_in"
"""What the two hidden columns are called among the table's."""


@dataclass(frozen=True)
class FilesLineage:
    """What files give to their rows: by path the id of the first one, None where rows have none, and the version of all of them."""

    origins: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def moved(self, paths: pa.Array, positions: pa.Array, held: tuple[pa.Array, pa.Array]) -> tuple[pa.Array, pa.Array]:
        """The ids of rows, and the versions that last changed them, by their paths and positions in files.

        `held`: what the files hold of both; null where a row still has what its file gave it.
        """
        encoded = pc.dictionary_encode(paths)
        known = [self.origins.get(path, (None, 0)) for path in encoded.dictionary.to_pylist()]
        first = pc.take(pa.array([first for first, _ in known], pa.int64()), encoded.indices)
        version = pc.take(pa.array([version for _, version in known], pa.int64()), encoded.indices)
        ids = pc.coalesce(held[0], pc.add(first, positions.cast(pa.int64())))
        return ids, pc.if_else(pc.is_valid(ids), pc.coalesce(held[1], version), pa.scalar(None, pa.int64()))


def with_lineage(rows: pa.Table, ids: pa.Array, versions: pa.Array) -> pa.Table:
    """Rows with both columns behind, or in their places where they have them."""
    for name, values in ((ROW_ID, ids), (CHANGED_IN, versions)):
        place = rows.schema.get_field_index(name)
        rows = rows.append_column(name, values) if place < 0 else rows.set_column(place, name, values)
    return rows
