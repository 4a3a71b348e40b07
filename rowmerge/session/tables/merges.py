"""The builder of a MERGE statement in the Python API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowmerge.errors import PlanError
from rowmerge.session.answers.results import StatementResult
from rowmerge.session.session import Session
from rowmerge.session.statements.settings import IdempotencyKey
from rowmerge.session.tables.expressions import Expression, assignments, condition_text, expression_text, set_list
from rowmerge.session.tables.sources import source_relation
from rowmerge.table.metadata.schema import backquote

if TYPE_CHECKING:
    from rowmerge.session.tables.sources import Source


@dataclass(frozen=True)
class TableMerge:
    """A MERGE that `Table.merge` begins, and that `execute` runs. Each method returns a new builder with one more clause.

    Conditions and values are SQL texts, which name columns of both sides by the aliases. Among the clauses of one kind, the first one whose
    condition is true applies to a row.
    """

    _session: Session
    _target: str
    _source: Source
    _on: str
    _source_alias: str
    _target_alias: str
    _clauses: tuple[str, ...] = ()
    _schema_evolution: bool = False

    def when_matched_update(self, set: Mapping[str, Expression], condition: str | None = None) -> TableMerge:
        """Update columns of target rows that match a source row.

        Args:
            set: The new value of each column: SQL text, or a Python value other than a string.
            condition: A condition on both sides, or None for all matches.
        """
        return self._with("MATCHED", condition, f"UPDATE {set_list(set)}")

    def when_matched_update_all(self, condition: str | None = None) -> TableMerge:
        """Update all columns of matched target rows from the source columns of the same names. `condition`: as in `when_matched_update`."""
        return self._with("MATCHED", condition, "UPDATE SET *")

    def when_matched_delete(self, condition: str | None = None) -> TableMerge:
        """Delete target rows that match a source row. `condition`: as in `when_matched_update`."""
        return self._with("MATCHED", condition, "DELETE")

    def when_not_matched_insert(self, values: Mapping[str, Expression], condition: str | None = None) -> TableMerge:
        """Insert source rows that match no target row.

        Args:
            values: The value of each column of the target: SQL text, or a Python value other than a string.
            condition: A condition on the source, or None for all such rows.
        """
        columns = assignments(values)
        return self._with("NOT MATCHED", condition, f"INSERT ({', '.join(columns)}) VALUES ({', '.join(columns.values())})")

    def when_not_matched_insert_all(self, condition: str | None = None) -> TableMerge:
        """Insert source rows that match no target row, by the names of columns. `condition`: as in `when_not_matched_insert`."""
        return self._with("NOT MATCHED", condition, "INSERT *")

    def when_not_matched_by_source_update(self, set: Mapping[str, Expression], condition: str | None = None) -> TableMerge:
        """Update columns of target rows that match no source row.

        Args:
            set: The new value of each column: SQL text on the target, or a Python value other than a string.
            condition: A condition on the target, or None for all such rows.
        """
        return self._with("NOT MATCHED BY SOURCE", condition, f"UPDATE {set_list(set)}")

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> TableMerge:
        """Delete target rows that match no source row. `condition`: as in `when_not_matched_by_source_update`."""
        return self._with("NOT MATCHED BY SOURCE", condition, "DELETE")

    def with_schema_evolution(self) -> TableMerge:
        """Add source columns that the target lacks to the target."""
        return replace(self, _schema_evolution=True)

    def execute(
        self, *, idempotency_key: IdempotencyKey | None = None, wap_branch: str | None = None, wap_id: str | None = None
    ) -> StatementResult:
        """Run the MERGE in one commit. Return the counts of changed rows and files.

        Args:
            idempotency_key: See `Session.execute`.
            wap_branch: See `Session.execute`.
            wap_id: See `Session.execute`.

        Raises:
            PlanError: The MERGE has no clause, or does not fit the tables.
            MultipleSourceRowsMatch: Several source rows change the same target row.
            RowmergeError: The base class of all errors.
        """
        if not self._clauses:
            raise PlanError(f"The MERGE into {self._target} has no clause. Call a method such as when_matched_update_all before execute.")
        evolution = "WITH SCHEMA EVOLUTION " if self._schema_evolution else ""
        target = f"MERGE {evolution}INTO {self._target} AS {backquote(self._target_alias)}"
        with source_relation(self._session.spark, self._source) as relation:
            source = f"USING {relation} AS {backquote(self._source_alias)} ON {expression_text(self._on)}"
            text = "\n".join((target, source, *self._clauses))
            return self._session.execute(text, idempotency_key=idempotency_key, wap_branch=wap_branch, wap_id=wap_id)

    def _with(self, match: str, condition: str | None, action: str) -> TableMerge:
        clause = f"WHEN {match}{condition_text('AND', condition)} THEN {action}"
        return replace(self, _clauses=(*self._clauses, clause))
