"""Write, audit, publish: the settings `spark.wap.branch` and `spark.wap.id` redirect statements on tables with `write.wap.enabled`.

With the branch, statements write to it and read from it. With the id, each statement stages a snapshot, which no branch contains until it
is published. These are the rules of Iceberg on Spark (SparkWriteConf and SparkReadConf).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.session.names.resolver import Target
from rowmerge.spark.peer_settings import with_iceberg_settings
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAP_BRANCH, WAP_ID = "spark.wap.branch", "spark.wap.id"


@dataclass
class Audit:
    """Where one statement writes and reads audited tables: on a branch, or in a staged snapshot.

    `wap_branch`, `wap_id`: the branch and the id of the snapshot that the caller requires. If both are None, the settings of `spark` apply.
    They are read once, and only for Iceberg tables, because each setting of Spark Connect takes a call.
    """

    spark: SparkSession
    wap_branch: str | None = None
    wap_id: str | None = None

    def target(self, target: Target) -> Target:
        """Return the target of a statement that changes rows, with Iceberg's settings, on the branch or in the staged snapshot.

        Args:
            target: The table and the branch that the statement names.

        Raises:
            ConfigurationError: Both the branch and the id of the snapshot are set, or a setting has a value that it does not allow.
            PlanError: The statement names a branch, and the audit requires another branch. Or the audit names a tag.
        """
        target = replace(target, table=with_iceberg_settings(self.spark, target.table))
        branches = target.table.branches
        if branches is None or not self.redirects(target.table):
            return target
        branch, staged_id = self._branch_and_id
        if staged_id is not None:
            return replace(target, table=branches.staging_table(staged_id))
        assert branch is not None
        if target.branch is not None:
            problem = f"The statement writes to the branch {target.branch} of {target.name}, but {WAP_BRANCH} is {branch}."
            raise PlanError(f"{problem} Name the table without a branch, or unset the setting.")
        return replace(target, table=branches.table(branch, create=True), branch=branch)

    def new_table(self, table: Table, properties: Mapping[str, str]) -> Table:
        """Return a table that a statement creates, whose first rows go to the branch or into a staged snapshot if it is audited.

        Its main branch is then empty until the rows are published, as in Iceberg on Spark. A replacement of an existing table changes main:
        without it, readers of main would find no rows at all.

        Args:
            table: The table, which may exist.
            properties: The table properties in the statement.

        Raises:
            ConfigurationError: Both the branch and the id of the snapshot are set.
        """
        branches, is_audited = table.branches, properties.get("write.wap.enabled", "").strip().lower() == "true"
        if branches is None or not is_audited or self._branch_and_id == (None, None) or table.exists():
            return table
        branch, staged_id = self._branch_and_id
        return branches.table(branch, create=True) if branch is not None else branches.staging_table(str(staged_id))

    def source(self, table: Table) -> Table:
        """Return a table that a statement reads by its plain name, on the branch if it is audited. A missing branch has main's rows."""
        if table.branches is None or not self._applies_to(table):
            return table
        branch, _ = self._branch_and_id
        return table if branch is None else table.branches.table(branch, create=True)

    def redirects(self, table: Table) -> bool:
        """Return whether a statement that writes to the table writes to a branch or into a staged snapshot instead."""
        return table.branches is not None and self._applies_to(table)

    def _applies_to(self, table: Table) -> bool:
        return self._branch_and_id != (None, None) and table.snapshot().settings.is_audited

    @cached_property
    def _branch_and_id(self) -> tuple[str | None, str | None]:
        """The branch and the id of the staged snapshot. Empty texts count as None. Raises ConfigurationError if both are set."""
        values = self.wap_branch, self.wap_id
        if values == (None, None):
            values = self.spark.conf.get(WAP_BRANCH, None), self.spark.conf.get(WAP_ID, None)
        branch, staged_id = ((value or "").strip() or None for value in values)
        if branch and staged_id:
            raise ConfigurationError(f"{WAP_BRANCH} is {branch} and {WAP_ID} is {staged_id}. Set only one of them.")
        return branch, staged_id
