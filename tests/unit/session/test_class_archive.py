"""The path of the archive of Java's classes, and the conditions of its use."""

from __future__ import annotations

import pytest

from rowmerge.errors import ConfigurationError
from rowmerge.session.startup.class_archive import CACHE, archive_stem, find_archive, java_options, make_class_archive


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Return a folder that looks like a Java installation, because these tests start no Java."""
    home = tmp_path / "java home"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "java").touch()
    (home / "lib" / "modules").write_text("17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv(CACHE, str(tmp_path / "the cache"))
    return home


@pytest.fixture
def archive(java, tmp_path):
    """Return a file at the path of an archive."""
    (tmp_path / "the cache").mkdir()
    stem = archive_stem({})
    path = stem.with_name(f"{stem.name}-5.jsa")
    path.write_text("12345")
    return path


def test_an_archive_belongs_to_one_java_and_one_class_path(archive, java, monkeypatch):
    assert find_archive({}) == find_archive({"spark.driver.memory": "2g"}) == archive
    assert find_archive({"spark.driver.extraClassPath": "/jars/of.mine.jar"}) is None
    with monkeypatch.context() as changed:
        changed.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
        assert find_archive({}) is None
    assert find_archive({}) == archive
    (java / "lib" / "modules").write_text("17.0.2")
    assert find_archive({}) is None


def test_only_a_complete_archive_is_used(archive):
    assert java_options({}).startswith(f'"-XX:SharedArchiveFile={archive}" ')
    archive.write_text("1234")
    assert java_options({}) == ""


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/of/mine.jsa", "-XX:ArchiveClassesAtExit=/of/mine.jsa"])
def test_java_options_of_the_user_take_precedence(archive, option):
    assert java_options({"spark.driver.extraJavaOptions": f"-Dx=y {option}"}) == ""


def test_without_java_there_is_no_archive(archive, monkeypatch):
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    assert java_options({}) == ""
    with pytest.raises(ConfigurationError, match="needs Java, Spark and a cache folder"):
        make_class_archive()


def test_a_cache_path_that_is_a_file_is_reported(java, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE, str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigurationError, match=f"file/cache is not writable: .*{CACHE}"):
        make_class_archive()


def test_the_output_of_java_is_in_the_error(java, tmp_path):
    with pytest.raises(ConfigurationError, match="Java did not write a class archive: "):
        make_class_archive()
    assert not list((tmp_path / "the cache").iterdir())
