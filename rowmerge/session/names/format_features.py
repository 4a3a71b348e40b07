"""Features that not every table format has: the feature of a table, or the error that names what to do instead."""

from __future__ import annotations

from rowmerge.commands.names import TableName
from rowmerge.errors import ChangesNotRecorded, PlanError
from rowmerge.table.snapshots.change_feed import ChangeFeed
from rowmerge.table.table import Branches, Table


def branch_of(table: Table, branch: str) -> Table:
    """Return a table on one of its branches. Raises VersionNotFound, PlanError for a tag and for a table without branches."""
    if table.branches is None:
        problem = f"{table.name} is no Iceberg table: it has no branch {branch}."
        raise PlanError(f"{problem} Name the table alone, or make an Iceberg table of it.")
    return table.branches.table(branch)


def branches_of(table: Table, name: str | TableName) -> Branches:
    """Return the branches and tags of a table that a statement calls `name`. Raises PlanError for a table without branches."""
    if table.branches is None:
        raise PlanError(f"{name} is no Iceberg table: it has no branches and tags. Write VERSION AS OF and a number.")
    return table.branches


def change_feed_of(table: Table) -> ChangeFeed:
    """Return the change feed of a table. Raises ChangesNotRecorded for a table without one."""
    if table.change_feed is None:
        advice = "Iceberg tables keep no change rows. Compare two snapshots in a query: VERSION AS OF."
        raise ChangesNotRecorded(table.name, 0, advice)
    return table.change_feed
