"""Workers that change one table with random statements, and a model of the table, on which the log is replayed.

The worker's number and its turn determine the statement, and its idempotency key contains both, so the log records the order.
`python -m tests.engine.stress WAREHOUSE WORKER TURNS LEVEL [CATALOG]` runs one worker and prints its counts.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rowmerge
from rowmerge.delta.log.log_files import LOG
from rowmerge.iceberg.metadata.properties import APPLICATION, APPLICATION_VERSION

KEYS = 200
MODULUS = 1000
"""Values stay below it, and keys that are appended begin there."""


@dataclass(frozen=True)
class Statement:
    """One turn of a worker: `text` is its SQL, and `apply` changes the model."""

    kind: str
    text: str
    keys: tuple[int, ...]
    value: int

    def apply(self, rows: dict[int, int]) -> None:
        """Change the model, a map from `id` to `n`, as the SQL text changes the table."""
        if self.kind == "append":
            rows[self.keys[0]] = self.value
        elif self.kind == "delete":
            for key in self.keys:
                rows.pop(key, None)
        elif self.kind == "merge":
            for key in self.keys:
                if key in rows and rows[key] % 4 == 3:
                    del rows[key]
                elif key in rows:
                    rows[key] = (rows[key] + self.value) % MODULUS
                elif key % 3:
                    rows[key] = self.value
        else:
            low, high, least_digit = self.keys
            for key in rows:
                if low <= key <= high and key % 10 >= least_digit:
                    rows[key] = (rows[key] * 3 + self.value) % MODULUS


def statement(worker: int, turn: int, level: str) -> Statement:
    """Return the statement of a turn. Under WriteSerializable no statement changes appended rows: blind appends can be serialized later."""
    random_ = random.Random(f"{worker} {turn}")
    value = random_.randrange(MODULUS)
    kind = random_.choices(["merge", "update", "delete", "append"], [8, 5, 3, 4])[0]
    if kind == "append":
        key = MODULUS * (worker + 1) + turn
        return Statement(kind, f"insert into t values ({key}, {value})", (key,), value)
    if kind == "delete":
        keys = tuple(random_.sample(range(KEYS), 2))
        return Statement(kind, f"delete from t where id in {keys}", keys, value)
    if kind == "merge":
        keys = tuple(random_.sample(range(KEYS), 6))
        source = ", ".join(f"({key}, {value})" for key in keys)
        text = f"""merge into t using (values {source}) s (id, n) on t.id = s.id
            when matched and t.n % 4 = 3 then delete
            when matched then update set n = (t.n + s.n) % {MODULUS}
            when not matched and s.id % 3 <> 0 then insert *"""
        return Statement(kind, text, keys, value)
    low = random_.randrange(KEYS)
    high = MODULUS * 100 if level == "Serializable" and random_.random() < 0.2 else min(low + 6, KEYS)
    bounds = (low, high, random_.randrange(10))
    where = f"id between {low} and {high} and id % 10 >= {bounds[2]}"
    return Statement(kind, f"update t set n = (n * 3 + {value}) % {MODULUS} where {where}", bounds, value)


def work(session: rowmerge.Session, worker: int, turns: int, level: str) -> Counter[str]:
    """Run all turns of a worker, and return the numbers of statements, of attempts after lost races, and of rebases."""
    figures: Counter[str] = Counter()
    for turn in range(turns):
        result = session.execute(statement(worker, turn, level).text, idempotency_key=(f"worker {worker}", turn))
        assert not result.replayed
        figures.update(statements=1, retries=result.attempts - 1, rebases=result.rebases)
    return figures


def turns_in_log(folder: Path, metadata: Path | None = None) -> Iterator[tuple[int, int]]:
    """Return (worker, turn) of every commit with an idempotency key, in the order of the log or the snapshots."""
    for application, turn in _transactions(folder, metadata):
        yield int(application.removeprefix("worker ")), turn


def _transactions(folder: Path, metadata: Path | None) -> Iterator[tuple[str, int]]:
    if (folder / LOG).is_dir():
        for path in sorted((folder / LOG).glob("*.json")):
            for line in path.read_text().splitlines():
                if transaction := json.loads(line).get("txn"):
                    yield transaction["appId"], transaction["version"]
        return
    newest = metadata or max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    for snapshot in sorted(json.loads(newest.read_text())["snapshots"], key=lambda entry: entry["sequence-number"]):
        if APPLICATION in snapshot["summary"]:
            yield snapshot["summary"][APPLICATION], int(snapshot["summary"][APPLICATION_VERSION])


if __name__ == "__main__":
    _, warehouse, number, count, isolation, *configuration = sys.argv
    catalog = json.loads(configuration[0]) if configuration else None
    connected = rowmerge.connect(warehouse, catalog=catalog, commit_retries=1000)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(work(connected, int(number), int(count), isolation)) + "\n")
