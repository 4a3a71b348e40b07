"""Find the positions of literals among a column's values, in the order that Spark uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pyarrow as pa

from rowmerge.plan.bounds.bounds import INTEGERS, PRECISION, LiteralPosition, comparison_type
from rowmerge.plan.bounds.time_zones import MAX_OFFSET, instants_of, local_time_of
from rowmerge.plan.predicates.literals import (
    PLAIN_INTEGER,
    Constant,
    ExactNumber,
    FloatNumber,
    Moment,
    date_of,
    fits_integer,
    moment_of,
    nearest_float,
    rounded,
)
from rowmerge.table.metadata.schema import DataType, Decimal as DecimalType, Primitive

LONG_DIGITS = 20
"""The precision of the decimal type to which Spark casts a bigint before it compares the bigint with a decimal."""


def locate_literal(literal: Constant, type_: DataType, zone: tzinfo | None = None) -> LiteralPosition | None:
    """Return a literal as values of a column's type (LiteralPosition), so that the column's bounds can be compared with the literal.

    Among integers, 2 is the value 2, and 1.5 lies between 1 and 2.

    Args:
        literal: The literal.
        type_: The type of the column.
        zone: The session's time zone, or None if it is unknown.

    Returns:
        The position, or None if it is unknown, for example because Spark casts the column to a type with a different order.
    """
    arrow_type = comparison_type(type_)
    match type_:
        case DecimalType():
            return _locate_among_decimals(literal, type_, arrow_type)
        case Primitive(name) if name in INTEGERS:
            return _locate_among_integers(literal, type_)
        case Primitive("double" | "float" as name):
            return _locate_among_floats(literal, single=name == "float")
        case Primitive("timestamp"):
            return _locate_among_instants(literal, arrow_type, zone)
        case Primitive("timestamp_ntz"):
            return _locate_among_local_times(literal, arrow_type, zone)
        case Primitive("boolean") if isinstance(literal, bool):
            return _exact_position(int(literal), arrow_type)
        case Primitive("string") if isinstance(literal, str):
            return _exact_position(literal, arrow_type)
        case Primitive("date"):
            day = date_of(literal)
            return None if day is None else _exact_position(day, arrow_type)
    return None


def locate_list_members(members: Sequence[Constant], type_: DataType, zone: tzinfo | None = None) -> list[LiteralPosition] | None:
    """Return each member of an IN list as values of the column's type, as `locate_literal` does for one literal.

    Spark casts the column and all members to one type.

    Args:
        members: One or more members, except NULL.
        type_: The type of the column.
        zone: The session's time zone, or None if it is unknown.

    Returns:
        The positions, or None if that cast can round a value, or if a position is unknown or approximate.
    """
    kinds = {member.ntz if isinstance(member, Moment) else type(member) for member in members}
    if len(kinds) != 1:
        return None  # IN (1, '2'): Spark casts both to one type, but `locate_literal` handles each alone
    if isinstance(members[0], str) and isinstance(type_, Primitive) and type_.name.startswith("timestamp"):
        return None  # IN ('2024-01-01'): Spark compares timestamps with it as strings if spark.sql.ansi.enabled is false
    numbers = [member for member in members if isinstance(member, ExactNumber)]
    if not _has_common_decimal_type(numbers, type_):
        return None  # IN (0.5, …) with an integer of 38 digits: a decimal cannot have 39 digits, so Spark rounds
    positions = [locate_literal(member, type_, zone) for member in members]
    exact_positions = [position for position in positions if position is not None and not position.is_approximate]
    return exact_positions if len(exact_positions) == len(members) else None


def _has_common_decimal_type(numbers: Sequence[ExactNumber], type_: DataType) -> bool:
    """Return whether one decimal type can represent the numbers and the column's values. Otherwise, Spark rounds before it compares.

    `type_`: the type of the column. An integer column needs no decimal type if all numbers are integers, or if there are none.
    """
    if not numbers or (not isinstance(type_, DecimalType) and all(number.integer for number in numbers)):
        return True
    column_digits, column_scale = (type_.precision - type_.scale, type_.scale) if isinstance(type_, DecimalType) else (LONG_DIGITS, 0)
    digits = max(column_digits, *(number.digits for number in numbers))
    return digits + max(column_scale, *(number.scale for number in numbers)) <= PRECISION


def _exact_position(value: object, arrow_type: pa.DataType | None) -> LiteralPosition:
    """Return the position of a literal that is itself a value of the column's type."""
    scalar = pa.scalar(value, arrow_type)
    return LiteralPosition(scalar, scalar)


def _locate_among_integers(literal: Constant, type_: Primitive) -> LiteralPosition | None:
    """Return the position of a literal among the integers of a column, or None if Spark does not compare the two exactly."""
    match literal:
        # Spark replaces a comparison with a number outside bigint by TRUE or FALSE, even for null rows.
        case ExactNumber(number) if fits_integer(number, 64) and _has_common_decimal_type([literal], type_):
            return _position_among_integers(number)
        # Spark casts the column to the literal's type. A float holds all integers below 2 ** 24 exactly, a double those below 2 ** 53.
        case FloatNumber(number, single) if abs(number) < (1 << 24 if single else 1 << 53):
            return _position_among_integers(number)
        # Spark casts the string to the column's type. For any other string, the result depends on the spelling and on settings.
        case str() if PLAIN_INTEGER.fullmatch(literal) and fits_integer(int(literal), INTEGERS[type_.name]):
            return _position_among_integers(int(literal))
    return None


def _position_among_integers(number: Decimal | float) -> LiteralPosition:
    """Return the position of a number between two neighbouring integers, or at an integer that equals it."""
    floor, ceiling = math.floor(number), math.ceil(number)
    return LiteralPosition(pa.scalar(floor, pa.int64()), pa.scalar(ceiling, pa.int64()), is_between=floor != ceiling)


def _locate_among_decimals(literal: Constant, type_: DecimalType, arrow_type: pa.DataType | None) -> LiteralPosition | None:
    """Return the position of a literal in a decimal column, or None if Spark does not compare the two exactly."""
    if not isinstance(literal, ExactNumber) or not _has_common_decimal_type([literal], type_):
        return None
    floor = rounded(literal.value, type_.scale, ROUND_FLOOR)
    ceiling = rounded(literal.value, type_.scale, ROUND_CEILING)
    return LiteralPosition(pa.scalar(floor, arrow_type), pa.scalar(ceiling, arrow_type), is_between=floor != ceiling)


def _locate_among_floats(literal: Constant, *, single: bool) -> LiteralPosition | None:
    """Return the position of a literal in a double column, or in a float column if `single`. Return None if it is unknown."""
    if not isinstance(literal, ExactNumber | FloatNumber):
        return None
    number = float(literal.value)
    if single and isinstance(literal, ExactNumber) and literal.integer and nearest_float(number) != literal.value:
        return None  # Spark casts to float or to double, depending on spark.sql.ansi.enabled
    return _exact_position(number + 0.0, pa.float64())  # no -0.0, which sorts below 0.0


def _locate_among_instants(literal: Constant, arrow_type: pa.DataType | None, zone: tzinfo | None) -> LiteralPosition | None:
    """Return the position of a literal in a timestamp column, or None. It is approximate for a local time whose instant is uncertain."""
    moment = moment_of(literal)
    if moment is None:
        return None
    return _time_range(*((moment.micros, moment.micros) if moment.zoned else instants_of(moment.micros, zone)), arrow_type)


def _locate_among_local_times(literal: Constant, arrow_type: pa.DataType | None, zone: tzinfo | None) -> LiteralPosition | None:
    """Return the position of a literal in a timestamp_ntz column, or None if it is unknown."""
    moment = moment_of(literal)
    if moment is None:
        return None
    if not isinstance(literal, Moment) or literal.ntz:
        return None if moment.zoned else _exact_position(moment.micros, arrow_type)
    # Spark casts the column to timestamp with the session's time zone, whose offset can differ between the two times.
    earliest, latest = (moment.micros, moment.micros) if moment.zoned else instants_of(moment.micros, zone)
    local_micros = local_time_of(earliest, zone) if earliest == latest else None
    if local_micros is not None:
        return _exact_position(local_micros, arrow_type)
    return _time_range(earliest - MAX_OFFSET, latest + MAX_OFFSET, arrow_type)


def _time_range(earliest: int, latest: int, arrow_type: pa.DataType | None) -> LiteralPosition:
    """Return the position of a time that is known to lie between two times in microseconds since the epoch."""
    return LiteralPosition(pa.scalar(latest, arrow_type), pa.scalar(earliest, arrow_type), is_approximate=earliest != latest)
