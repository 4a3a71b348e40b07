"""Columns of random tables: their types, and random values and literals of each type as SQL text.

A value is drawn around a centre, so that the values of one file lie close together and its bounds exclude some filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random

WORDS = sorted(
    [
        *["", " ", "a", "A", "ab", "ab ", "abc", "abd", "AbC", "b", "z", "Z", "zz", "5", "05", "true", "null", "2024-01-05"],
        *[
            "a,b",
            "a), EqualTo(k,5",
            "b[1]",
            "[a, b]",
            "(x",
            "x...y",
            "...",
            "line\nbreak",
            "\nfirst",
            "tab\tx",
            "p/q=1",
            "100%",
            "a_c",
            "--x",
            "/*",
        ],
        *["it's", 'say "hi"', "back\\slash", "a`b", "é", "ée", "ß", "日本", "𝒳𝒳", "\U0010ffff", "\U0010ffff\U0010ffffx", "\ufffdx"],
        *[f"{'a' * 20}{last}" for last in ("1", "2", "b", "é")],
        *[f"{'é' * 17}{last}" for last in ("", "1", "z")],
    ]
)
EXTREME_DATES = [
    date(1, 1, 1),
    date(1500, 2, 28),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1900, 1, 1),
    date(1969, 12, 31),
    date(9999, 12, 31),
]
FIRST_DAY = date(2024, 1, 1)
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
MOST_CENTRE = 60
"""Files have centres from 0 to this number."""
_EXACT_IN_DOUBLE = 2**53
"""Beyond this number, a double does not represent every integer."""
_KINDS = {
    **dict.fromkeys(INTEGER_BITS, "integer"),
    **dict.fromkeys(("double", "float"), "float"),
    **dict.fromkeys(("string", "varchar"), "string"),
    **{name: name for name in ("decimal", "char", "date", "timestamp", "timestamp_ntz", "boolean", "binary", "struct")},
}


@dataclass(frozen=True)
class Column:
    """A column of a table, a view or a query. `type`: its type in SQL."""

    name: str
    type: str

    @property
    def kind(self) -> str:
        """Return the kind of the type, for which the conditions are the same: `integer` for `tinyint` and `bigint`."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Spot:
    """The values around which a column's values in one file lie. `spread`: the greatest distance from the centre."""

    centre: int
    spread: int

    def number(self, random: Random) -> int:
        """Return a random number around the centre."""
        return self.centre + random.randint(-self.spread, self.spread)


ANYWHERE = Spot(MOST_CENTRE // 2, MOST_CENTRE // 2 + 3)


def kind_of(type_: str) -> str:
    """Return the kind of a SQL type."""
    return _KINDS[type_.split("(")[0].split("<")[0].strip().lower()]


def quoted(text: str) -> str:
    """Return a string as a SQL literal in single quotes, with escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def name_in_sql(name: str) -> str:
    """Return a column name as SQL, in backquotes if it needs them."""
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"


def value(random: Random, type_: str, spot: Spot) -> str:
    """Return a random value of a type as SQL text, without NULL."""
    number = spot.number(random)
    match kind_of(type_):
        case "integer":
            return integer(random, type_, number)
        case "decimal":
            return _decimal(random, type_, number)
        case "float":
            return _float(random, type_, number)
        case "string":
            return quoted(word(number))
        case "char":
            return quoted(word(number)[:6])
        case "date":
            return f"date '{_date(random, number)}'"
        case "timestamp":
            return f"timestamp '{_timestamp(random, number)}'"
        case "timestamp_ntz":
            return f"timestamp_ntz '{_timestamp(random, number)}'"
        case "boolean":
            return "true" if number % 2 else "false"
        case "binary":
            return f"X'{word(number).encode()[:8].hex()}'"
    return _struct(random, type_, spot)


def integer(random: Random, type_: str, number: int) -> str:
    """Return an integer of a type: the number or, rarely, the least or the greatest value."""
    most = 2 ** (INTEGER_BITS.get(type_, 64) - 1) - 1
    choice = random.random()
    if choice < 0.02:
        return random.choice([str(most), f"cast({-most - 1} as decimal(20, 0))"])
    if choice < 0.05 and most > _EXACT_IN_DOUBLE:
        return str(_EXACT_IN_DOUBLE + number % 5 - 2)
    return str(max(-most, min(most, number)))


def word(number: int) -> str:
    """Return the word at a position of the sorted words."""
    return WORDS[number % len(WORDS)]


def _decimal(random: Random, type_: str, number: int) -> str:
    precision, scale = (int(part) for part in type_.split("(")[1].rstrip(")").split(","))
    if random.random() < 0.05:
        digits = random.choice(["9" * precision, f"{10**precision // 3 + number}"[:precision]])
        return f"{random.choice(['', '-'])}{digits[: precision - scale]}.{digits[precision - scale :]}".rstrip(".")
    return str(Decimal(number) + Decimal(random.choice([0, 0, 1, 5, -5, 25])).scaleb(-min(scale, 2)) if scale else number)


def _float(random: Random, type_: str, number: int) -> str:
    special = [
        "double('NaN')",
        "double('Infinity')",
        "double('-Infinity')",
        "-0.0D",
        "0.0D",
        "0.1D",
        "1e30D",
        "-1e-30D",
        "16777217D",
        "9007199254740993D",
    ]
    text = random.choice(special) if random.random() < 0.2 else f"{number + random.choice([0, 0, 0.5, 0.1, -0.25])}D"
    return f"cast({text} as float)" if type_ == "float" else text


def _date(random: Random, number: int) -> date:
    if random.random() < 0.04:
        return random.choice(EXTREME_DATES)
    if random.random() < 0.08:
        return date.today() + timedelta(days=number % 9 - 4)
    return FIRST_DAY + timedelta(days=number)


def _timestamp(random: Random, number: int) -> str:
    seconds = random.choice([0, 0, 3600, 43_200, 84_600, 86_399, random.randrange(86_400)])
    fraction = random.choice([0, 0, 0, 1, 999, 500_000, 999_999])
    day = _date(random, number)
    if not 2 < day.year < 9998:  # the time zones of a session move a time by some hours
        day = FIRST_DAY
    return (datetime(day.year, day.month, day.day) + timedelta(seconds=seconds, microseconds=fraction)).isoformat(" ")


def _struct(random: Random, type_: str, spot: Spot) -> str:
    fields = [part.split(":", 1) for part in _parts(type_[len("struct<") : -1])]
    values = ", ".join(f"'{name.strip()}', {_nullable(random, field_type.strip(), spot)}" for name, field_type in fields)
    return f"named_struct({values})"


def _nullable(random: Random, type_: str, spot: Spot) -> str:
    return f"cast(null as {type_})" if random.random() < 0.15 else f"cast({value(random, type_, spot)} as {type_})"


def struct_fields(type_: str) -> Sequence[tuple[str, str]]:
    """Return the names and types of the fields of a struct type."""
    parts = [part.split(":", 1) for part in _parts(type_[len("struct<") : -1])]
    return [(name.strip(), field_type.strip()) for name, field_type in parts]


def _parts(text: str) -> list[str]:
    """Divide the text of struct fields at the commas that are not in brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
