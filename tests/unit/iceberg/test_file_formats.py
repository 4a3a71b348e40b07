"""Data files in formats other than Parquet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.store import Storage
from tests.support.iceberg_tables import data_file, table_of


@pytest.mark.parametrize("format_", ["ORC", "avro"])
def test_data_files_of_another_format_are_refused_by_name(tmp_path: Path, format_: str) -> None:
    storage = Storage(str(tmp_path))
    file = data_file(storage, 0, 3)
    table_of(storage, [file, replace(file, path=f"{file.path}.other", format=format_)])
    snapshot = IcebergTable(DirectoryOperations(storage, "s.t"), "s.t").snapshot()
    with pytest.raises(UnsupportedTableFeature, match=f"format {format_.upper()} of the data file {file.path}.other"):
        snapshot.files()
