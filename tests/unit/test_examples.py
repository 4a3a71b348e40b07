"""Every code block of the documentation has a test that runs it; commands and profiles are valid."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import click
import pyspark
import pytest
import yaml
from dbt.cli.main import cli
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context

from dbt.adapters.rowmerge import RowmergeCredentials
from rowmerge.__main__ import main as rowmerge_command
from tests.support.examples import FENCE, PAGES, ROOT, RULES, Block, blocks, examples_of

MAKE_TARGETS = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
SHELL = {"cd", "mkdir", "rm", "source", "pip"}
"""Commands of the shell, and of pip, which needs the network."""
PYTHON = {"python", "python3", ".venv/bin/python"}
OUTSIDE = {"venv", "pytest"}
SYSTEMS = {"conda", "docker", "export", "install", "kubectl", "umask"}
"""Commands of systems that tests do not start. Scripts of Spark exist in the PySpark wheel or in a Spark distribution."""
SPARK_SCRIPTS = {"sbin/start-master.sh", "sbin/start-worker.sh"}


@pytest.mark.parametrize("page", PAGES)
def test_each_block_has_a_rule(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(FENCE.findall(text)) == 2 * len(blocks(page)), "a fence is indented, has no end, or is not ```"
    assert [str(block) for block in blocks(page) if not any(rule.covers(block) for rule in RULES)] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.test} {rule.language} {rule.beginning}")
def test_each_rule_covers_a_block_and_names_a_test(rule: Any) -> None:
    path, _, test = rule.test.partition("::")
    assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
    assert any(rule.covers(block) for page in PAGES for block in blocks(page))


@pytest.mark.parametrize("block", examples_of("test_each_command_exists"), ids=str)
def test_each_command_exists(block: Block) -> None:
    for words in commands(block.text):
        assert_exists(words)


@pytest.mark.parametrize("block", examples_of("test_each_command_of_another_system_exists"), ids=str)
def test_each_command_of_another_system_exists(block: Block) -> None:
    for words in commands(block.text):
        is_script = words[0] in SPARK_SCRIPTS or (Path(pyspark.__file__).parent / words[0]).is_file()
        assert words[0] in SYSTEMS or is_script, words
        settings = [value for option, value in pairwise(words) if option == "--conf"]
        assert all(re.match(r"spark\.[\w.]+=.", setting) for setting in settings), words


def test_the_manifest_and_the_images_fit_their_profile() -> None:
    """The job sets all variables of the profile, and runs as the account and with the image that the commands create."""
    page = "docs/deploy/kubernetes.md"
    profile = next(block.text for block in examples_of("test_the_adapter_accepts_each_profile", page))
    systems = [*chain.from_iterable(commands(block.text) for block in blocks(page) if block.language == "console")]
    examples = {block.text.split()[1]: block.text for block in examples_of("test_the_manifest_and_the_images_fit_their_profile", page)}
    pod = yaml.safe_load(examples.pop("dbt-job.yaml"))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"] for variable in container["env"]}
    secrets = {name for words in systems for name in re.findall(r"--from-literal=(\w+)", " ".join(words))}
    assert variables | secrets == set(re.findall(r"env_var\('(\w+)'\)", profile))
    assert ["kubectl", "create", "serviceaccount", pod["serviceAccountName"]] in [words[:4] for words in systems]
    assert ["kubectl", "create", "secret", "generic", container["envFrom"][0]["secretRef"]["name"]] in [words[:5] for words in systems]
    images = {words[3]: words[5] for words in systems if words[:2] == ["docker", "build"]}
    settings = yaml.safe_load(profile)["analytics"]["outputs"]["prod"]["spark_config"]
    assert images == {"executor.Dockerfile": settings["spark.kubernetes.container.image"], "dbt.Dockerfile": container["image"]}
    assert examples.keys() == images.keys()
    (spark,) = {*re.findall(r"(?:apache/spark:|pyspark==)([\d.]+)", "".join(examples.values()))}
    assert spark.startswith("4.")
    assert {f"--namespace {settings['spark.kubernetes.namespace']}" in " ".join(words) for words in systems if "apply" in words} == {True}


@pytest.mark.parametrize("page", [page for page in PAGES if "performance" not in page])
def test_each_command_in_a_sentence_exists(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`((?:make|python -m) [^`\n]+)`", text):
        for words in commands(code):
            assert_exists(words)


@pytest.mark.parametrize("page", [page for page in PAGES if "performance" not in page])
def test_each_file_in_a_sentence_exists(page: str) -> None:
    """Paths from the root of the repository. A path with a placeholder is none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:tests|benchmarks|integration_tests|rowmerge|dbt)/[\w/.]+\.(?:py|sql|md|txt))`", text))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell block."""
    for line in text.splitlines():
        for command in line.split(" && "):
            if words := shlex.split(command, comments=True):
                yield words


def assert_exists(words: list[str]) -> None:
    """Check the first words of a command: the target, the subcommand, or the module and the files that it names."""
    match words:
        case ["make", *arguments]:
            targets = [argument for argument in arguments if re.fullmatch(r"[\w-]+", argument)]
            assert targets and set(targets) <= MAKE_TARGETS, words
        case ["dbt", subcommand, *_]:
            assert subcommand in cli.commands, words
        case ["rowmerge", *arguments]:
            command: Any = rowmerge_command
            while isinstance(command, click.Group):
                command, arguments = command.commands[arguments[0]], arguments[1:]
            command.make_context("rowmerge", arguments)  # raises an error for unknown options
        case [python, "-m", module, *arguments] if python in PYTHON:
            assert module in OUTSIDE or importlib.util.find_spec(module), words
            assert all((ROOT / path).exists() for path in arguments if path.startswith(("tests/", "benchmarks/"))), words
        case [command, *_]:
            assert command in SHELL, words


@pytest.mark.parametrize("module", ["rowmerge", "benchmarks.paired"])
def test_a_program_prints_its_usage(module: str) -> None:
    process = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0 and process.stdout.lower().startswith("usage:"), process.stderr


def rendered(value: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a part of a profile as dbt renders it, with a value for each environment variable."""
    for name in re.findall(r"env_var\('(\w+)'\)", str(value)):
        monkeypatch.setenv(name, "secret")
    set_invocation_context(dict(os.environ))
    return ProfileRenderer({}).render_data(value)


def credentials(target: dict[str, Any]) -> RowmergeCredentials:
    """Return the adapter's credentials of a target. Raises an error for an unknown key or an invalid value."""
    data = {name: value for name, value in target.items() if name not in ("type", "threads")}
    RowmergeCredentials.validate(data)
    return RowmergeCredentials.from_dict(data)


@pytest.mark.parametrize("block", examples_of("test_the_adapter_accepts_each_profile"), ids=str)
def test_the_adapter_accepts_each_profile(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in rendered(yaml.safe_load(block.text), monkeypatch).values():
        assert profile["target"] in profile["outputs"]
        for target in profile["outputs"].values():
            assert target["type"] == "rowmerge"
            assert credentials(target).warehouse == target["warehouse"]


@pytest.mark.parametrize("block", examples_of("test_the_adapter_accepts_each_part_of_a_target"), ids=str)
def test_the_adapter_accepts_each_part_of_a_target(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a target on an object store or in a REST catalog. The functional tests start such services."""
    part = rendered(yaml.safe_load(block.text), monkeypatch)
    target = {"schema": "analytics", **part}
    if "catalog" not in part:
        target["warehouse"] = "s3://lake/warehouse"
    accepted = credentials(target)
    for name in set(part) - {"type"}:
        assert getattr(accepted, name), f"{name} has no effect"
