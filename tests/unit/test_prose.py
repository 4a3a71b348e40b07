"""The names, docstrings and comments of the code and its tests follow the rules that `make prose` checks."""

from __future__ import annotations

import pytest

from tests.support.prose import ROOT, python_files, violations


def test_the_repository_has_no_violation() -> None:
    assert len(python_files()) > 300
    messages = [message for path in python_files() for message in violations(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))]
    assert messages == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("found = 1\n", "`found` does not say what it holds"),
        ("def run(kept: int) -> None:\n    pass\n", "`kept` does not say what it holds"),
        ("def _told() -> None:\n    pass\n", "`_told` does not say what it holds"),
        ('def run() -> None:\n    """The files of a table."""\n', "begins with an imperative verb, not with 'The'"),
        ('"""The reader is told the path."""\n', "'is told': name the actor"),
        ("# " + "word " * 26 + "\n", "a sentence of 26 words"),
        ("# " + "word " * 13 + "\n# " + "word " * 13 + "\n", "a sentence of 26 words"),
        ("def run(a: int, b: int, c: int) -> None:\n    pass\n", "does not describe a, b, c under `Args:`"),
        ("def run() -> None:\n    raise ValueError\n", "raises an error that `Raises:` does not name"),
    ],
)
def test_a_violation_is_reported(text: str, message: str) -> None:
    (violation,) = violations(text, "module.py")
    assert violation.startswith("module.py:1: ")
    assert message in violation


@pytest.mark.parametrize(
    "text",
    [
        '@property\ndef rows(self) -> int:\n    """The number of rows."""\n',
        "def _run(a: int, b: int, c: int) -> None:\n    raise ValueError\n",
        "def run() -> None:\n    def fail() -> None:\n        raise ValueError\n",
        "def run(path: str, after: str) -> None:\n    pass\n",
        '"""Return `a name that is told and that is longer than a sentence may be`."""\n',
        "# " + "word " * 20 + ".\n# " + "word " * 20 + "\n",
    ],
)
def test_plain_english_has_no_violation(text: str) -> None:
    assert violations(text, "module.py") == []


def test_tests_have_no_sections_and_their_docstrings_are_claims() -> None:
    text = 'def test_a_claim(a: int, b: int, c: int) -> None:\n    """Rows stay."""\n    raise ValueError\n'
    assert violations(text, "tests/unit/test_claims.py") == []
    assert len(violations(text, "rowmerge/claims.py")) == 2
