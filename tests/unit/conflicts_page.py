"""docs/conflicts.md: its text, with tables of the conflict matrices of both formats. As a program, it prints the page."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.delta import conflict_matrix as delta
from tests.unit.iceberg import conflict_matrix as iceberg

TEXT = Path(__file__).with_suffix(".md")


def document() -> str:
    """Return the text of the page."""
    return TEXT.read_text(encoding="utf-8").replace("{delta}", delta.tables()).replace("{iceberg}", iceberg.tables())


if __name__ == "__main__":
    sys.stdout.write(document())
