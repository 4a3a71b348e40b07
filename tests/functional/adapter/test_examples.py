"""The examples of README.md, docs/tutorial.md and docs/python_api.md work as they are written.

A code block whose first line is a comment with a path is a file of the project. The dbt commands of a `shell` block run in the project. A
`text` block after them shows lines that the commands print. A `python` block is a program.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt_and_capture

from rowmerge.session.startup.embedded import start_spark
from tests.support.examples import ROOT, blocks
from tests.support.jvm import SPARK_SETTINGS


def dbt_commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each dbt command of a shell block that works on an existing project."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["dbt"] and words[1] != "init":
            yield words[1:]


def words_of(line: str) -> str:
    return " ".join(line.split())


@pytest.mark.parametrize(("page", "file_format"), [("README.md", "delta"), ("README.md", "iceberg"), ("docs/tutorial.md", "delta")])
def test_the_project_of_a_page_runs(page: str, file_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"sql", "yaml", "shell", "text"} <= {block.language for block in blocks(page)}
    start_spark(SPARK_SETTINGS)  # The page's profile has no settings of Spark. Other tests of the process need these.
    output, folders = "", ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dbt_project.yml").write_text("name: shop\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n", encoding="utf-8")
    for block in blocks(page):
        if block.file_name:
            path = tmp_path / block.file_name.replace("~/.dbt/", "")
            path.parent.mkdir(parents=True, exist_ok=True)
            content = block.content.replace("/tmp/warehouse", "warehouse")
            if path.name == "profiles.yml":
                content += f"      file_format: {file_format}\n"
            path.write_text(content, encoding="utf-8")
        elif block.language == "shell":
            commands = list(dbt_commands(block.text))
            outputs = [run_dbt_and_capture([*arguments, *folders])[1] for arguments in commands]
            output = "\n".join(outputs) if commands else output
        elif block.language == "text":
            lines = words_of(output)
            assert all(words_of(line) in lines for line in block.text.splitlines()), output


@pytest.mark.parametrize("page", ["README.md", "docs/python_api.md"])
def test_the_python_program_of_a_page_merges_into_a_table(page: str, tmp_path: Path) -> None:
    """The program runs in its own process, because it starts Spark with other settings than the tests."""
    (program,) = [block.text for block in blocks(page) if block.language == "python"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    commit = tmp_path / "warehouse/analytics/orders/_delta_log/00000000000000000001.json"
    assert '"operation":"MERGE"' in commit.read_text(encoding="utf-8")
