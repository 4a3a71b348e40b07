"""Measure the cost of syncs for a small merge on a disk: the same merge with each durability, in turns, in one process.

    python benchmarks/durability.py [merges] [folder]

The folder determines the disk. The source has ten rows, five of which are new; the table has ten thousand. `syncs` is the number of syncs
of a merge and the sum of their milliseconds; some of them run concurrently.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from statistics import median

import rowmerge

DURABILITIES = ("process", "full")
TABLES = {
    "delta, merge-on-read": "using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')",
    "delta, copy-on-write": "using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write')",
    "iceberg, merge-on-read": "using iceberg tblproperties ('write.merge.mode' = 'merge-on-read')",
    "iceberg, copy-on-write": "using iceberg tblproperties ('write.merge.mode' = 'copy-on-write')",
}
WARM_UP = 5


def main() -> None:
    merges = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory(prefix="rowmerge-durability-", dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        spark = rowmerge.connect(f"{folder}/spark").spark
        sessions = {level: rowmerge.connect(f"{folder}/{level}", spark=spark, durability=level) for level in DURABILITIES}
        syncs = recorded_syncs()
        print(f"{'milliseconds, medians':<25}{'process':>10}{'full':>10}{'difference':>12}{'ratio':>8}{'syncs':>14}")
        for number, (name, definition) in enumerate(TABLES.items()):
            for session in sessions.values():
                session.execute(f"create table t{number} {definition} as select id, id % 7 as status from range(10000)")
            seconds: dict[str, list[float]] = {level: [] for level in DURABILITIES}
            syncs.clear()
            for turn in range(merges + WARM_UP):
                for level in DURABILITIES if turn % 2 else reversed(DURABILITIES):
                    seconds[level].append(merge(sessions[level], number, turn))
            process, full = (seconds[level][WARM_UP:] for level in DURABILITIES)
            more = median(full_seconds - process_seconds for process_seconds, full_seconds in zip(process, full, strict=True))
            each = f"{len(syncs) / (merges + WARM_UP):.1f}, {sum(syncs) / (merges + WARM_UP):.1f} ms"
            ratio = 1 + more / median(process)
            print(f"{name:<25}{median(process):>10.1f}{median(full):>10.1f}{more:>12.1f}{ratio:>8.3f}{each:>14}", flush=True)


def recorded_syncs() -> list[float]:
    """Return a list to which every sync of this process appends its duration in milliseconds."""
    syncs: list[float] = []
    fsync = os.fsync

    def measured(descriptor: int) -> None:
        begun = time.perf_counter()
        fsync(descriptor)
        syncs.append(1000 * (time.perf_counter() - begun))

    os.fsync = measured
    return syncs


def merge(session: rowmerge.Session, number: int, turn: int) -> float:
    """Run one merge and return its milliseconds."""
    begun = time.perf_counter()
    session.execute(
        f"merge into t{number} t using (select (id - 5) * 1999 + {turn} as id, 9 as status from range(10)) s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    return 1000 * (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
