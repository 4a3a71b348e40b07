"""docs/strategies.md: its text, with the SQL that the strategies render. Run as a program it prints the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.unit.adapter.rendered import cases

TEXT = Path(__file__).with_suffix(".md")


def document() -> str:
    """The text of the page. `{merge: name of a case}` stands for the case's configs and SQL."""
    known = {f"{case.strategy}: {case.name}": f"```sql\n-- {case.said}\n{case.sql}\n```" for case in cases()}
    return re.sub(r"^\{(.+: .+)\}$", lambda found: known[found[1]], TEXT.read_text(encoding="utf-8"), flags=re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write(document())
