"""Convert the SQL of dbt's tests, which is written for Postgres, to Spark's SQL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TYPES = {"text": "string", "double precision": "double", "timestamp without time zone": "timestamp"}
_TYPE = re.compile(r"\b(" + "|".join(TYPES) + r")\b(?=[ ]*(?:,|\)|;|\n|$|\|\||as\b))", re.IGNORECASE)
_MOMENT = re.compile(r"'(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)'")
_NAME = re.compile(r'"(\w+)"')


def spark_sql(sql):
    """Replace the names of types, the quotes of names, and timestamp literals."""
    sql = _TYPE.sub(lambda match: TYPES[match[1].lower()], sql)
    return _NAME.sub(r"`\1`", _MOMENT.sub(r"timestamp'\1'", sql))


class InSparkSql:
    """Converts the SQL that a test runs itself with `spark_sql`. `beside`: the module of the suite in whose folder its files are."""

    beside = None

    @pytest.fixture(scope="class")
    def project(self, project):
        run = project.run_sql
        project.run_sql = lambda sql, fetch=None: run(spark_sql(sql), fetch=fetch)
        if self.beside is not None:
            project.test_dir = Path(self.beside.__file__).parent
            project.test_data_dir = project.test_dir / "data"
        return project
