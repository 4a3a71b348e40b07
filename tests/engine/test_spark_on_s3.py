"""One configuration of S3 reaches metadata, data files on the driver and in tasks, and Spark's reader.

The store is moto behind a proxy that accepts only the keys of the test. Spark runs in a process whose executors lack the environment
variables of the driver.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowmerge.parquet.filesystems import filesystem_of
from rowmerge.storage.configuration import StorageConfiguration
from tests.support.checked_s3 import ANONYMOUS, DRIVER, KEYS, LIBRARIES, TOKENS, CheckedS3, RotatingProfile, static_keys
from tests.support.faulty_s3 import Request, create_bucket, needs_moto, serving
from tests.support.maven_repository import create_maven_repository
from tests.support.s3_session import S3_JARS, S3Session

pytestmark = [
    needs_moto,
    pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws"),
    pytest.mark.full_suite("it starts a Spark with hadoop-aws"),
]


@pytest.fixture(scope="module")
def spark_process() -> Iterator[S3Session]:
    session = S3Session(DRIVER)
    yield session
    session.close()


@pytest.fixture
def store(moto_port: int) -> Iterator[CheckedS3]:
    create_bucket(moto_port)
    with serving(CheckedS3(moto_port)) as proxy:
        assert isinstance(proxy, CheckedS3)
        yield proxy


def use_all_libraries(session: S3Session, name: str = "") -> None:
    """Write and read a table with each library."""
    session.sql("create schema if not exists shop", name)
    session.sql("create table shop.t (id bigint, v string)", name)
    session.sql("insert into shop.t values (1, 'a'), (2, 'b')", name)
    session.sql("insert into shop.t select id + 10, 'c' from range(10)", name)
    change_and_read(session, name)


def change_and_read(session: S3Session, name: str = "") -> None:
    session.sql("create or replace table shop.u as select id from range(10)", name)
    session.sql("update shop.t set v = 'd' where id = 1", name)
    session.sql("merge into shop.t using (select id, 'e' as v from range(5, 25)) s on t.id = s.id when matched then update set *", name)
    assert session.sql("select count(*), sum(id), min(v) from shop.t where length(v) < 5", name) == [["12", "148", "b"]]


def test_keys_endpoint_and_session_token_reach_all_libraries(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    for keys in (KEYS, TOKENS):
        spark_process.connect(f"{store.location}/{tmp_path.name}{keys[0]}", static_keys(store, keys))
        use_all_libraries(spark_process)
        assert store.libraries(keys) == set(LIBRARIES) and store.denied == []
    assert all(request.path.startswith("/lake") for request in store.requests), "the bucket is part of the path"


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_store_that_refuses_connections_is_an_error_with_its_endpoint(
    moto_port: int, spark_process: S3Session, tmp_path: Path, format_: str
) -> None:
    create_bucket(moto_port)
    with serving(CheckedS3(moto_port)) as store:
        assert isinstance(store, CheckedS3)
        options = {**static_keys(store), "retry_config": {"max_retries": 1}}
        spark_process.connect(f"{store.location}/{tmp_path.name}", options, default_format=format_)
        spark_process.sql("create schema shop")
        spark_process.sql("create table shop.t as select id, 'a' as v from range(10)")
    error = spark_process.error("update shop.t set v = 'b' where id > 5")
    first_line = error.splitlines()[0]
    assert first_line.startswith("StorageError: ") and store.address in first_line, error
    assert "Check that the store runs and that its endpoint is reachable" in first_line, error
    assert "\tat " not in error and "java" not in error.lower(), error


def test_the_environment_of_the_driver_reaches_all_libraries(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    store.valid = {KEYS}
    variables = {
        "AWS_ACCESS_KEY_ID": KEYS[0],
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_ENDPOINT_URL": store.address,
        "AWS_REGION": "eu-west-1",
    }
    spark_process.set_environment(variables)
    try:
        spark_process.connect(f"{store.location}/{tmp_path.name}", {})
        use_all_libraries(spark_process)
    finally:
        spark_process.set_environment(dict.fromkeys(variables))
    assert store.libraries(KEYS) == set(LIBRARIES) and store.denied == []


def test_a_public_bucket_is_read_without_keys(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    warehouse = f"{store.location}/{tmp_path.name}"
    spark_process.connect(warehouse, static_keys(store))
    use_all_libraries(spark_process)
    store.valid.add(ANONYMOUS)  # connecting writes a file, which is not needed to read
    options = {"aws_skip_signature": "true", "aws_endpoint_url": store.address}
    spark_process.connect(warehouse, options)
    store.valid = {ANONYMOUS}
    assert spark_process.sql("select count(*) from shop.t where length(v) < 5") == [["12"]]
    assert store.libraries(ANONYMOUS) == {"metadata", "spark"} and store.denied == []
    path = next(request.path for request in store.requests if request.method == "PUT" and ".parquet" in request.path)
    arguments = pickle.loads(pickle.dumps(StorageConfiguration.parse(options).filesystem_options(warehouse)))  # as executors get them
    filesystem, inner_path = filesystem_of(f"s3:/{path.partition('?')[0]}", arguments)
    assert filesystem.get_file_info(inner_path).size > 0 and store.denied == []


def test_two_sessions_use_their_own_keys_for_one_bucket(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    first, second = ("AKIAFIRST", ""), ("AKIASECOND", "")
    for keys in (first, second):
        spark_process.connect(f"{store.location}/{tmp_path.name}", static_keys(store, keys), name=keys[0])
    for number, keys in enumerate((first, second, first, second)):
        store.valid = {keys}
        if number == 0:
            use_all_libraries(spark_process, keys[0])
        change_and_read(spark_process, keys[0])
    assert store.libraries(first) == store.libraries(second) == set(LIBRARIES) and store.denied == []


@pytest.fixture
def profile(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> Iterator[RotatingProfile]:
    profile = RotatingProfile(tmp_path, store)
    spark_process.set_environment(profile.environment)
    yield profile
    spark_process.set_environment({"AWS_CONFIG_FILE": "/missing", "AWS_PROFILE": None})


def rotate_at_first_data_file(store: CheckedS3, profile: RotatingProfile, *, keeps_old: bool) -> list[tuple[str, str]]:
    """Give new keys when the store has accepted the put of a data file. Return a list that then contains them.

    Args:
        store: The store.
        profile: The profile that gives the keys.
        keeps_old: Whether the store accepts the old keys after that request.
    """
    keys: list[tuple[str, str]] = []

    def rotate(request: Request) -> None:
        if request.method == "PUT" and ".parquet" in request.path and not keys:
            keys.append(profile.rotate(keeps_old=keeps_old))

    store.rule = rotate
    return keys


@pytest.mark.parametrize("is_option", [True, False])
def test_keys_of_a_profile_are_renewed_between_statements(
    store: CheckedS3, spark_process: S3Session, profile: RotatingProfile, tmp_path: Path, is_option: bool
) -> None:
    first = profile.rotate()
    if not is_option:
        spark_process.set_environment({"AWS_PROFILE": "lake"})
    spark_process.connect(f"{store.location}/{tmp_path.name}", {"aws_profile": "lake"} if is_option else {})
    use_all_libraries(spark_process)
    second = profile.rotate()
    change_and_read(spark_process)
    assert store.libraries(first) == store.libraries(second) == set(LIBRARIES) and store.denied == []


def test_keys_that_are_renewed_during_a_statement_are_used_by_the_rest_of_it(
    store: CheckedS3, spark_process: S3Session, profile: RotatingProfile, tmp_path: Path
) -> None:
    first = profile.rotate()
    spark_process.connect(f"{store.location}/{tmp_path.name}", {"aws_profile": "lake"})
    use_all_libraries(spark_process)
    second = rotate_at_first_data_file(store, profile, keeps_old=True)
    spark_process.sql("insert into shop.t select id + 100, 'f' from range(100000)")
    assert store.libraries(first) == set(LIBRARIES) and store.libraries(second[0]) == {"metadata"} and store.denied == []


def test_a_job_whose_keys_end_starts_again_with_new_ones(
    store: CheckedS3, spark_process: S3Session, profile: RotatingProfile, tmp_path: Path
) -> None:
    first = profile.rotate()
    spark_process.connect(f"{store.location}/{tmp_path.name}", {"aws_profile": "lake"})
    use_all_libraries(spark_process)
    second = rotate_at_first_data_file(store, profile, keeps_old=False)
    spark_process.sql("insert into shop.t select id + 100, 'f' from range(0, 1000, 1, 4)")
    assert {line.split(" ")[0] for line in store.denied} == {"executor"} and all(first[0] in line for line in store.denied)
    assert spark_process.sql("select count(*), count(distinct id) from shop.t") == [["1012", "1012"]]
    assert store.libraries(second[0]) >= {"metadata", "executor"}


def test_keys_that_end_for_good_are_an_error_that_says_so(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    spark_process.connect(f"{store.location}/{tmp_path.name}", static_keys(store, TOKENS))
    use_all_libraries(spark_process)

    def end_keys(request: Request) -> None:
        if request.method == "PUT" and ".parquet" in request.path:
            store.valid = set()

    store.rule = end_keys
    with pytest.raises(AssertionError, match=r"The credentials have ended. Run the statement again with new ones") as failure:
        spark_process.sql("insert into shop.t select id + 100, 'f' from range(0, 1000, 1, 4)")
    assert "hush" not in str(failure.value)


def test_a_web_identity_gets_keys_from_sts(store: CheckedS3, spark_process: S3Session, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a.web.identity")
    role = {"aws_role_arn": "arn:aws:iam::123456789012:role/dbt", "aws_web_identity_token_file": str(token), "aws_role_session_name": "run"}
    options = {**role, "aws_endpoint_url": store.address, "aws_endpoint_url_sts": store.address, "aws_region": "us-east-1"}
    spark_process.connect(f"{store.location}/{tmp_path.name}", options)
    use_all_libraries(spark_process)
    (keys,) = store.issued
    assert keys[1] and store.libraries(keys) == set(LIBRARIES) and store.denied == []


def test_the_number_of_threads_is_bounded_when_keys_change(
    store: CheckedS3, spark_process: S3Session, profile: RotatingProfile, tmp_path: Path
) -> None:
    profile.rotate()
    spark_process.connect(f"{store.location}/{tmp_path.name}", {"aws_profile": "lake"})
    use_all_libraries(spark_process)
    counts = []
    for _ in range(30):
        profile.rotate()
        spark_process.sql("select count(*) from shop.t where length(v) < 5")
        counts.append(spark_process.threads())
    # Spark's own pools grow by up to 200 threads. Of each file system, five remain.
    assert counts[-1] < counts[0] + 200 + 30 * 6, counts


EMBEDDED = """
import json, sys, rowmerge
session = rowmerge.connect(sys.argv[1], storage_options=json.loads(sys.argv[2]))
session.sql("create schema shop")
session.sql("create table shop.t as select id, 'v' as v from range(10)")
print(session.spark.conf.get("spark.jars.packages"), session.sql("select sum(id) from shop.t where length(v) = 1").collect()[0][0])
"""


def test_the_embedded_spark_adds_the_connector(store: CheckedS3, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= create_maven_repository(tmp_path)
    arguments = [f"{store.location}/{tmp_path.name}", json.dumps(static_keys(store))]
    result = subprocess.run(
        [sys.executable, "-c", EMBEDDED, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    shutil.rmtree(tmp_path / ".ivy2.5.2", ignore_errors=True)  # 700 MB
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.fullmatch(r"org\.apache\.hadoop:hadoop-aws:[\d.]+ 45", result.stdout.splitlines()[-1])
    assert "spark" in store.libraries(KEYS) and store.denied == []
