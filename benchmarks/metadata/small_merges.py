"""Measure many small merges into one Delta table, with and without auto-compaction.

`python -m benchmarks.metadata.small_merges [MERGES]` runs each case in its own process. A merge updates ten random rows, and inserts ten.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

MERGES = 2_000
CASES = [("merge-on-read", True), ("merge-on-read", False), ("auto", True)]
"""The write mode of each table, and whether it has auto-compaction."""
_UPDATED_ROWS = _INSERTED_ROWS = 10


def measured(merges: int, mode: str, compacts: bool) -> dict[str, Any]:
    """Return the most and the last number of live files, the number of compactions, and the seconds of a merge and of all compactions.

    Args:
        merges: The number of merges.
        mode: The write mode of the table.
        compacts: Whether the table has auto-compaction.
    """
    import rowmerge

    generator = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="bench-merges-") as warehouse, closing(rowmerge.connect(warehouse)) as session:
        properties = f"'rowmerge.write.mode' = '{mode}', 'delta.autoOptimize.autoCompact' = '{str(compacts).lower()}'"
        session.execute(f"CREATE TABLE t (id BIGINT, name STRING, merge INT) USING delta TBLPROPERTIES ({properties})")
        session.execute("INSERT INTO t SELECT id, concat('name ', id), -1 FROM range(0, 10000, 1, 1)")
        files, seconds, compaction_seconds, version = [], [], [], 1
        for merge in range(merges):
            next_id = 10_000 + merge * _INSERTED_ROWS
            ids = [*generator.sample(range(next_id), _UPDATED_ROWS), *range(next_id, next_id + _INSERTED_ROWS)]
            start = time.perf_counter()
            result = session.execute(
                f"MERGE INTO t USING (SELECT id, concat('name ', id) AS name, {merge} AS merge FROM VALUES {_values(ids)} AS v(id)) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            seconds.append(time.perf_counter() - start)
            if "compaction" in result.seconds:
                compaction_seconds.append(result.seconds["compaction"])
            files.append(session.describe("default", "t").files)
            version = result.version or version
        rows = session.sql("SELECT count(*), sum(id) FROM t").collect()[0]
        count = 10_000 + merges * _INSERTED_ROWS
        assert tuple(rows) == (count, count * (count - 1) // 2), f"the table has the rows {rows}"
    return {
        "mode": mode,
        "compacts": compacts,
        "merges": merges,
        "max files": max(files),
        "last files": files[-1],
        "compactions": len(compaction_seconds),
        "seconds": statistics.mean(seconds),
        "last seconds": statistics.mean(seconds[-100:]),
        "compaction seconds": sum(compaction_seconds),
    }


def _values(ids: Sequence[int]) -> str:
    return ", ".join(f"({id_}L)" for id_ in ids)


def cases_apart(merges: int) -> list[dict[str, Any]]:
    """Run `measured` for each case in a new process."""
    measurements = []
    for mode, compacts in CASES:
        call = f"measured({merges}, {mode!r}, {compacts})"
        code = f"import json; from benchmarks.metadata.small_merges import measured; print(json.dumps({call}))"
        process = subprocess.run([sys.executable, "-c", code], env=os.environ, stdout=subprocess.PIPE, check=True)
        measurements.append(json.loads(process.stdout.splitlines()[-1]))
        print(json.dumps(measurements[-1]), file=sys.stderr, flush=True)
    return measurements


if __name__ == "__main__":
    print(json.dumps(cases_apart(int(sys.argv[1]) if len(sys.argv) > 1 else MERGES), indent=1))
