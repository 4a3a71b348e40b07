"""Two statements in a known order: one is planned and written, then the other runs and commits, then the first one tries to commit."""

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
    """What others do, one after the other, each time before a commit is put."""

    waiting: list[Callable[[], object]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)

    def take(self) -> None:
        if self.waiting:
            self.results.append(self.waiting.pop(0)())


class TakingTurns(Storage):
    """A store on which others come first when a commit is about to be put."""

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
    """Run a statement; before each of its puts the next of the winners runs and commits, in a session of its own.

    `together`: statements that run one after another before its first put.
    The statement's result, and those of the winners that had their turn.
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
