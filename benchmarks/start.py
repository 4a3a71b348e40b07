"""Measure the start and the first query of the embedded Spark, without and with the archive of Java's classes, in turns.

    python benchmarks/start.py [repetitions]

Each start runs in a new process. The archive is in a temporary folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rowmerge.session.startup.class_archive import CACHE, make_class_archive

STARTING = """
import json, sys, time
import rowmerge
begun = time.perf_counter()
session = rowmerge.connect(sys.argv[1])
taken = {"start": time.perf_counter() - begun}
statements = {
    "create": "create table orders using delta as select id, id % 7 as status from range(100000)",
    "merge": "merge into orders as t using (select id * 50 as id, 9 as status from range(4000)) as s on t.id = s.id "
             "when matched then update set * when not matched then insert *",
    "select": "select status, count(*) from orders group by status",
}
for name, statement in statements.items():
    begun = time.perf_counter()
    session.sql(statement).collect()
    taken[name] = time.perf_counter() - begun
session.close()
print(json.dumps(taken))
"""


def main() -> None:
    durations: dict[str, list[dict[str, float]]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory(prefix="rowmerge-start-") as temporary_folder:
        folder = Path(temporary_folder)
        os.environ[CACHE] = str(folder / "with")
        make_class_archive()
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            for kind, starts in durations.items():
                starts.append(start(folder / f"warehouse_{kind}_{number}", folder / kind))
    steps = list(durations["with"][0])
    print(f"{'seconds':<10}" + "".join(f"{step:>10}" for step in [*steps, "together"]))
    for kind, starts in durations.items():
        medians = [median(one[step] for one in starts) for step in steps]
        print(f"{kind:<10}" + "".join(f"{value:10.2f}" for value in [*medians, median(sum(one.values()) for one in starts)]))


def start(warehouse: Path, cache: Path) -> dict[str, float]:
    """Return the seconds of each step in a process that uses `cache` as the folder of archives."""
    process = subprocess.run(
        [sys.executable, "-c", STARTING, str(warehouse)],
        env=os.environ | {CACHE: str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    seconds: dict[str, float] = json.loads(process.stdout)
    return seconds


if __name__ == "__main__":
    main()
