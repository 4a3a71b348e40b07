"""A copy of the warehouse that release 0.1.0 wrote, and the rows that 0.1.0 read in it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.golden.iceberg.tables import relocate

HERE = Path(__file__).parent
OLD_FOLDER = "/tmp/rowmerge-0.1.0"
"""Where the paths of the metadata say that the warehouse is."""


def expected() -> dict[str, Any]:
    """Return what 0.1.0 read, as `comparable` gives it: `tables` by name (`columns`, `rows`, `oldest` version), and `queries` by text."""
    content: dict[str, Any] = json.loads((HERE / "warehouse.json").read_text(encoding="utf-8"))
    return content


TABLES: Sequence[str] = tuple(expected()["tables"])


def unpack(folder: Path) -> str:
    """Unpack the warehouse and the external tables into a folder, with paths that name this folder. Return the warehouse."""
    with tarfile.open(HERE / "warehouse.tar.xz") as archive:
        # Python 3.11.3 and older lack the filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    old, new = f"file://{OLD_FOLDER}", f"file://{folder}"
    # The manifest list of a clone has the lengths of its source's manifests, which change too.
    for metadata in sorted(folder.rglob("metadata"), key=lambda path: path.parent.name == "ice_cloned"):
        if not (metadata / "_dropped.json").exists():
            relocate(metadata.parent, old, new)
    # Pointers to external tables, and paths of a clone to the files of its source.
    for file in (*folder.rglob(".rowmerge-location.json"), *folder.rglob("_delta_log/*.json")):
        text = file.read_text(encoding="utf-8")
        if old in text:
            file.write_text(text.replace(old, new), encoding="utf-8")
    return f"{folder}/warehouse"
