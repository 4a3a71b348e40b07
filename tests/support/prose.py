"""Check names, docstrings and comments against the rules of CONTRIBUTING.md: `make prose` prints each violation.

The rules are what a program can check: forbidden names and phrases, sentence length, and imperative first words. The engine and the
adapter also need the sections of public docstrings. `tests/unit/test_prose.py` verifies that the repository has no violation.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLIC_FOLDERS = ("rowmerge", "dbt")
"""The folders whose public functions document their arguments and errors."""
OTHER_FOLDERS = ("tests", "benchmarks", "integration_tests")
MOST_WORDS = 25
MOST_UNDOCUMENTED_PARAMETERS = 2
"""A public function with more parameters than these describes each of them under `Args:`."""

FORBIDDEN_NAMES = frozenset(
    "after asked before done found given gone held kept known left made met mine named none nothing plain rest seen shown small "
    "stored taken theirs told wanted wishes written".split()
)
"""Participles, adjectives and vague words that do not say what a variable, a parameter or a function holds."""

FORBIDDEN_PHRASES = {
    r"\b(is|are|was|were) told\b": "name the actor: `the caller passes`, `the log records`",
    r"\bthat is none\b": "say `unknown`, `not a …`, or `None`",
    r"\bgoe?s? on with\b": "say `continues with`",
    r"\bwhat a \w+ (left|made|wrote) that\b": "name the file or the row first",
    r"\b(knows?|wants?|asks?|tells?|wishes|forgets?|remembers?|believes?|thinks?) (nothing|nobody|how|what|which|whether|that|of)\b": (
        "code does not think: say `reads`, `requires`, `stores`, `returns`"
    ),
    r"\bupkeep\b": "say `maintenance`",
    r"\bmeets? (a|no|one|two) (source )?rows?\b": "say `matches`",
}
"""Regular expressions of metaphors and personifications, with the advice that replaces them."""

VERBS = frozenset(
    """
    abort accept acquire add adjust advise allocate allow answer append apply archive ask assemble assert assign begin bind bring
    build bump call cancel cast change check choose clean clear clone close collect combine commit compact compare complete
    compose compute configure connect construct convert copy count create cut decide declare decode deduplicate define delete
    derive describe detect determine disable discard divide download draw drop encode end enforce ensure enter estimate evaluate exclude
    execute exit expand expire explain export extend extract fail fetch fill filter find finish fit flush fold format forward
    generate get give group guard handle hash have honour ignore implement import include increase infer inherit initialize insert
    inspect install intersect invalidate issue iterate join judge keep kill let limit link list load locate lock log look lower make
    map mark match materialize measure merge migrate mount move name normalize number observe open order overwrite parse pass
    patch percent-decode percent-encode pick plan point prefer prepare preserve print probe process prove prune publish push put quote
    raise read rebuild receive record recover reduce refresh refuse register reject release remember remove rename render reorder
    repair repeat replace report request require reset resolve restore resume retry return reuse revert rewrite roll run save scan search
    select send separate serialize serve set shorten show skip sort split stage start state step stop store stream strip
    substitute subtract sum suppress sync tag take test tighten translate truncate try turn type unify union unlock unpack update
    upgrade upload use validate verify visit wait walk warn widen wrap write yield
    """.split()
)
"""The verbs that begin the docstrings of functions. Add a verb when a function does something else."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*(?=[-*] )")
_SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:", "Example:", "Examples:", "Attributes:", "Note:")
_CODE = re.compile(r"``.*?``|`[^`]*`", re.DOTALL)


def python_files() -> list[Path]:
    """Return the Python files of the engine, the adapter, the tests and the benchmarks, sorted by path."""
    return sorted(path for folder in (*PUBLIC_FOLDERS, *OTHER_FOLDERS) for path in (ROOT / folder).rglob("*.py"))


def violations(text: str, path: str) -> list[str]:
    """Return the violations in the text of one Python module, as `path:line: what is wrong`, in the order of their lines."""
    tree = ast.parse(text)
    parts = [*_names(tree), *_docstrings(tree, has_sections=not path.startswith(OTHER_FOLDERS)), *_comments(text)]
    return [f"{path}:{line}: {message}" for line, message in sorted(parts)]


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and message of each variable, parameter and function with a forbidden name."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg="after" | "before"):
                pass  # A call reads as a phrase: `storage.list(folder, after=path)`.
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                if name.lstrip("_") in FORBIDDEN_NAMES:
                    yield node.lineno, f"`{name}` does not say what it holds: use a noun of the field"


def _docstrings(tree: ast.Module, *, has_sections: bool) -> Iterator[tuple[int, str]]:
    """Yield line and message of each violation in docstrings: prose, first words of functions, sections of public functions.

    The docstring of a test states a claim, so any word can be its first one.
    """
    for node, is_public in _documentable(tree, is_public=True):
        docstring = ast.get_docstring(node)
        line = getattr(node, "lineno", 1)
        if docstring:
            yield from ((line, message) for message in _prose(docstring))
        if isinstance(node, ast.FunctionDef):
            if docstring and not _is_property(node) and not node.name.startswith("test_"):
                yield from ((line, message) for message in _first_word(docstring))
            if has_sections and is_public and not _is_overriding(node):
                yield from ((line, message) for message in _missing_sections(node, docstring or ""))


def _documentable(node: ast.AST, is_public: bool) -> Iterator[tuple[ast.Module | ast.ClassDef | ast.FunctionDef, bool]]:
    """Yield modules, classes and functions, each with whether callers outside its module use it. Functions in functions are private."""
    if isinstance(node, ast.Module):
        yield node, is_public
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            is_child_public = is_public and not child.name.startswith("_")
            yield child, is_child_public
            yield from _documentable(child, is_child_public and isinstance(child, ast.ClassDef))


def _is_property(function: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def _is_overriding(function: ast.FunctionDef) -> bool:
    """Return whether a base class or another overload documents the function."""
    return any(ast.unparse(decorator) in ("override", "overload") for decorator in function.decorator_list)


def _first_word(docstring: str) -> Iterator[str]:
    word = re.split(r"[\s,.:;]", docstring, maxsplit=1)[0]
    if word.lower() not in VERBS:
        yield f"the docstring of a function begins with an imperative verb, not with {word!r}"


def _missing_sections(function: ast.FunctionDef, docstring: str) -> Iterator[str]:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.arg not in ("self", "cls")]
    described = docstring.partition("Args:")[2]
    if len(names) > MOST_UNDOCUMENTED_PARAMETERS and (missing := [name for name in names if f"{name}:" not in described]):
        yield f"`{function.name}` does not describe {', '.join(missing)} under `Args:`"
    if _raises(function) and "Raises:" not in docstring:
        yield f"`{function.name}` raises an error that `Raises:` does not name"


def _raises(function: ast.FunctionDef) -> bool:
    """Return whether the function itself raises an error, and not only a function inside it."""
    nodes: list[ast.AST] = list(function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))
    return False


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and message of each violation in comments. Comments on consecutive lines are one text."""
    lines: list[str] = []
    begin, last = 0, -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            is_whole_line = token.line.lstrip().startswith("#")
            if not (is_whole_line and token.start[0] == last + 1):
                yield from ((begin, message) for message in _prose(" ".join(lines)))
                lines, begin = [], token.start[0]
            lines.append(token.string.lstrip("# "))
            last = token.start[0] if is_whole_line else -1
    yield from ((begin, message) for message in _prose(" ".join(lines)))


def _prose(text: str) -> Iterator[str]:
    """Yield a message for each long sentence and each forbidden phrase."""
    for sentence in _SENTENCE_END.split(text):
        words = _CODE.sub("code", sentence).split()
        if len(words) > MOST_WORDS:
            yield f"a sentence of {len(words)} words: {' '.join(words[:6])} …"
    for phrase, advice in FORBIDDEN_PHRASES.items():
        if match := re.search(phrase, _CODE.sub("code", text), re.IGNORECASE):
            yield f"{match.group()!r}: {advice}"


def main() -> None:
    """Print each violation, and end with status 1 if there is one."""
    messages = [message for path in python_files() for message in violations(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))]
    sys.stdout.write("\n".join(messages or ["no violations"]) + "\n")
    sys.exit(bool(messages))


if __name__ == "__main__":
    main()
