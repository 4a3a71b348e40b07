"""Old versions of Spark are rejected by name, for rowmerge and for features that need a newer one."""

from __future__ import annotations

from dataclasses import dataclass

import pyspark
import pytest

import rowmerge
from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import ConfigurationError, SparkTooOld
from rowmerge.session.startup import embedded
from rowmerge.spark.functions import register_python
from rowmerge.spark.spark_session import check_pyspark, check_session, require_spark


@dataclass
class OldServer:
    """A session of a Spark Connect server of this version, in which every call except for the version fails."""

    version: str


@pytest.mark.parametrize("version", ["3.5.9", "3.5.0.dev1", "2.4.8"])
def test_a_pyspark_before_4_0_is_rejected_by_name(monkeypatch, version):
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(
        SparkTooOld, match=rf"rowmerge needs PySpark 4.0 or newer, but the installed version is {version}\. Install"
    ) as caught:
        check_pyspark()
    assert (caught.value.component, caught.value.version, caught.value.oldest) == ("PySpark", version, "4.0")
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize("version", ["4.0.0", "4.0.0.dev1", "4.1.4", "4.10.0"])
def test_a_pyspark_from_4_0_on_is_accepted(monkeypatch, version):
    monkeypatch.setattr(pyspark, "__version__", version)
    check_pyspark()


def test_an_old_pyspark_starts_no_spark(monkeypatch, tmp_path):
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    monkeypatch.setattr(embedded, "active_session", lambda: pytest.fail("looked for a session first"))
    with pytest.raises(SparkTooOld, match=r"pip install 'pyspark>=4\.0,<5'"):
        rowmerge.connect(str(tmp_path / "warehouse"))


def test_an_old_spark_connect_server_is_rejected_by_name(tmp_path):
    with pytest.raises(SparkTooOld, match=r"rowmerge needs Spark 4\.0 or newer, but the installed version is 3\.5\.1\.") as caught:
        rowmerge.connect(str(tmp_path / "warehouse"), spark=OldServer("3.5.1"))
    assert caught.value.component == "Spark"


def test_a_feature_needs_its_version_of_the_server_and_of_its_client(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    check_session(OldServer("4.0.2"))
    require_spark(OldServer("4.1.0"), "4.1", "The feature", "Do without.")
    with pytest.raises(SparkTooOld, match=r"^The feature needs Spark 4\.1 or newer, but the installed version is 4\.0\.2\. Do without\.$"):
        require_spark(OldServer("4.0.2"), "4.1", "The feature", "Do without.")
    monkeypatch.setattr(pyspark, "__version__", "4.0.2")
    with pytest.raises(SparkTooOld, match=r"^The feature needs PySpark 4\.1 or newer, but the installed version is 4\.0\.2\."):
        require_spark(OldServer("4.1.0"), "4.1", "The feature", "Do without.")


def test_a_python_aggregate_is_rejected_before_spark_4_1(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.1.0")
    body = "class Last:\n    def accumulate(self, value): ...\n    def finish(self): ..."
    definition = FunctionDefinition((Parameter("value", "int"),), "int", body, "python", aggregate=True, handler="Last")
    with pytest.raises(SparkTooOld, match=r"The Python aggregate s\.last\(\) needs Spark 4\.1 or newer.* 4\.0\.5\. Write it in SQL, or"):
        register_python(OldServer("4.0.5"), "last", "s.last()", definition)
