"""Statements that name a table by the path of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge
from rowmerge import errors
from tests.support.statement_cases import FORMATS


@pytest.mark.parametrize("format_", FORMATS)
def test_a_path_with_capitals_and_spaces_names_one_table_in_every_statement(
    bare_session: rowmerge.Session, tmp_path: Path, format_: str
) -> None:
    name = f"{format_}.`{tmp_path}/My Lake/Orders_1`"
    bare_session.sql(f"CREATE TABLE {name} (id INT, v STRING)")
    bare_session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    bare_session.sql(f"ALTER TABLE {name} ADD COLUMN w INT")
    bare_session.sql(f"MERGE INTO {name} t USING {name} s ON t.id = s.id AND s.id = 1 WHEN MATCHED THEN UPDATE SET w = s.id + 10")
    bare_session.sql(f"CREATE TABLE named USING {format_} LOCATION '{tmp_path}/My Lake/Orders_1'")
    assert [tuple(row) for row in bare_session.sql("SELECT * FROM named ORDER BY id").collect()] == [(1, "a", 11), (2, "b", None)]
    assert bare_session.sql(f"SELECT sum(record_count) FROM {name}.files").collect()[0][0] >= 2
    bare_session.sql("DELETE FROM named")
    assert bare_session.sql(f"SELECT count(*) FROM {name}").collect()[0][0] == 0
    assert bare_session.schemas() == ["default"]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SELECT * FROM delta.`{folder}/missing`", errors.TableNotFound, "missing"),
        ("DELETE FROM iceberg.`{folder}/t`", errors.TableNotFound, "iceberg.`"),
        ("VACUUM '{folder}/missing'", errors.TableNotFound, "missing"),
        ("DROP TABLE delta.`{folder}/t`", errors.TableError, "Delete the folder"),
        ("ALTER TABLE delta.`{folder}/t` RENAME TO u", errors.TableError, "RENAME TO cannot change"),
        ("ALTER TABLE t RENAME TO delta.`{folder}/u`", errors.TableError, "RENAME TO cannot change"),
        ("ALTER TABLE delta.`{folder}/t` SET LOCATION '{folder}/u'", errors.TableError, "SET LOCATION cannot change"),
        ("CREATE TABLE delta.`{folder}/new` (id INT) USING iceberg", errors.ConfigurationError, "Write USING delta"),
        ("CREATE TABLE delta.`{folder}/new` (id INT) LOCATION '{folder}/x'", errors.ConfigurationError, "Leave LOCATION out"),
        ("CREATE TABLE delta.`{folder}/t` (id INT)", errors.AlreadyExists, "t"),
        ("CREATE VIEW delta.`{folder}/v` AS SELECT 1", errors.SchemaNotFound, "delta"),
    ],
)
def test_a_wrong_path_is_an_error_and_changes_nothing(
    session: rowmerge.Session, tmp_path: Path, statement: str, error: type[Exception], message: str
) -> None:
    folder = tmp_path / "elsewhere"
    session.sql(f"CREATE TABLE t (id INT) USING delta LOCATION '{folder}/t'")
    session.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(error, match=message):
        session.sql(statement.format(folder=folder)).collect()
    assert session.sql("SELECT * FROM t").collect()[0][0] == 1
    assert not (folder / "new").exists()
    assert not (folder / "x").exists()
