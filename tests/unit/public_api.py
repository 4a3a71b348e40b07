"""List the public API: each name of `rowmerge` and `rowmerge.errors`, with the signatures and types of its public members.

Run as a program, it prints the list. `tests/unit/test_public_api.py` compares it with `public_api.txt`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType

import rowmerge
from rowmerge import errors


def lines() -> Iterator[str]:
    """Yield one line for each public name of the package and of its errors, followed by lines of its members."""
    for module in (rowmerge, errors):
        for name in sorted(_public_names(module)):
            yield from _described(f"{module.__name__}.{name}", getattr(module, name))


def _public_names(module: ModuleType) -> list[str]:
    """Return the names of `__all__`, or, without it, the classes that the module reexports."""
    return getattr(module, "__all__", None) or [name for name, member in vars(module).items() if inspect.isclass(member)]


def _is_public(owner: type) -> bool:
    return any(owner is getattr(module, owner.__name__, None) for module in (rowmerge, errors))


def _described(path: str, member: object) -> Iterator[str]:
    if inspect.isclass(member):
        bases = ", ".join(base.__name__ for base in member.__bases__ if base is not object)
        yield f"class {path}({bases})"
        yield f"{path}{_signature(member)}"
        for base in member.__mro__:  # the public members of bases that are not public themselves
            if base is member or (base.__module__.startswith("rowmerge.") and not _is_public(base)):
                yield from _members(path, base)
    elif callable(member):
        yield f"{path}{_signature(member)}"
    else:
        yield f"{path}: {type(member).__name__}"


def _members(path: str, owner: type) -> Iterator[str]:
    """Yield the public fields, properties and methods that a class itself declares."""
    for name, annotation in sorted(inspect.get_annotations(owner).items()):
        if not name.startswith("_"):
            yield f"{path}.{name}: {annotation}"
    for name, member in sorted(vars(owner).items()):
        if name.startswith("_") or name in inspect.get_annotations(owner):
            continue
        if isinstance(member, property):
            yield f"{path}.{name}: {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
        elif isinstance(member, classmethod | staticmethod):
            yield f"{path}.{name}{_signature(member.__func__)}"
        elif callable(member):
            yield f"{path}.{name}{_signature(member)}"


def _signature(member: object) -> str:
    """Return the signature as text, or `(…)` if Python reports no signature."""
    try:
        return str(inspect.signature(member))  # type: ignore[arg-type]
    except ValueError:
        return "(…)"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
