"""Texts for the files and rows of a conflict in its error, the same for every format."""

from __future__ import annotations

from collections.abc import Collection

from rowmerge.table.snapshots.files import Positions


def named_files(paths: Collection[str]) -> str:
    """Return the first of the files, and the number of the others."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{min(paths)}{more}"


def named_rows(rows: Positions, path: str) -> str:
    """Return the first of the rows of a file, and the number of the others."""
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"row {rows.min()}{more} of {path}"
