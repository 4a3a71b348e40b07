"""A Maven repository with hadoop-aws, for tests of a Spark that adds the package of the connector for S3."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.s3_session import S3_JARS

_GROUPS = {
    "hadoop-aws": "org/apache/hadoop",
    "bundle": "software/amazon/awssdk",
    "analyticsaccelerator-s3": "software/amazon/s3/analyticsaccelerator",
    "wildfly-openssl": "org/wildfly/openssl",
}


def create_maven_repository(home: Path) -> dict[str, str]:
    """Put the jars of hadoop-aws into the Maven repository of a user. Return the environment with which Spark uses it.

    Spark copies the jars, of 700 MB, into `.ivy2.5.2` in the folder of the user.
    """
    artifacts = {jar: re.fullmatch(r"(.+?)-(\d.*)\.jar", jar.name) for jar in Path(S3_JARS).glob("*.jar")}
    names = {jar: (match[1], match[2]) for jar, match in artifacts.items() if match}
    other = [f"<dependency>{_pom_of(*name)}</dependency>" for name in names.values() if name[0] != "hadoop-aws"]
    for jar, (name, version) in names.items():
        folder = home / ".m2" / "repository" / _GROUPS[name] / name / version
        folder.mkdir(parents=True)
        (folder / jar.name).symlink_to(jar)
        dependencies = f"<dependencies>{''.join(other)}</dependencies>" if name == "hadoop-aws" else ""
        pom = f"<project><modelVersion>4.0.0</modelVersion>{_pom_of(name, version)}{dependencies}</project>"
        (folder / jar.with_suffix(".pom").name).write_text(pom)
    return {"SPARK_SUBMIT_OPTS": f"-Duser.home={home}"}


def _pom_of(name: str, version: str) -> str:
    group = _GROUPS[name].replace("/", ".")
    return f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
