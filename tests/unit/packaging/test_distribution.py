"""The content of the wheel and the sdist, and their versions."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import rowmerge
from dbt.adapters.rowmerge.__version__ import version
from rowmerge.spark.spark_session import OLDEST_SPARK

ROOT = Path(__file__).resolve().parents[3]
BUILD = "import sys, setuptools.build_meta as backend; getattr(backend, sys.argv[1])(sys.argv[2])"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a wheel and an sdist, built from a copy so that the source tree stays unchanged."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("setup.py", "pyspark_rowmerge.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source / name)
    for name in ("dbt", "rowmerge"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for kind in ("build_sdist", "build_wheel"):
        process = subprocess.run([sys.executable, "-c", BUILD, kind, str(out)], cwd=source, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr[-2000:]
    return out


def _files(folder: str) -> set[str]:
    """Return all files below a folder of the repository."""
    paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(ROOT)) for path in paths}


def test_the_wheel_contains_exactly_the_modules_and_macros(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == _files("dbt") | _files("rowmerge") | {"pyspark_rowmerge.py"}  # the module by which Spark finds the format
    assert any(name.endswith("/incremental.sql") for name in names)


def test_the_sdist_contains_the_sources_of_the_wheel(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert _files("dbt") | _files("rowmerge") | {"setup.py", "pyspark_rowmerge.py", "pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_adds_no_init_to_packages_of_dbt(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    assert not {"dbt/__init__.py", "dbt/adapters/__init__.py", "dbt/include/__init__.py"} & set(wheel.namelist())


def test_all_versions_are_equal(built: Path) -> None:
    assert version == rowmerge.__version__
    assert next(built.glob("*.whl")).name.startswith(f"dbt_rowmerge-{version}-")
    assert yaml.safe_load((ROOT / "dbt/include/rowmerge/dbt_project.yml").read_text())["version"] == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_declared_and_imported_packages_are_equal(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    lines = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    declared = {re.split(r"[^A-Za-z0-9_-]", line.removeprefix("Requires-Dist: "))[0] for line in lines}
    # dbt.adapters is dbt-adapters, dbt.adapters.spark is dbt-spark; pandas is what PySpark's Arrow conversions import.
    implied = {"dbt-core", "dbt-adapters", "dbt-spark", "pandas"}
    # grpc comes with the extra `connect`, and is imported where a session of Spark Connect is made; botocore with the extra `aws`.
    # Users of `to_polars` install polars.
    # Users of SQL catalogs install `pyiceberg[sql-postgres]` or `pyiceberg[sql-sqlite]` with SQLAlchemy, which only these catalogs import.
    # Users of Hive metastores install the extra `hive` with thrift. pyiceberg contains hive_metastore, which is generated for it.
    optional = {"grpc", "botocore", "polars", "sqlalchemy", "thrift", "hive-metastore"}
    assert _third_party_imports() - {"dbt", "py4j"} - optional | implied == declared | {"pandas"}


def test_pip_installs_no_pyspark_that_the_engine_rejects(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    declared = re.findall(r"^Requires-Dist: (pyspark.*?)(?:;|$)", metadata, re.MULTILINE)
    assert declared
    assert all(Requirement(each).specifier == SpecifierSet(f">={OLDEST_SPARK},<5") for each in declared)


def _third_party_imports() -> set[str]:
    names: set[str] = set()
    for path in (ROOT / file for file in _files("rowmerge") | _files("dbt") if file.endswith(".py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return {name.replace("_", "-") for name in names - sys.stdlib_module_names - {"rowmerge"}}


def test_no_dbt_project_at_the_top_makes_macros_load_twice() -> None:
    assert not (ROOT / "dbt_project.yml").exists()
