"""Several users of one group share a warehouse on one server (docs/deploy/server.md)."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.readers import read_with_delta_rs, read_with_pyiceberg
from tests.support.standalone import Driver

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root starts processes of other users"),
    pytest.mark.full_suite("it starts a Spark for each user"),
    pytest.mark.one_of("format_"),
]
GROUP = 12000
ANN, BOB = USERS = [account.pw_uid for account in pwd.getpwall() if account.pw_uid][:2]
"""Users with accounts, because Hadoop needs their names."""
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
CHECKS = "import rowmerge, sys; print(*rowmerge.check_environment(sys.argv[1]), sep='\\n')"
MERGE = (
    "merge into t using (select {id}L as id, '{value}' as v) s on t.id = s.id when matched then update set * when not matched then insert *"
)


def command_of(user: int, umask: str = "002") -> list[str]:
    """Return the beginning of a command that a user of the group runs.

    The Python of the tests may be in a folder of root. So the user may read all files, but needs the rights of the folders to write.
    """
    rights = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]
    user_and_group = [f"--reuid={user}", f"--regid={GROUP}", "--clear-groups"]
    return ["setpriv", *user_and_group, *rights, "sh", "-c", f'umask {umask} && exec "$0" "$@"']


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that all users may enter, with the warehouse that docs/deploy/server.md creates, and a home folder of each user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    subprocess.run(["install", "-d", "-m", "2775", "-g", str(GROUP), str(folder / "warehouse")], check=True)
    for user in USERS:
        subprocess.run(["install", "-d", "-m", "0700", "-o", str(user), str(folder / str(user))], check=True)
    yield folder
    shutil.rmtree(folder)


def environment_of(user: int, folder: Path) -> dict[str, str]:
    home = str(folder / str(user))
    return {"HOME": home, "JAVA_TOOL_OPTIONS": f"-Duser.home={home}", "PYTHONPATH": str(Path(__file__).parents[2])}


def owners_of(table: Path) -> set[int]:
    """Return the users to whom the data files of a table belong."""
    return {path.stat().st_uid for path in table.rglob("part-*.parquet")}


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_users_of_a_group_change_vacuum_and_drop_one_table(folder: Path, format_: str) -> None:
    warehouse = folder / "warehouse"
    table = warehouse / "default" / "t"
    drivers = [Driver(str(warehouse), SETTINGS, environment=environment_of(user, folder), command=command_of(user)) for user in USERS]
    ann, bob = drivers
    try:
        ann.sql(f"create table t using {format_} as select id, 'new' as v from range(3)")
        bob.sql(MERGE.format(id=1, value="of bob"))
        ann.sql(MERGE.format(id=2, value="of ann"))
        bob.sql("optimize t")
        assert owners_of(table) == set(USERS)
        ann.sql(MERGE.format(id=3, value="of ann"))
        bob.sql("vacuum t retain 0 hours")
        ann.sql("optimize t")
        ann.sql("vacuum t retain 0 hours")
        assert owners_of(table) == {ANN}, "files of the other user remain"
        reader = read_with_delta_rs if format_ == "delta" else read_with_pyiceberg
        rows = sorted(reader(table.as_uri()).to_pylist(), key=json.dumps)
        assert rows == [{"id": 0, "v": "new"}, {"id": 1, "v": "of bob"}, {"id": 2, "v": "of ann"}, {"id": 3, "v": "of ann"}]
        bob.sql("drop table t")
        assert not owners_of(table)
    finally:
        for driver in drivers:
            driver.close()


def test_each_user_checks_the_store_beside_the_scratch_file_of_another_one(folder: Path) -> None:
    warehouse = folder / "warehouse"
    killed = warehouse / ".rowmerge-debug" / "killed"
    subprocess.run([*command_of(ANN), "sh", "-c", f"mkdir {killed.parent} && touch -d '1 hour ago' {killed}"], check=True)
    for user in (BOB, ANN):
        command = [*command_of(user), sys.executable, "-c", CHECKS, str(warehouse)]
        process = subprocess.run(command, env={**os.environ, **environment_of(user, folder)}, capture_output=True, text=True, check=True)
        assert process.stdout.count("status='OK'") >= 6 and "ERROR" not in process.stdout, process.stdout
        assert not killed.exists()
