"""Java's archive of the classes that Spark loads (application class-data sharing), so that the embedded Spark starts faster.

Spark and its libraries have some twenty thousand classes. Java finds, parses and verifies them at each start, but maps them directly from
an archive (JEP 350; `man java`, -XX:ArchiveClassesAtExit). An archive fits one Java and one class path. Its name contains a digest of both,
and its own size. Java verifies that the archive belongs to its build and to the jars, but crashes (SIGBUS) on a truncated archive.

With an archive, Spark starts in 3.5 s instead of 6.7 s. Start, CREATE, MERGE and SELECT together take 10.7 s instead of 16.9 s (medians of
5 runs on 2 cores, `benchmarks/start.py`). Java takes 20 s or more to write the archive when it ends. So only
`python -m rowmerge archive-classes` writes one.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from rowmerge.errors import ConfigurationError
from rowmerge.session.startup.installation import CACHE, cache_folder, java_executable

_CLASS_PATH_VARIABLES = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""The environment variables whose paths Spark's launcher adds to the class path."""
_ARCHIVE_OPTIONS = ("ArchiveClassesAtExit", "SharedArchiveFile", "-Xshare")
# Without these options, Java prints on standard output that it cannot use an archive, and then runs without it.
_QUIET = "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds=off -Xlog:cds+dynamic=off"


def find_archive(config: Mapping[str, str]) -> Path | None:
    """Return the archive for this Java, this Spark and a configuration, or None if there is no complete archive.

    The size in the name shows whether an archive is complete. A truncated archive would crash Java.
    """
    stem = archive_stem(config)
    for path in _archives(stem) if stem else ():
        with suppress(FileNotFoundError):  # another process has just replaced the archive
            if path.stem.endswith(f"-{path.stat().st_size}"):
                return path
    return None


def java_options(config: Mapping[str, str]) -> str:
    """Return the Java options that use the archive. Return an empty string if there is no archive, or if `config` sets such options."""
    path = find_archive(config)
    if path is None or any(option in config.get("spark.driver.extraJavaOptions", "") for option in _ARCHIVE_OPTIONS):
        return ""
    return f"{_quote_option(f'-XX:SharedArchiveFile={path}')} {_QUIET}"


def make_class_archive() -> Path:
    """Write a class-data-sharing archive (AppCDS), with which the Java of this process starts Spark faster.

    A child process runs typical statements, and Java archives the classes that these load. This takes half a minute or more. The new
    archive replaces an old one, which running processes keep open. The name of the archive ends with its size, so that `find_archive`
    recognizes a truncated file, which would crash Java.

    Returns:
        The path of the archive, a file of about 190 MB.

    Raises:
        ConfigurationError: Java, Spark or a folder for the archive is missing, or Java writes no archive.
    """
    path_prefix = archive_stem(config={})  # the archive is for sessions whose configuration adds no class path
    if path_prefix is None:
        advice = f"Set {CACHE} to a writable folder, and JAVA_HOME to a Java installation."
        raise ConfigurationError(f"A class archive needs Java, Spark and a cache folder, and one of them is missing. {advice}")
    with _create_temporary_folder(path_prefix.parent) as folder:
        new_archive = _create_archive(folder)
        path = Path(f"{path_prefix}-{new_archive.stat().st_size}.jsa")
        new_archive.replace(path)
    for other_path in _archives(path_prefix):
        if other_path != path:
            other_path.unlink(missing_ok=True)
    return path


def _create_temporary_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """Create a temporary folder in `parent`, and `parent` if it is missing. Raise ConfigurationError if `parent` is not writable."""
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".making-", dir=parent)
    except OSError as error:
        raise ConfigurationError(f"{parent} is not writable: {error.strerror}. Set {CACHE} to a writable folder.") from error


def _create_archive(folder: str) -> Path:
    """Run the training statements in a child process, and return the class-data-sharing archive that Java writes when it ends.

    Raise ConfigurationError if Java writes no archive.
    """
    archive = Path(folder) / "classes.jsa"
    options = f"{_quote_option(f'-XX:ArchiveClassesAtExit={archive}')} {_QUIET}"
    code = "import sys; from rowmerge.session.training import train; train(*sys.argv[1:])"
    # With SPARK_REMOTE, the child would use a Spark Connect server and start no Java.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    # Java writes the archive when it ends, after Python: Java keeps the captured pipes open, so `run` waits for both.
    child = subprocess.run([sys.executable, "-c", code, folder, options], env=environment, capture_output=True, text=True, check=False)
    if child.returncode or not archive.is_file():
        lines = [line for line in child.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else "it reported no reason"
        raise ConfigurationError(f"Java did not write a class archive: {reason}")
    return archive


def archive_stem(config: Mapping[str, str]) -> Path | None:
    """Return the path prefix of the class-data archives for this Java and Spark, or None if Java, Spark or a cache folder is missing.

    Java rejects an archive of another Java build or class path. So the name contains a digest of the Java runtime, the jars of Spark and
    the class path.
    """
    java = java_executable()
    if java is None:
        return None
    spark_home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    try:
        folder = cache_folder()
        jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in os.scandir(spark_home / "jars"))
        java_modules = (java.parent.parent / "lib" / "modules").stat()  # the Java runtime of `<java home>/bin/java`
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return None
    class_path = [*map(os.environ.get, _CLASS_PATH_VARIABLES), config.get("spark.driver.extraClassPath")]
    identity = [str(java), java_modules.st_size, java_modules.st_mtime_ns, str(spark_home), jars, class_path]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return folder / f"spark-{pyspark.__version__}-{digest}"


def _archives(stem: Path) -> list[Path]:
    """Return all archives with a path prefix. The rest of each file name is the size of the archive in bytes."""
    return sorted(path for path in stem.parent.glob("*.jsa") if path.name.startswith(f"{stem.name}-"))


def _quote_option(option: str) -> str:
    """Quote an option, so that Spark's launcher does not split it at spaces."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
