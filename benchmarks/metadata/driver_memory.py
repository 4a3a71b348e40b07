"""Measure the memory of the driver's Python process during a DELETE that marks many rows as deleted.

`python -m benchmarks.metadata.driver_memory ROWS…` creates a table of one column with this number of rows, in files of five million, and
deletes five of six rows. Each table has its own process. The memory of the JVM, another process, does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from typing import Any

from benchmarks.metadata.measure import peak, reset_peak

ROWS_OF_A_FILE = 5_000_000
SIZES = [600_000, 6_000_000, 60_000_000]


def measured(rows: int) -> dict[str, Any]:
    """Return the memory before and at the peak of the statement in MB, its seconds, and its numbers of rows and files."""
    import rowmerge

    with tempfile.TemporaryDirectory(prefix="bench-memory-") as warehouse, closing(rowmerge.connect(warehouse)) as session:
        session.execute("CREATE TABLE t (id BIGINT) USING delta TBLPROPERTIES ('rowmerge.write.mode' = 'merge-on-read')")
        files = max(rows // ROWS_OF_A_FILE, 1)
        for file in range(files):
            first, last = file * rows // files, (file + 1) * rows // files
            session.execute(f"INSERT INTO t SELECT /*+ COALESCE(1) */ id FROM range({first}, {last}, 1, 1)")
        session.execute("DELETE FROM t WHERE id < 0")
        start_memory = current()
        reset_peak()
        start = time.perf_counter()
        deleted = session.sql("DELETE FROM t WHERE id % 6 <> 0").collect()[0][0]
        seconds = time.perf_counter() - start
        remaining_rows = session.sql("SELECT count(*) FROM t").collect()[0][0]
        assert deleted + remaining_rows == rows, f"{deleted} rows are deleted and {remaining_rows} left of {rows}"
        return {"rows": rows, "deleted": deleted, "files": files, "before MB": start_memory, "peak MB": peak(), "seconds": seconds}


def current() -> int:
    """Return the resident memory in MB."""
    reset_peak()
    return peak()


def measured_apart(sizes: list[int]) -> list[dict[str, Any]]:
    """Run `measured` for each number of rows in a new process."""
    measurements = []
    for rows in sizes:
        code = f"import json; from benchmarks.metadata.driver_memory import measured; print(json.dumps(measured({rows})))"
        process = subprocess.run([sys.executable, "-c", code], env=os.environ, stdout=subprocess.PIPE, check=True)
        measurements.append(json.loads(process.stdout.splitlines()[-1]))
    return measurements


if __name__ == "__main__":
    print(json.dumps(measured_apart([int(rows) for rows in sys.argv[1:]] or SIZES), indent=1))
