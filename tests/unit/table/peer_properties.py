"""The names of all table properties that Delta Lake and Iceberg on Spark define, read from their jars or from the lists in `peers`.

As a program, it writes the lists anew: `ROWMERGE_DELTA_JARS=… ROWMERGE_ICEBERG_JAR=… python -m tests.unit.table.peer_properties`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.engine.jvm_peer import DELTA_JARS, ICEBERG_JAR

LISTS = Path(__file__).with_name("peers")
_DELTA_CONFIGS = "org.apache.spark.sql.delta.DeltaConfigsBase"


def listed(format_: str) -> list[str]:
    """Return the names in the list of a format, `delta` or `iceberg`. Names that end with a dot are prefixes."""
    return (LISTS / f"{format_}.txt").read_text(encoding="utf-8").split()


def delta_properties() -> list[str]:
    """Return the names that DeltaConfigs of Delta Lake on Spark defines, from the code of its class."""
    class_path = ":".join(str(jar) for jar in Path(DELTA_JARS).glob("*.jar"))
    return sorted(set(_delta_names(_disassemble(class_path, _DELTA_CONFIGS, "-c"))))


def _delta_names(code: str) -> Iterator[str]:
    """Yield the first string before each call of `buildConfig`, which is the name without `delta.`."""
    strings: list[str] = []
    for line in code.splitlines():
        if match := re.search(r"// String ([A-Za-z][\w.-]*)$", line):
            strings.append(match[1])
        elif re.match(r"  \S", line):
            strings = []  # another method begins
        elif "buildConfig:" in line:
            names = [string for string in strings if string != "false" and not string.startswith(("delta.", "spark."))]
            if names:
                yield f"delta.{names[0]}"
            strings = []


def iceberg_properties() -> list[str]:
    """Return the names that TableProperties of Iceberg defines, from the constants of its class."""
    code = _disassemble(ICEBERG_JAR, "org.apache.iceberg.TableProperties", "-constants")
    constants = re.findall(r"String (\w+) = \"(.*)\";", code)
    return sorted({value for name, value in constants if not re.search(r"_DEFAULT(_|$)|_MODE_(NONE|HASH|RANGE)$", name)})


def _disassemble(class_path: str, class_: str, option: str) -> str:
    command = ["javap", "-p", option, "-cp", class_path, class_]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    for format_, names in {"delta": delta_properties(), "iceberg": iceberg_properties()}.items():
        (LISTS / f"{format_}.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
