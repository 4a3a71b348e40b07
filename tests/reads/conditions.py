"""Random conditions on columns: every operator and function that can exclude files, and many that must not.

The templates are in conditions.txt, by the kind of the column. A condition that DuckDB evaluates differently makes its query one that only
Spark answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

from tests.reads.values import ANYWHERE, MOST_CENTRE, Column, Spot, quoted, struct_fields, value, word

SHARED_KINDS = ("integer", "decimal", "string", "date", "boolean", "timestamp_ntz")
"""The kinds whose literals and comparisons are the same in DuckDB."""
_LITERAL_NUMBERS = "{0}L {0} {0} {0}S '{0}' {0}.0 {0}.5 {0}D {0}.5D bigint({0}) int('{0}') ({0}) +{0}".split()


@dataclass(frozen=True)
class Ref:
    """A column that conditions can use. `text`: its name in SQL, with the alias of its relation."""

    text: str
    name: str
    type: str

    @property
    def column(self) -> Column:
        return Column(self.name, self.type)


class Conditions:
    """A writer of random conditions.

    `shared`: whether everything that was written so far means the same in DuckDB. `portable`: whether to write only such conditions.
    """

    def __init__(self, random: Random, *, portable: bool = False) -> None:
        self.random, self.portable, self.shared = random, portable, True

    def condition(self, refs: Sequence[Ref], depth: int = 0) -> str:
        """Return a random condition on some of the columns."""
        choice = self.random.random()
        if depth < 2 and choice < 0.25:
            op = self.random.choice(["and", "or", "or"])
            return f"({self.condition(refs, depth + 1)}{self._newline()} {op} {self.condition(refs, depth + 1)})"
        if depth < 2 and choice < 0.3:
            return f"not ({self.condition(refs, depth + 1)})"
        if choice < 0.34 and len(refs) > 1:
            return self._of_two_columns(refs)
        if choice < 0.36 and not self.portable:
            self.shared = False
            return self._fill(self.random.choice(TEMPLATES["nondeterministic"]), self.random.choice(refs))
        return self.atom(self.random.choice(refs))

    def atom(self, ref: Ref) -> str:
        """Return a random condition on one column."""
        kind, choose = ref.column.kind, self.random.choice
        shared = [*TEMPLATES["shared"], *TEMPLATES.get(f"shared {kind}", ())]
        if kind in SHARED_KINDS and (self.portable or self.random.random() < 0.4):
            return self._fill(choose(shared), ref, shared=True)
        if self.portable:
            return f"{ref.text} {choose(['is null', 'is not null'])}"
        self.shared = False
        if kind == "struct" and self.random.random() < 0.5:
            name, type_ = choose(struct_fields(ref.type))
            return self.atom(Ref(f"{ref.text}.{name}", name, type_))
        return self._fill(choose([*shared, *TEMPLATES["any"], *TEMPLATES[kind], *TEMPLATES[kind]]), ref)

    def literal(self, type_: str, *, shared: bool = False) -> str:
        """Return a literal that can be compared with a type. `shared`: whether it must mean the same in DuckDB."""
        spot = ANYWHERE if self.random.random() < 0.8 else Spot(self.random.randint(-5, MOST_CENTRE + 9), 3)
        kind = Column("", type_).kind
        if shared:
            return self._shared_literal(kind, type_, spot)
        if kind == "integer" and self.random.random() < 0.5:
            return self.random.choice(_LITERAL_NUMBERS).format(abs(spot.number(self.random)) % 100)
        if kind in ("timestamp", "date") and self.random.random() < 0.2:
            return value(self.random, self.random.choice(["date", "timestamp", "timestamp_ntz"]), spot)
        return value(self.random, type_, spot)

    def _shared_literal(self, kind: str, type_: str, spot: Spot) -> str:
        number = spot.number(self.random)
        match kind:
            case "integer":
                return str(number)
            case "string":
                text = word(number)
                return quoted("ab" if "\\" in text or "'" in text else text)
            case "date":
                return f"date '{date(2024, 1, 1) + timedelta(days=number)}'"
        return value(self.random, type_, spot)

    def _fill(self, template: str, ref: Ref, *, shared: bool = False) -> str:
        random = self.random
        size = random.choice([1, 2, 3, 3, 5, 12, 30]) if "{l}" in template else 0
        members = ", ".join(self.literal(ref.type, shared=shared) for _ in range(size))
        literals = [self.literal(ref.type, shared=shared) for _ in range(2)]
        text = template.replace("{c}", "\0")  # literals and names can contain braces
        for placeholder, filling in (("{a}", literals[0]), ("{b}", literals[1]), ("{l}", members)):
            text = text.replace(placeholder, filling.replace("{", "\1"))
        text = text.replace("\1", "{").replace("\0", ref.text)
        return f"({text}\n)" if "--" in template else f"({text})"

    def _of_two_columns(self, refs: Sequence[Ref]) -> str:
        one = self.random.choice(refs)
        same = [ref for ref in refs if ref.column.kind == one.column.kind and ref != one]
        if not same:
            return self.atom(one)
        if one.column.kind not in SHARED_KINDS:
            if self.portable:
                return self.atom(one)
            self.shared = False
        other = self.random.choice(same)
        op = self.random.choice(["=", "<", ">=", "<>", "<=>"])
        return f"{one.text} {op} {other.text}"

    def _newline(self) -> str:
        return "\n" if self.random.random() < 0.1 else ""


def _templates() -> dict[str, list[str]]:
    """Return the templates of each section of conditions.txt."""
    sections: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "conditions.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            section = sections.setdefault(line[1:-1], [])
        elif line and not line.startswith("# "):
            section.append(line.replace("¶", "\n"))
    return sections


TEMPLATES = _templates()
