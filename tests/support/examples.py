"""The code blocks of the documentation, and the test that runs each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^ *(?:```|~~~)", re.MULTILINE)
FILE_NAME = re.compile(r"(?:--|#) ([\w/.~-]+\.(?:sql|yml|csv|py))\b.*\n")
_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block of a page: its language, and its text without the fences."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file_name(self) -> str | None:
        """The path in the comment of the first line, or None: the block is then no file of a project."""
        match = FILE_NAME.match(self.text)
        return match[1] if match else None

    @property
    def content(self) -> str:
        """The text without the comment that names the file."""
        return FILE_NAME.sub("", self.text, count=1)


@dataclass(frozen=True)
class Rule:
    """The blocks that a test runs: those of a language and of pages whose text begins with a pattern."""

    test: str
    pages: str
    language: str
    beginning: str = ""

    def covers(self, block: Block) -> bool:
        fits = re.fullmatch(self.pages, block.page) and re.fullmatch(self.language, block.language)
        return bool(fits and re.match(self.beginning, block.text))


_PROJECTS = "tests/functional/adapter/test_examples.py"
_PAGES = "tests/functional/adapter/test_page_examples.py"
_STATEMENTS = "tests/engine/test_examples.py"
_COMMANDS = "tests/unit/test_examples.py"
_HIVE = "tests/unit/catalog/test_hive_catalog.py"
RULES = (
    Rule(f"{_PROJECTS}::test_the_project_of_a_page_runs", r"README\.md|docs/tutorial\.md", "sql|yaml|csv", r"(--|#) \S+\.\w+\n"),
    Rule(f"{_PROJECTS}::test_the_project_of_a_page_runs", r"README\.md|docs/tutorial\.md", "text"),
    Rule(f"{_PROJECTS}::test_the_python_program_of_a_page_merges_into_a_table", r"README\.md|docs/python_api\.md", "python"),
    Rule(f"{_HIVE}::test_the_lock_of_a_killed_process_is_named_with_its_remedy", r"docs/deploy/hive\.md", "python"),
    Rule(f"{_COMMANDS}::test_each_command_exists", r".*", "shell"),
    Rule(f"{_COMMANDS}::test_each_command_of_another_system_exists", r"docs/deploy/\w+\.md", "console"),
    Rule(f"{_COMMANDS}::test_the_adapter_accepts_each_profile", r"docs/(profiles|projects)\.md", "yaml", r"\w+:\n  target: "),
    Rule(f"{_COMMANDS}::test_the_adapter_accepts_each_profile", r"docs/deploy/\w+\.md", "yaml", r"# profiles/"),
    Rule(f"{_COMMANDS}::test_the_manifest_and_the_images_fit_their_profile", r"docs/deploy/kubernetes\.md", "yaml", r"# [\w-]+-job\.yaml"),
    Rule(f"{_COMMANDS}::test_the_manifest_and_the_images_fit_their_profile", r"docs/deploy/kubernetes\.md", "dockerfile"),
    Rule(
        "tests/unit/storage/test_retries.py::test_the_options_of_the_page_are_accepted", r"docs/deploy/\w+\.md", "yaml", r"storage_options:"
    ),
    Rule("tests/deploy/test_environments.py::test_each_profile_has_a_page_that_shows_it", r"docs/deploy/\w+\.md", "yaml", r"# profiles/"),
    Rule(
        f"{_COMMANDS}::test_the_adapter_accepts_each_part_of_a_target",
        r"docs/(profiles|formats)\.md",
        "yaml",
        r" *(storage_options|spark_config|type):",
    ),
    Rule(f"{_STATEMENTS}::test_the_statement_of_a_strategy_runs", r"docs/strategies\.md", "sql", r"-- \{"),
    Rule(f"{_STATEMENTS}::test_the_statements_of_a_page_run", r"docs/(sql|functions|procedures)\.md", "sql", r"(create|call|select) "),
    Rule(f"{_STATEMENTS}::test_explain_prints_the_lines_of_the_page", r"docs/sql\.md", "text"),
    Rule("tests/engine/test_streaming.py::test_the_programs_of_the_page_run", r"docs/streaming\.md", "python"),
    Rule(f"{_PAGES}::test_the_model_of_the_first_page_reads_a_source", r"docs/index\.md", "sql", r"-- models/"),
    Rule(f"{_PAGES}::test_the_configs_of_formats_build_tables", r"docs/formats\.md", "sql", r"\{\{ config"),
    Rule(f"{_PAGES}::test_models_call_the_functions", r"docs/functions\.md", "yaml", "functions:"),
    Rule(f"{_PAGES}::test_models_call_the_functions", r"docs/functions\.md", "sql|python", r"(--|#) functions/"),
    Rule(f"{_PAGES}::test_the_operations_run", r"docs/operations\.md", "sql", r"\{\{ config"),
    Rule(f"{_PAGES}::test_models_read_the_sources", r"docs/sources\.md", "yaml", "sources:"),
    Rule(f"{_PAGES}::test_the_python_model_runs", r"docs/python_models\.md", "python"),
    Rule(f"{_PAGES}::test_a_model_names_a_catalog", r"docs/dbt_versions\.md", "yaml", "# catalogs.yml"),
    Rule(f"{_PAGES}::test_a_model_names_a_catalog", r"docs/dbt_versions\.md", "sql", r"\{\{ config"),
    Rule(f"{_PAGES}::test_a_package_calls_the_macro_of_the_project", r"docs/projects\.md", "sql", r"\{% macro"),
    Rule(f"{_PAGES}::test_the_configs_and_macros_of_strategies_build_models", r"docs/strategies\.md", "yaml", "merge_clauses:"),
    Rule(f"{_PAGES}::test_the_configs_and_macros_of_strategies_build_models", r"docs/strategies\.md", "sql", r"\{%|-- depends_on"),
    Rule(f"{_PAGES}::test_the_program_runs_dbt_on_its_own_session", r"docs/profiles\.md", "python"),
)
"""Each block needs a rule. A test runs every block that its rules cover, also blocks that a page gets later."""


def blocks(page: str) -> list[Block]:
    """Return the code blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in _BLOCK.finditer(text)]


def examples_of(test: str, page: str | None = None) -> list[Block]:
    """Return the blocks that the rules of a test cover, in the order of the pages; with `page`, those of one page."""
    rules = [rule for rule in RULES if rule.test.endswith(f"::{test}")]
    assert rules, f"no rule names {test}"
    return [block for each in PAGES if page in (None, each) for block in blocks(each) if any(rule.covers(block) for rule in rules)]
