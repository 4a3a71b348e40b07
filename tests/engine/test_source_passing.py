"""The source of a mirror, a MERGE that changes every row, is read once by the join, and is not persisted."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import rowmerge
from rowmerge.errors import UnreadableDataFile
from rowmerge.execution.ways import single_pass
from rowmerge.spark.reading import data_files
from rowmerge.spark.source import source
from tests.engine.interleaving import overtaken
from tests.support.readers import read_with_delta_rs, read_with_pyiceberg

pytestmark = pytest.mark.one_of("mirrored")

MIRROR = (
    "on t.id = s.id when matched and t.name <> s.name then update set * when not matched then insert * "
    "when not matched by source then delete"
)
CHANGED = "select id, if(id % 10 = 0, 'new', 'old') as name from range(500, 1200)"
AFTER = {n: "new" if n % 10 == 0 or n >= 1000 else "old" for n in range(500, 1200)}
READERS = {"delta": read_with_delta_rs, "iceberg": read_with_pyiceberg}


@pytest.fixture(params=["delta", "iceberg"])
def mirrored(request: pytest.FixtureRequest, session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a table of 1000 rows, and return its format. The table and its sources count as large."""
    monkeypatch.setattr(single_pass, "reads_few_bytes", lambda _: False)
    monkeypatch.setattr(source, "MAX_BROADCAST_BYTES", 1000)
    mode = "tblproperties ('rowmerge.write.mode' = 'merge-on-read')"
    session.sql(f"create table mirrored using {request.param} {mode} as select id, 'old' as name from range(1000)")
    return str(request.param)


@pytest.fixture
def persisted_sources(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the list of the sources that statements persist."""
    evaluate_source: Callable[..., source.Source] = source.evaluate_source
    sources: list[object] = []
    monkeypatch.setattr(
        source, "evaluate_source", lambda *arguments, **options: sources.append(arguments[1]) or evaluate_source(*arguments, **options)
    )
    return sources


def _rows(session: rowmerge.Session, mirrored: str) -> dict[int, str]:
    """Return the rows that an independent reader reads. Their ids are unique."""
    location = session.sql("describe detail mirrored").collect()[0]["location"]
    rows = READERS[mirrored](location).to_pylist()
    names = {row["id"]: row["name"] for row in rows}
    assert len(names) == len(rows)
    return names


def test_a_mirror_reads_its_source_once(session: rowmerge.Session, mirrored: str, persisted_sources: list[object]) -> None:
    changed = f"select id, if(id >= 1000, 'new', name) as name from ({CHANGED})"
    counts = session.execute(f"merge into mirrored t using ({changed}) s {MIRROR}").changes
    assert (counts.updated, counts.inserted, counts.deleted) == (50, 200, 500)
    assert _rows(session, mirrored) == AFTER
    assert persisted_sources == []
    if mirrored == "delta":
        metrics = session.sql("describe history mirrored limit 1").collect()[0]["operationMetrics"]
        assert metrics["numSourceRows"] == "700"


def test_unmatched_target_rows_are_deleted_without_new_rows(
    session: rowmerge.Session, mirrored: str, persisted_sources: list[object]
) -> None:
    clauses = "on t.id = s.id when matched then update set name = s.name when not matched by source then update set name = 'gone'"
    counts = session.execute(f"merge into mirrored t using (select id, 'here' as name from range(900, 1200)) s {clauses}").changes
    assert (counts.updated, counts.inserted, counts.deleted) == (1000, 0, 0)
    assert _rows(session, mirrored) == {n: "here" if n >= 900 else "gone" for n in range(1000)}
    assert persisted_sources == []


@pytest.mark.parametrize("rows", ["select id, 'x' as name from range(10) where id < 0", "select id, name from nobody where id < 0"])
def test_an_empty_source_deletes_all_unmatched_rows(session: rowmerge.Session, mirrored: str, rows: str) -> None:
    """Spark detects the empty source at planning or while it runs."""
    session.sql("create table nobody as select id, 'x' as name, uuid() as text from range(1000) where id % 2 = 1")
    session.sql("update nobody set id = -1 where id = 1")
    session.sql("delete from nobody where id = -1")
    counts = session.execute(f"merge into mirrored t using ({rows}) s {MIRROR}").changes
    assert (counts.updated, counts.inserted, counts.deleted) == (0, 0, 1000)
    assert _rows(session, mirrored) == {}


def test_a_nondeterministic_source_is_evaluated_once(session: rowmerge.Session, mirrored: str, persisted_sources: list[object]) -> None:
    rows = "select id, if(rand() < 0.5, 'old', 'new') as name from range(500, 3000) where rand() < 0.5"
    counts = session.execute(f"merge into mirrored t using ({rows}) s {MIRROR}").changes
    names = _rows(session, mirrored)
    assert 1000 - counts.deleted == sum(n < 1000 for n in names)
    assert counts.inserted == sum(n >= 1000 for n in names)
    assert counts.updated == sum(n < 1000 and name == "new" for n, name in names.items())
    assert persisted_sources == []


def test_two_source_rows_for_one_target_row_are_reported_without_a_change(session: rowmerge.Session, mirrored: str) -> None:
    twice = f"select * from ({CHANGED}) union all select 700, 'newest'"
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch, match="id = 700"):
        session.sql(f"merge into mirrored t using ({twice}) s {MIRROR}")
    assert _rows(session, mirrored) == dict.fromkeys(range(1000), "old")


def test_the_source_is_reused_after_a_conflict(
    session: rowmerge.Session, mirrored: str, persisted_sources: list[object], tmp_path: Path
) -> None:
    """The concurrent changes are read again."""
    winner = "update mirrored set name = 'theirs' where id in (100, 700)"
    changed = f"select id, if(id >= 1000, 'new', name) as name from ({CHANGED})"
    result, _ = overtaken(session.spark, str(tmp_path / "warehouse"), f"merge into mirrored t using ({changed}) s {MIRROR}", winner)
    assert result.attempts == 2
    assert _rows(session, mirrored) == AFTER
    assert len(persisted_sources) == 1


@pytest.mark.parametrize("clause", ["when not matched by source and t.id < 10 then delete", "when not matched then insert *"])
def test_a_source_of_unknown_size_is_persisted(
    session: rowmerge.Session, mirrored: str, persisted_sources: list[object], clause: str
) -> None:
    """A persisted source has a size, so Spark can broadcast it and its keys can prune files."""
    session.sql(f"merge into mirrored t using ({CHANGED}) s on t.id = s.id when matched and t.name <> s.name then update set * {clause}")
    assert len(persisted_sources) == 1
    assert len(_rows(session, mirrored)) == (990 if "delete" in clause else 1200)


@pytest.mark.parametrize("checksum", [zlib.crc32, lambda path: 7], ids=["distinct", "equal"])
def test_each_row_is_changed_in_its_own_file(
    session: rowmerge.Session, mirrored: str, checksum: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The join identifies files by checksums of their paths, and by the paths if two checksums are equal."""
    monkeypatch.setattr(data_files, "zlib", SimpleNamespace(crc32=checksum))
    session.sql("insert into mirrored select id, 'old' from range(1000, 1100)")
    session.sql("insert into mirrored select id, 'old' from range(1100, 1150)")
    counts = session.execute(f"merge into mirrored t using ({CHANGED}) s {MIRROR}").changes
    assert (counts.updated, counts.inserted, counts.deleted) == (65, 50, 500)
    assert _rows(session, mirrored) == {n: "new" if n % 10 == 0 else "old" for n in range(500, 1200)}


def test_a_file_of_unknown_name_is_an_error(session: rowmerge.Session, mirrored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Spark spelled a path in another way, its checksum would be unknown. The rows must not be lost silently."""
    monkeypatch.setattr(data_files, "zlib", SimpleNamespace(crc32=lambda path: zlib.crc32(path) + 1))
    location = Path("/" + session.sql("describe detail mirrored").collect()[0]["location"].removeprefix("file:").lstrip("/"))
    files = set(location.rglob("*.parquet"))
    with pytest.raises(UnreadableDataFile, match="Spark spells its path in another way than the table"):
        session.execute(f"merge into mirrored t using ({CHANGED}) s {MIRROR}")
    assert set(location.rglob("*.parquet")) == files
    assert _rows(session, mirrored) == dict.fromkeys(range(1000), "old")
