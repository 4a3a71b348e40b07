"""Write the warehouse of release 0.1.0, with the rows that this release reads in it.

The commit of 0.1.0 must be the `rowmerge` of the program. Run from the root of the repository:

    git worktree add --detach ../release-0.1.0 7d3484c
    PYTHONPATH=../release-0.1.0 python tests/golden/release_0_1_0/make.py

Child processes are killed during a DROP or a commit, and leave the same files as a kill of 0.1.0.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

from rowmerge.session.embedded import start_spark

import rowmerge
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.session import Session
from rowmerge.storage.store import Put, Storage
from tests.golden.iceberg.tables import comparable

HERE = Path(__file__).parent
FOLDER = Path("/tmp/rowmerge-0.1.0")
"""The folder of the warehouse and of the external tables, as their metadata names it."""
WAREHOUSE = f"{FOLDER}/warehouse"
SPARK = {
    "spark.master": "local[1]",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
}
COLUMNS = "(id bigint, name string, amount decimal(10,2), day date)"
MERGE = """
    merge into {t} t using (values (2L, 'b2', 2.50, date '2026-01-02'), (9L, 'i', 9.00, date '2026-01-03')) s (id, name, amount, day)
    on t.id = s.id when matched then update set * when not matched then insert *
"""
ROWS = [
    "insert into {t} values (1, 'a', 1.00, date '2026-01-01'), (2, 'b', 2.00, date '2026-01-01'), (3, null, 3.00, date '2026-01-02')",
    "insert into {t} values (4, 'd', 4.00, date '2026-01-02'), (5, 'e', 5.00, date '2026-01-02'), (6, 'f', null, date '2026-01-02')",
    MERGE,
    "delete from {t} where id in (4, 5)",
]
MARKED = "'rowmerge.write.mode' = 'merge-on-read'"
MANY = [f"insert into {{t}} values ({id_}, 'n{id_}', {id_}.00, date '2026-01-02')" for id_ in range(10, 15)]
KEYED = "insert into {t} values (7, 'once', 7.00, date '2026-01-07')"
KEY = "load-7"
TABLES: dict[str, list[str]] = {
    "plain": [f"create table {{t}} {COLUMNS} using delta comment 'plain rows'", *ROWS],
    "partitioned": [f"create table {{t}} {COLUMNS} using delta partitioned by (day)", *ROWS],
    "marked": [f"create table {{t}} {COLUMNS} using delta tblproperties ({MARKED})", *ROWS],
    "mapped": [
        f"create table {{t}} {COLUMNS} using delta tblproperties ('delta.columnMapping.mode' = 'name')",
        *ROWS[:2],
        "alter table {t} rename column name to label",
        "alter table {t} drop column amount",
        "insert into {t} values (8, 'h', date '2026-01-08')",
    ],
    "changed": [f"create table {{t}} {COLUMNS} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')", *ROWS],
    "checkpointed": [
        f"create table {{t}} {COLUMNS} using delta tblproperties ('delta.checkpointInterval' = '3', {MARKED}, "
        "'delta.enableInCommitTimestamps' = 'true')",
        *ROWS,
        *MANY,
    ],
    "checkpointed_v2": [
        f"create table {{t}} {COLUMNS} using delta tblproperties ('delta.checkpointInterval' = '4', 'delta.checkpointPolicy' = 'v2')",
        *ROWS,
        *MANY,
    ],
    "ruled": [
        "create table {t} (id bigint not null, name string default 'none', amount decimal(10,2), day date, "
        "twice decimal(12,2) generated always as (amount * 2), check (amount > 0)) using delta "
        "tblproperties ('delta.feature.allowColumnDefaults' = 'supported')",
        "insert into {t} (id, amount, day) values (1, 1.00, date '2026-01-01'), (2, 2.00, date '2026-01-02')",
    ],
    "keyed": [f"create table {{t}} {COLUMNS} using delta", *ROWS[:1], KEYED],
    "cloned": ["create table {t} shallow clone shop.plain", "delete from {t} where id = 1"],
    "elsewhere": [f"create table {{t}} {COLUMNS} using delta location '{FOLDER}/elsewhere/delta'", *ROWS],
    "ice_plain": [f"create table {{t}} {COLUMNS} using iceberg comment 'plain rows'", *ROWS],
    "ice_marked": [f"create table {{t}} {COLUMNS} using iceberg tblproperties ({MARKED})", *ROWS],
    "ice_v3": [
        f"create table {{t}} {COLUMNS} using iceberg tblproperties ('format-version' = '3', {MARKED})",
        *ROWS,
        "alter table {t} add column kind string default 'old'",
        "insert into {t} values (8, 'h', 8.00, date '2026-01-08', 'new')",
    ],
    "ice_partitioned": [
        f"create table {{t}} {COLUMNS} using iceberg partitioned by (days(day)) tblproperties ({MARKED})",
        *ROWS[:2],
        "alter table {t} add partition field bucket(4, id)",
        *ROWS[2:],
    ],
    "ice_trimmed": [
        f"create table {{t}} {COLUMNS} using iceberg tblproperties ({MARKED}, 'write.metadata.delete-after-commit.enabled' = 'true', "
        "'write.metadata.previous-versions-max' = '2')",
        *ROWS,
        *MANY,
    ],
    "ice_branched": [
        f"create table {{t}} {COLUMNS} using iceberg",
        *ROWS[:2],
        "alter table {t} create tag eod",
        "alter table {t} create branch audit",
        "insert into {t}.branch_audit values (8, 'h', 8.00, date '2026-01-08')",
        *ROWS[2:],
    ],
    "ice_evolved": [
        f"create table {{t}} {COLUMNS} using iceberg",
        *ROWS[:2],
        "alter table {t} rename column name to label",
        "alter table {t} drop column amount",
        "alter table {t} add column amount decimal(12,3)",
        "insert into {t} values (8, 'h', date '2026-01-08', 8.125)",
    ],
    "ice_keyed": [f"create table {{t}} {COLUMNS} using iceberg", *ROWS[:1], KEYED],
    "ice_cloned": ["create table {t} shallow clone shop.ice_plain", "insert into {t} values (8, 'h', 8.00, date '2026-01-08')"],
    "ice_elsewhere": [f"create table {{t}} {COLUMNS} using iceberg location '{FOLDER}/elsewhere/iceberg'", *ROWS],
    "interrupted": [f"create table {{t}} {COLUMNS} using delta", *ROWS],
    "ice_interrupted": [f"create table {{t}} {COLUMNS} using iceberg tblproperties ({MARKED})", *ROWS],
}
DROPS = {
    "gone_marked": ("", 1),
    "gone_data": (".parquet", 3),
    "gone_log": ("_delta_log/0", 3),
    "ice_gone_marked": ("", 1),
    "ice_gone_data": (".parquet", 3),
    "ice_gone_log": ("metadata/v", 3),
}
"""By table, the deletion before which its DROP is killed: the n-th one of a path that contains the text."""
OTHERS = [
    "create function shop.cents(amount decimal(18, 2), factor int default 100) returns bigint return amount * factor",
    "create function shop.initials(name string) returns string language python handler = 'initials' as $$\n"
    "def initials(name):\n    return name and name[0].upper()\n$$",
    "create view shop.both as select id, name from shop.plain",
    "create or replace view shop.both as "
    "select p.id, p.name, i.amount, shop.cents(i.amount) as cents from shop.plain p join shop.ice_marked i on p.id = i.id",
    "create schema reports comment 'for readers'",
    "create view reports.days as select day, count(*) as n from shop.partitioned group by day",
]
QUERIES = [
    "select * from shop.both",
    "select * from reports.days",
    "select id, shop.cents(amount) as c, shop.initials(name) as i from shop.plain",
    "select id, _change_type, _commit_version from table_changes('shop.changed', 1)",
    "select * from shop.ice_branched.branch_audit",
    "select * from shop.ice_branched version as of 'eod'",
]


class DyingStorage(Storage):
    """Storage of a process that is killed before the n-th deletion, or during the put, of a path that contains a string."""

    text, deletions, put_text = "", 0, ""

    def child(self, path: str) -> Storage:
        return DyingStorage(f"{self.location}/{path}")

    def _delete_one(self, path: str) -> None:
        if self.text in path:
            DyingStorage.deletions -= 1
            if DyingStorage.deletions == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        super()._delete_one(path)

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if self.put_text and self.put_text in path:
            Path(f"{self.location.removeprefix('file://')}/{path}#1").write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().put_if_absent(path, data)


def main() -> None:
    if importlib.util.find_spec("rowmerge.table.commits") is not None:
        raise SystemExit(f"{rowmerge.__file__} is newer than 0.1.0. Put a checkout of 7d3484c first in PYTHONPATH.")
    shutil.rmtree(FOLDER, ignore_errors=True)
    session = rowmerge.connect(WAREHOUSE, spark_config=SPARK)
    session.sql("create schema shop comment 'written by 0.1.0'")
    for name, steps in TABLES.items():
        for step in steps:
            session.sql(step.format(t=f"shop.{name}"), idempotency_key=KEY if step is KEYED else None)
    for statement in OTHERS:
        session.sql(statement)
    for name in DROPS:
        session.sql(f"create table shop.{name} {COLUMNS} using {_format(name)}")
        for step in ROWS:
            session.sql(step.format(t=f"shop.{name}"))
    tables = {f"shop.{name}": _expected(session, f"shop.{name}") for name in TABLES}
    queries = {query: comparable(session.sql(query).toArrow()) for query in QUERIES}
    session.close()
    for name in ("interrupted", "ice_interrupted"):
        _killed("insert", name)
    for name in DROPS:
        _killed("drop", name)
    _killed("probe", "")
    (HERE / "warehouse.json").write_text(json.dumps({"tables": tables, "queries": queries}, indent=1) + "\n", encoding="utf-8")
    with tarfile.open(HERE / "warehouse.tar.xz", "w:xz") as archive:
        archive.add(FOLDER, arcname=".", filter=_without_owner)


def _expected(session: Session, table: str) -> dict[str, object]:
    """Return what 0.1.0 reads now, and in the oldest version that has rows."""
    history = session.sql(f"describe history {table}").toArrow().to_pylist()
    versions = [(row["version"], _rows(session, f"{table} version as of {row['version']}")) for row in reversed(history) if row["version"]]
    version, oldest = next((version, rows) for version, rows in versions if rows)
    columns = session.table(table).columns
    return {"columns": columns, "rows": _rows(session, table), "oldest": {"version": version, "rows": oldest}}


def _rows(session: Session, table: str) -> list[str]:
    return comparable(session.sql(f"select * from {table}").toArrow())


def _killed(what: str, name: str) -> None:
    """Run one operation in a process that is killed during it."""
    process = subprocess.run([sys.executable, __file__, what, name])
    assert process.returncode == -signal.SIGKILL, f"{what} {name} was not killed"


def _die(what: str, name: str) -> None:
    """Run one operation until this process is killed."""
    if what == "drop":
        catalog = DirectoryCatalog(DyingStorage(WAREHOUSE))
        DyingStorage.text, DyingStorage.deletions = DROPS[name]
        catalog.drop_table("shop", name)
    elif what == "insert":
        session = Session(DirectoryCatalog(DyingStorage(WAREHOUSE)), start_spark(SPARK), "shop", "delta", owns_spark=True)
        DyingStorage.put_text = "_delta_log/" if _format(name) == "delta" else "metadata.json"
        session.sql(f"insert into {name} values (99, 'never', 99.00, date '2026-01-09')")
    else:
        DyingStorage.text, DyingStorage.deletions = ".rowmerge-probe", 1
        DirectoryCatalog(DyingStorage(WAREHOUSE))


def _format(name: str) -> str:
    return "iceberg" if name.startswith("ice_") else "delta"


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Keep the modification time, to the second: a Delta version without an in-commit timestamp has that of its file."""
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = int(entry.mtime), 0, 0, "", ""
    return entry


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        _die(*sys.argv[1:])
