"""Two statements in a fixed order: the first one plans and writes, the second one runs and commits, and then the first one commits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

import rowmerge
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.answers.results import StatementResult
from rowmerge.storage.store import Put, Storage

_COMMIT = re.compile(r"_delta_log/\d{20}\.json|metadata/v\d+\.metadata\.json")


@dataclass
class Turns:
    """The actions of concurrent writers, one before each put of a commit."""

    waiting: list[Callable[[], object]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)

    def take(self) -> None:
        if self.waiting:
            self.results.append(self.waiting.pop(0)())


class TakingTurns(Storage):
    """A store on which concurrent writers act before a commit is put."""

    def __init__(self, location: str, options: Mapping[str, Any] | None = None, *, turns: Turns) -> None:
        super().__init__(location, options)
        self._turns = turns

    def child(self, path: str) -> TakingTurns:
        return TakingTurns(f"{self.location}/{path}", self.configuration, turns=self._turns)

    def at(self, location: str) -> TakingTurns:
        return TakingTurns(location, self.configuration, turns=self._turns)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if _COMMIT.fullmatch(path):
            self._turns.take()
        return super().put_if_absent(path, data)


def overtaken(
    spark: SparkSession,
    warehouse: str,
    statement: str,
    *winners: str,
    winners_key: str | None = None,
    commit_retries: int | None = None,
    together: Sequence[str] = (),
    **options: Any,
) -> tuple[StatementResult, list[StatementResult]]:
    """Run a statement. Before each of its puts, the next concurrent statement runs and commits in another session.

    `together` are statements that run one after another before the first put. Returns the result of the statement and the results of the
    concurrent statements that ran.
    """
    other = rowmerge.connect(warehouse, spark=spark)
    turns = Turns([lambda text=text: other.execute(text, idempotency_key=winners_key) for text in winners])  # type: ignore[misc]
    if together:
        turns.waiting.append(lambda: [other.execute(text) for text in together])
    catalog = DirectoryCatalog(TakingTurns(warehouse, turns=turns))
    session = rowmerge.Session(catalog, spark, "default", "delta", owns_spark=False, commit_retries=commit_retries)
    result = session.execute(statement, **options)
    assert not turns.waiting, f"{len(turns.waiting)} winners never had their turn"
    return result, turns.results
