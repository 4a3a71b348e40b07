"""Java's archive of the classes that Spark loads (application class-data sharing), so that the embedded Spark starts faster.

Spark and what it runs are some twenty thousand classes. Java finds, parses and verifies them at each start; from an archive it maps them
as they were (JEP 350; `man java`, -XX:ArchiveClassesAtExit). An archive is good for one Java and one class path: both are in its name, and
its size. Java verifies that the archive belongs to its build and to the jars, but crashes (SIGBUS) on a truncated archive.

Measured with `benchmarks/start.py` on 2 cores, medians of 5: Spark starts in 3.5 instead of 6.7 s, and start, CREATE, MERGE and SELECT take
10.7 instead of 16.9 s. Java writes the archive at its end, in 20 s and more, so only
`python -m rowmerge archive-classes` writes it, never a `dbt run`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from rowmerge.errors import ConfigurationError

CACHE = "ROWMERGE_CACHE"
"""The environment's variable with the folder of archives; without it `rowmerge` in the user's cache folder."""

_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""What Spark's launcher puts on the class path besides its own jars."""
_OWN = ("ArchiveClassesAtExit", "SharedArchiveFile", "-Xshare")
# Java says on standard output if it cannot use an archive, and goes on without: nobody asked it.
_QUIET = "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds=off -Xlog:cds+dynamic=off"


def find_archive(config: Mapping[str, str]) -> Path | None:
    """The archive of this Java and this Spark with a configuration, if there is one, whole: Java would crash on one that was cut off."""
    stem = _stem(config)
    for path in _archives(stem) if stem else ():
        with suppress(FileNotFoundError):  # another process has just replaced it
            if path.stem.endswith(f"-{path.stat().st_size}"):
                return path
    return None


def java_options(config: Mapping[str, str]) -> str:
    """The options for Java to use the archive, if there is one and `config` says nothing of archives itself, else an empty text."""
    path = find_archive(config)
    if path is None or any(option in config.get("spark.driver.extraJavaOptions", "") for option in _OWN):
        return ""
    return f"{_quoted(f'-XX:SharedArchiveFile={path}')} {_QUIET}"


def make_archive() -> Path:
    """Make the archive of the Java and the Spark of this process: in a process of its own that runs statements of all kinds once.

    Returns its path (about 190 MB), after half a minute and more. One that is there already is replaced, and processes that use it keep
    theirs. Raises ConfigurationError where Java or Spark are not found, there is no folder for it, or Java makes none.
    """
    stem = _stem({})
    if stem is None:
        raise ConfigurationError(
            f"There is no place or no Java for an archive of classes. Set {CACHE} to a folder that can be written, and JAVA_HOME."
        )
    try:
        stem.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".making-", dir=stem.parent)
    except OSError as error:
        raise ConfigurationError(f"{stem.parent} cannot be written: {error.strerror}. Set {CACHE} to a folder that can be.") from error
    with folder as made:
        archive = Path(made) / "classes.jsa"
        train = "import sys; from rowmerge.session.training import train; train(*sys.argv[1:])"
        options = f"{_quoted(f'-XX:ArchiveClassesAtExit={archive}')} {_QUIET}"
        embedded = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        # Java writes the archive when it ends, after Python did: it holds on to the pipes that are waited for.
        command = [sys.executable, "-c", train, made, options]
        done = subprocess.run(command, env=embedded, capture_output=True, text=True, check=False)
        if done.returncode or not archive.is_file():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise ConfigurationError(f"Java made no archive of classes: {lines[-1] if lines else 'it says nothing about why'}")
        path = Path(f"{stem}-{archive.stat().st_size}.jsa")
        archive.replace(path)
    for other in _archives(stem):
        if other != path:
            other.unlink(missing_ok=True)
    return path


def _stem(config: Mapping[str, str]) -> Path | None:
    """How the paths of archives of this Java and this Spark begin; None without a folder for them, Java or Spark."""
    java, spark = _java(), _spark_home()
    try:
        folder = _folder()
        jars = [(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(spark / "jars")]
        runtime = (java.parent.parent / "lib" / "modules").stat() if java else None
    except (OSError, RuntimeError):
        return None
    if runtime is None:
        return None
    added = [os.environ.get(name) for name in _CLASS_PATH] + [config.get("spark.driver.extraClassPath")]
    described = json.dumps([str(java), runtime.st_size, runtime.st_mtime_ns, str(spark), sorted(jars), added])
    return folder / f"spark-{pyspark.__version__}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"


def _archives(stem: Path) -> list[Path]:
    """All archives of a stem; behind it their names tell their size in bytes."""
    return sorted(path for path in stem.parent.glob("*.jsa") if path.name.startswith(f"{stem.name}-"))


def _quoted(option: str) -> str:
    """An option as Spark's launcher takes it for one, spaces or not."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _folder() -> Path:
    if own := os.environ.get(CACHE):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "rowmerge"


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(path).resolve() if path else None


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
