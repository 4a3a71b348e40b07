"""docs/strategies.md: its text, the SQL that the strategies render, and the fields of a plan. As a program, it prints the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dbt.adapters.rowmerge.incremental.plan import IncrementalPlan
from tests.unit.adapter.rendered import cases

TEXT = Path(__file__).with_suffix(".md")


def document() -> str:
    """Return the text of the page. `{merge: name of a case}` stands for the case's configs and SQL."""
    parts = {f"{case.strategy}: {case.name}": f"```sql\n-- {case.said}\n{case.sql}\n```" for case in cases()}
    parts["fields of the plan"] = plan_fields()
    return re.sub(
        rf"^\{{({'|'.join(map(re.escape, parts))})\}}$", lambda match: parts[match[1]], TEXT.read_text(encoding="utf-8"), flags=re.MULTILINE
    )


def plan_fields() -> str:
    """Return a table of the fields of a plan, from the docstring of its class."""
    attributes = re.findall(r"^ +(\w+): (.+)$", str(IncrementalPlan.__doc__).partition("Attributes:")[2], re.MULTILINE)
    return "\n".join(["| field | meaning |", "| --- | --- |", *(f"| `{name}` | {meaning.rstrip('.')} |" for name, meaning in attributes)])


if __name__ == "__main__":
    sys.stdout.write(document())
