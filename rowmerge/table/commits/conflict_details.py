"""How the error of a conflict names the files and rows that it is about, in every format."""

from __future__ import annotations

from collections.abc import Collection

from rowmerge.table.snapshots.files import Positions


def named_files(paths: Collection[str]) -> str:
    """The first of these files, and how many more there are."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{min(paths)}{more}"


def named_rows(rows: Positions, path: str) -> str:
    """The first of these rows of a file, and how many more there are."""
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"row {rows.min()}{more} of {path}"
