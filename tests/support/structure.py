"""Print the structure of the engine: `make structure`. `tests/unit/test_structure.py` verifies what must not occur.

Imports are counted whether they run or only serve annotations.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION, MOST_METHODS, MOST_MODULES = 400, 40, 22, 12
_TOKENS_WITHOUT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
LENGTH_REASON = "# Over 40 lines: "
"""A comment that begins like this, inside a function, says why the function is long."""


@dataclass
class Module:
    """A module of the engine or the adapter. `imports`: the names of the modules that it imports from the same tree."""

    name: str
    path: Path
    tree: ast.Module
    lines: int
    imports: set[str] = field(default_factory=set)

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def code_lines(self) -> int:
        """The number of lines without blank lines, comments and docstrings (of attributes, too), which may grow while the code does not."""
        lines: set[int] = set()
        with tokenize.open(self.path) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type not in _TOKENS_WITHOUT_CODE:
                    lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            # A statement that is a text documents a module, a class, a function, or the attribute above it.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(lines)


def read_modules(folder: str = "rowmerge") -> dict[str, Module]:
    """Parse every module below a folder of the repository, and resolve what each imports from it."""
    modules = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, ast.parse(text), len(text.splitlines()))
    for module in modules.values():
        module.imports = {name for name in _imported(module.tree, modules) if name != module.name}
    return modules


def _imported(tree: ast.Module, modules: Mapping[str, Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in modules else node.module


def cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other (Tarjan's strongly connected components with more than one node)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for neighbour in imports.get(node, ()):
            if neighbour not in numbers:
                visit(neighbour)
                lowest[node] = min(lowest[node], lowest[neighbour])
            elif neighbour in stack:
                lowest[node] = min(lowest[node], numbers[neighbour])
        if lowest[node] == numbers[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(imports):
        if node not in numbers:
            visit(node)
    return groups


def module_cycles(modules: Mapping[str, Module]) -> list[list[str]]:
    """Return the cycles of modules. Imports of a package's `__init__` by its own modules count, too."""
    return cycles({module.name: module.imports for module in modules.values()})


def package_cycles(modules: Mapping[str, Module]) -> list[list[str]]:
    """Return the cycles of packages below the root. The root exports names of packages, so it takes part in none."""
    imports: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for name in module.imports:
            imports[module.package].add(modules[name].package)
    root = next(iter(modules)).partition(".")[0]
    return cycles({package: targets - {package, root} for package, targets in imports.items() if package != root})


def upward_imports(modules: Mapping[str, Module]) -> list[str]:
    """Return the imports against the order of layers that the contracts of import-linter state, also those of annotations alone."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    upward = []
    for contract in contracts:
        for container in contract.get("containers", ()):
            ranks = {f"{container}.{name.strip(' ()')}": rank for rank, layer in enumerate(contract["layers"]) for name in layer.split("|")}
            for module in modules.values():
                for name in module.imports:
                    here, there = _layer_of(module.name, ranks), _layer_of(name, ranks)
                    if here is not None and there is not None and here != there and ranks[here] >= ranks[there]:
                        upward.append(f"{module.name} imports {name}")
    return sorted(upward)


def _layer_of(module: str, ranks: Mapping[str, int]) -> str | None:
    return next((layer for layer in ranks if module == layer or module.startswith(f"{layer}.")), None)


def long_files(modules: Mapping[str, Module]) -> list[str]:
    return [f"{module.name}: {module.lines} lines" for module in modules.values() if module.lines > MOST_LINES_OF_A_FILE]


def long_functions(modules: Mapping[str, Module]) -> list[tuple[str, int, str]]:
    """Return name, number of lines, and the reason in the function's comment ("" if there is none) of each long function."""
    functions = []
    for module in modules.values():
        source = module.path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                lines = source[node.lineno - 1 : node.end_lineno]
                if len(lines) > MOST_LINES_OF_A_FUNCTION:
                    reasons = [line.partition(LENGTH_REASON)[2] for line in lines if LENGTH_REASON in line]
                    functions.append((f"{module.name}.{node.name}", len(lines), reasons[0] if reasons else ""))
    return functions


def large_classes(modules: Mapping[str, Module]) -> list[str]:
    classes = []
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) for child in node.body)
                if methods > MOST_METHODS:
                    classes.append(f"{module.name}.{node.name}: {methods} methods")
    return classes


def large_packages(modules: Mapping[str, Module]) -> list[str]:
    counts = Counter(module.package for module in modules.values() if module.path.name != "__init__.py")
    return [f"{package}: {count} modules" for package, count in sorted(counts.items()) if count > MOST_MODULES]


def main() -> None:
    engine, adapter = read_modules(), read_modules("dbt")
    both = {**engine, **adapter}
    packages: dict[str, list[Module]] = defaultdict(list)
    for module in both.values():
        packages[module.package].append(module)
    print(f"{'package':42} {'lines':>6} {'of code':>7} {'modules':>7}")
    for name, modules in [*sorted(packages.items()), ("the engine", list(engine.values())), ("engine and adapter", list(both.values()))]:
        all_lines, code_lines = sum(module.lines for module in modules), sum(module.code_lines for module in modules)
        print(f"  {name:40} {all_lines:6} {code_lines:7} {len(modules):7}")
    findings = {
        "upward imports": upward_imports(engine),
        "cycles of modules": [" -> ".join(group) for group in module_cycles(both)],
        "cycles of packages": [" -> ".join(group) for group in package_cycles(engine)],
        f"classes with more than {MOST_METHODS} methods": large_classes(both),
        f"files over {MOST_LINES_OF_A_FILE} lines": long_files(both),
        f"functions over {MOST_LINES_OF_A_FUNCTION} lines": [
            f"{name}: {lines} lines. {reason or 'NO REASON'}" for name, lines, reason in long_functions(both)
        ],
        f"packages with more than {MOST_MODULES} modules": large_packages(both),
    }
    for title, lines in findings.items():
        print(f"{title}: {len(lines) or 'none'}")
        for line in lines:
            print(f"  {line}")


if __name__ == "__main__":
    main()
