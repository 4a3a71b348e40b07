"""Report that the bounds of some files are not values of their column's type, so that conditions do not exclude these files."""

from __future__ import annotations

import logging
from collections.abc import Collection

logger = logging.getLogger(__name__)
_reported_locations: set[str] = set()


def report_ignored_bounds(location: str, columns: Collection[str]) -> None:
    """Log one warning for each table that has invalid bounds.

    Args:
        location: The absolute path of the table.
        columns: The columns with invalid bounds; empty if all bounds are valid.
    """
    if columns and location not in _reported_locations:
        _reported_locations.add(location)
        logger.warning("Bounds of %s in the metadata of %s have the wrong type or length and are ignored.", ", ".join(columns), location)
