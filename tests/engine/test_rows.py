"""The cases in tests/rows: statements with their expected rows or error, in each format and write mode.

tests/support/statement_cases.py describes the files. `{mode}` stands for the write mode; a case without it and without a format runs
once. All cases of the files in DELTA_ALONE apply only to Delta tables.

The full suite runs each case in both formats and both write modes. The gate runs each case in one combination of them.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import rowmerge
from rowmerge import errors
from tests.support import statement_cases
from tests.support.statement_cases import Case, run_case

FOLDER = Path(__file__).parent.parent / "rows"
MODES = ("copy-on-write", "merge-on-read")
DELTA_ALONE = frozenset({"change_feed", "column_mapping", "constraints", "defaults", "generated", "row_tracking"})
"""What Iceberg tables do not have, or have without asking."""


def cases(path: Path) -> list[Case]:
    """Return the cases of a file of tests/rows."""
    parsed_cases = statement_cases.cases(path)
    for case in parsed_cases:
        case.format = "delta" if path.stem in DELTA_ALONE else case.format
    return parsed_cases


def parameters() -> list[Any]:
    """Return each case with each format and write mode that its statements leave open. `-` stands for a format or mode that they name."""
    variants = []
    for path in sorted(FOLDER.glob("*.sql")):
        for case in cases(path):
            formats = case.formats() if any("using delta" in step.text for step in case.steps) else ("-",)
            modes = MODES if any("{mode}" in step.text for step in case.steps) else ("-",)
            variants += [pytest.param(case, *each, id="-".join([case.name, *each])) for each in product(formats, modes)]
    return variants


@pytest.mark.one_of("format_", "mode")
@pytest.mark.parametrize(("case", "format_", "mode"), parameters())
def test_case(session: rowmerge.Session, case: Case, format_: str, mode: str) -> None:
    if needs_spark_4_1(case) and session.spark.version.startswith("4.0."):
        with pytest.raises(errors.SparkTooOld, match=r"needs (Py)?Spark 4\.1 or newer"):
            session.sql(case.steps[0].text)
        return
    setting = f"'rowmerge.write.mode' = '{mode}'"
    run_case(session, case, lambda text: text.replace("{mode}", setting).replace("using delta", f"using {format_}"))


def needs_spark_4_1(case: Case) -> bool:
    """Return whether Spark 4.0 rejects the first statement of a case."""
    text = case.steps[0].text
    return text.startswith("create aggregate function") and "language python" in text
