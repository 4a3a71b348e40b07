"""Count what the full suite verifies. `python -m tests.support.counts` prints the counts and writes them to docs/testing.md."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from tests.engine.test_rows import FOLDER, cases
from tests.functional.conformance_page import passes_by_area
from tests.functional.dbt_core import RELEASES
from tests.support import table_operations as operations
from tests.support.faulty_storage import Fault
from tests.unit.delta import conflict_matrix as delta
from tests.unit.iceberg import conflict_matrix as iceberg

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
TABLE = re.compile(r"(?<=<!-- counts -->\n).*?(?=<!-- end of counts -->)", re.DOTALL)


def counts() -> dict[str, int]:
    """Return by subject how many cases the full suite has."""
    calls = _storage_calls()
    return {
        "claims in `tests/rows`": sum(len(cases(path)) for path in FOLDER.glob("*.sql")),
        "pairs of concurrent commits on Delta tables": len(delta.RACES) * len(delta.LOSERS),
        "pairs of concurrent commits on Iceberg tables": len(iceberg.RACES) * len(iceberg.LOSERS),
        "storage calls at which a process is killed": len(calls),
        "storage calls that are killed in the middle of a put": sum(call.startswith("put") for call in calls),
        "storage faults (each call fails once, fails after it took effect, or fails for good)": 3 * len(calls),
        "items of dbt's adapter suite, with the newest dbt-core": passes_by_area(RELEASES[-1]).total(),
    }


def table() -> str:
    """Return the counts as a Markdown table."""
    return "\n".join(["| subject | cases |", "| --- | ---: |", *(f"| {subject} | {count} |" for subject, count in counts().items()), ""])


def _storage_calls() -> list[str]:
    """Return the storage calls of each operation in tests/support/table_operations.py, in each format that has the operation."""
    calls: list[str] = []
    names = [name for name in (*operations.OPERATIONS, *operations.FORMAT_OF) if name != "append"]
    for name, format_ in product(names, ("delta", "iceberg")):
        if operations.FORMAT_OF.get(name, format_) == format_:
            with tempfile.TemporaryDirectory() as folder:
                operations.built(f"{folder}/t", format_)
                time.sleep(0.005)  # VACUUM keeps files of the current millisecond
                fault = Fault()
                operations.run(name, f"{folder}/t", fault)
                calls += fault.calls
    return calls


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table())
