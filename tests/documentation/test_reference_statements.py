"""The statements of the reference documentations of Delta Lake, Databricks and Iceberg, in our own words, in each format.

Each file has the title of a page and its address, and a case for each statement (tests/support/statement_cases.py). The title of a case
is the form of the statement. `rejected: ` begins the title of a statement that the engine rejects. `{folder}` stands for a folder
outside the warehouse. `{id -2 of t}` stands for the last but one version or snapshot of the table t, and `{time -2 of t}` for its time.

`page.py` prints docs/reference_statements.md from these files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rowmerge
from tests.documentation import page
from tests.support.statement_cases import FORMATS, Case, run_case

PAGE = Path(__file__).parents[2] / "docs" / "reference_statements.md"
MOST_REJECTED = 10
PROPERTIES = {
    "{column mapping}": {"delta": "tblproperties ('delta.columnMapping.mode' = 'name')"},
    "{type widening}": {"delta": "tblproperties ('delta.enableTypeWidening' = 'true')"},
    "{deletion vectors}": dict.fromkeys(FORMATS, "tblproperties ('rowmerge.write.mode' = 'merge-on-read')"),
    "{change feed}": {"delta": "tblproperties ('delta.enableChangeDataFeed' = 'true')"},
    "{defaults}": {"iceberg": "tblproperties ('format-version' = '3')"},
}
"""The properties that statements need in a format, which have a name in the cases."""
NEWEST_METADATA = {"delta": "_delta_log/00000000000000000001.json", "iceberg": "metadata/v2.metadata.json"}
"""The newest metadata file of a table after one INSERT, below the folder of the table."""
_OF_VERSION = re.compile(r"\{(id|time) (-?\d+) of (\w+)\}")


def parameters() -> list[Any]:
    variants = [(case, format_) for reference in page.references() for case in reference.cases for format_ in case.formats()]
    return [pytest.param(case, format_, id=f"{case.name}-{format_}") for case, format_ in variants]


@pytest.mark.one_of("format_")
@pytest.mark.parametrize(("case", "format_"), parameters())
def test_statement(session: rowmerge.Session, tmp_path: Path, case: Case, format_: str) -> None:
    def of_version(match: re.Match[str]) -> str:
        column = "snapshot_id" if match[1] == "id" else "cast(committed_at as string)"
        rows = session.sql(f"select {column} from {match[3]}.snapshots order by committed_at").collect()
        return str(rows[int(match[2])][0])

    def text_of(text: str) -> str:
        for name, of_format in PROPERTIES.items():
            text = text.replace(name, of_format.get(format_, ""))
        if format_ != "-":
            text = (
                text.replace("`delta`.", f"`{format_}`.")
                .replace("{format}", format_)
                .replace("{newest metadata}", NEWEST_METADATA[format_])
            )
        return _OF_VERSION.sub(of_version, text.replace("{folder}", str(tmp_path)).replace("using delta", f"using {format_}"))

    run_case(session, case, text_of)


@pytest.mark.parametrize("format_", FORMATS)
def test_few_statements_are_rejected(format_: str) -> None:
    assert len(page.rejected(format_)) <= MOST_REJECTED


def test_page_lists_every_statement() -> None:
    assert PAGE.read_text(encoding="utf-8") == page.document(), "python -m tests.documentation.page > docs/reference_statements.md"
