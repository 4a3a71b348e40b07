"""Operands of conditions: columns, nested fields, and functions of them that never decrease, whose bounds follow from those of a column."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo

from sqlglot import exp

from rowmerge.plan.bounds.bounds import INTEGERS, ColumnBounds, comparable, comparison_type, has_text_rules
from rowmerge.plan.bounds.file_bounds import FileBounds
from rowmerge.plan.predicates import bound_functions as functions
from rowmerge.plan.predicates.bound_functions import Convert
from rowmerge.plan.predicates.condition_context import ConditionContext
from rowmerge.plan.predicates.literals import Constant, ExactNumber, FloatNumber, Moment, Null, constant
from rowmerge.plan.predicates.positions import LONG_DIGITS, locate_list_members
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive

_INTEGER, _LONG, _DOUBLE, _STRING = Primitive("integer"), Primitive("long"), Primitive("double"), Primitive("string")
_DATE, _INSTANT, _LOCAL = Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz")
_TIMES = (_DATE, _INSTANT, _LOCAL)
_MAX_LONG_PRECISION = 18
"""The greatest precision of decimals that Spark keeps as 64-bit integers."""
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": LONG_DIGITS}
_CAST_INTEGERS = {exp.DType.TINYINT: "byte", exp.DType.SMALLINT: "short", exp.DType.INT: "integer", exp.DType.BIGINT: "long"}
_TIMESTAMPS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)
_FORMATS = re.compile(r"%Y(?:[-/. ]?%mstrict(?:[-/. ]?%dstrict(?:[ ]?%Hstrict(?::?%Mstrict(?::?%Sstrict)?)?)?)?)?")
"""The patterns of `date_format` whose texts sort like times, in the notation of sqlglot. `%mstrict` stands for `MM`, with two digits."""
_MAX_SHIFT = 1_000_000
"""The greatest number of days in `date_add` for which bounds are computed."""
_ABBREVIATED_UNIT = re.compile(r"""['"](?:D|H|M|MS|NS|Q|S|US|W|Y)['"]""", re.IGNORECASE)
"""An abbreviation that sqlglot replaces by a unit of `trunc` or `date_trunc`. For Spark, it is no unit, and the result is NULL."""
_ARGUMENTS = {"this", "expression", "expressions", "table", "db", "catalog", "to", "safe", "unit", "start", "length", "format", "_type"}


@dataclass(frozen=True)
class Operand:
    """A column or a function of columns whose bounds are known for each file.

    `type`: the type of its values. `bounds`: the function that returns its bounds. `columns`: the names of the top-level columns whose
    bounds it reads. `is_exact`: whether its bounds are equal and certain for all files, as for a partition column. `is_comparable`: whether
    its values have the order of its bounds.
    """

    type: DataType
    bounds: Callable[[FileBounds], ColumnBounds]
    columns: frozenset[str]
    is_exact: bool
    is_comparable: bool = True

    def converted(self, type_: DataType, convert: Convert, *, is_exact: bool = False) -> Operand:
        """Return a function of this operand.

        Args:
            type_: The type of the results.
            convert: The function from bounds of this operand to bounds of the results.
            is_exact: Whether the results are certain for a partition column, as for the year of a date.
        """
        return replace(self, type=type_, bounds=lambda files: convert(self.bounds(files)), is_exact=self.is_exact and is_exact)


def operand_of(node: exp.Expr, context: ConditionContext) -> Operand | None:
    """Return the operand for an expression, or None if its bounds do not follow from the bounds of columns.

    Args:
        node: The syntax tree of the expression.
        context: The condition that contains the expression.
    """
    node = node.unnest()
    path = context.path(node)
    if path is not None:
        return column_operand(path, context)
    if any(value for name, value in node.args.items() if name not in _ARGUMENTS):
        return None
    match node:
        case exp.Coalesce():
            return _coalesce(node, context)
        case exp.Add() | exp.Sub() | exp.TsOrDsAdd():
            return _shifted(node, context)
        case exp.TimeToStr(this=exp.TimeStrToTime(this=time)):
            return _formatted(time, node.args["format"].name, context)
        case exp.Extract(this=exp.Var(this="YEAR" | "year" | "Year"), expression=time):
            return operand_of(exp.Year(this=time.copy()), context)
    inner = operand_of(node.this, context) if isinstance(node.this, exp.Expr) else None
    return None if inner is None or not inner.is_comparable else _function(node, inner, context)


def column_operand(path: tuple[Field, ...], context: ConditionContext) -> Operand:
    """Return the operand for a column, or for a field nested in a column.

    Args:
        path: The column, and the nested fields that are read from it.
        context: The condition that uses the column.
    """
    column, field = path[0], path[-1]
    if len(path) == 1:
        is_partition = column.name in context.partition_columns
        # The partition value NaN has no bounds, so its verdict is unknown.
        is_exact = is_partition and field.type not in (Primitive("float"), _DOUBLE)
        return Operand(
            field.type, lambda files: files.of_column(column, is_partition), frozenset({column.name}), is_exact, comparable(field)
        )
    names = tuple(parent.name for parent in path)
    is_comparable = comparison_type(field.type) is not None and not has_text_rules(path) and column.name not in context.partition_columns
    return Operand(field.type, lambda files: files.of_nested(names, field), frozenset({column.name}), False, is_comparable)


def _function(node: exp.Expr, inner: Operand, context: ConditionContext) -> Operand | None:
    """Return the operand for a function or a cast of another operand, or None if it is not supported."""
    match node:
        case exp.Cast() if node.args.get("format") is None:  # also TryCast
            return _cast(inner, node.to, context.zone)
        case exp.TsOrDsToDate() if node.args.get("format") is None:
            return _as_date(inner, context.zone)
        case exp.Year():
            date = _as_date(inner, context.zone)
            return None if date is None else date.converted(_INTEGER, functions.year_of_date, is_exact=True)
        case exp.LastDay() if node.args.get("unit") is None:
            date = _as_date(inner, context.zone)
            return None if date is None else date.converted(_DATE, functions.last_day_of_month, is_exact=True)
        case exp.DateTrunc() | exp.TimestampTrunc() if _ABBREVIATED_UNIT.search(context.text):
            return None
        case exp.DateTrunc():
            return _truncated_date(inner, node.args["unit"], context)
        case exp.TimestampTrunc():
            instant, truncate = _as_instant(inner, context.zone), functions.truncated_instant(node.args["unit"].name, context.zone)
            return None if instant is None or truncate is None else instant.converted(_INSTANT, truncate)
        case exp.Substring() | exp.Left():
            length = _prefix_length(node)
            return inner.converted(_STRING, functions.prefix(length)) if length is not None and inner.type == _STRING else None
    return None


def _truncated_date(inner: Operand, unit: exp.Expr, context: ConditionContext) -> Operand | None:
    """Return the operand for `trunc(date, unit)`."""
    date, truncate = _as_date(inner, context.zone), functions.truncated_date(unit.name)
    if date is None or truncate is None or not (isinstance(unit, exp.Literal) and unit.is_string):
        return None
    return date.converted(_DATE, truncate, is_exact=True)


def _prefix_length(node: exp.Expr) -> int | None:
    """Return the number of characters that `left` or `substring` takes from the start of a string, or None for any other part."""
    start, length = (node.args.get("start"), node.args.get("length")) if isinstance(node, exp.Substring) else (None, node.expression)
    # Spark counts characters from 1, and takes 0 for 1.
    if isinstance(node, exp.Substring) and not (isinstance(start, exp.Literal) and not start.is_string and start.name in ("0", "1")):
        return None
    number = constant(length) if isinstance(length, exp.Expr) else None
    if not isinstance(number, ExactNumber) or not number.integer or not 0 < number.value < 1 << 31:
        return None
    return int(number.value)


def _as_date(inner: Operand, zone: tzinfo | None) -> Operand | None:
    """Return the date of a date or timestamp, or None for any other type. Strings do not sort like the dates in them."""
    if inner.type == _DATE:
        return inner
    local = _as_local(inner, zone)
    return None if local is None else local.converted(_DATE, functions.date_of_local, is_exact=inner.type == _LOCAL)


def _as_local(inner: Operand, zone: tzinfo | None) -> Operand | None:
    """Return a date or a timestamp as local time, or None for any other type."""
    match inner.type:
        case Primitive("timestamp_ntz"):
            return inner
        case Primitive("timestamp"):
            return inner.converted(_LOCAL, functions.local_of_instant(zone))
        case Primitive("date"):
            return inner.converted(_LOCAL, functions.local_of_date, is_exact=True)
    return None


def _as_instant(inner: Operand, zone: tzinfo | None) -> Operand | None:
    """Return a date or a timestamp as an instant, or None for any other type."""
    if inner.type == _INSTANT:
        return inner
    local = _as_local(inner, zone)
    return None if local is None else local.converted(_INSTANT, functions.instant_of_local(zone))


def timestamp_of_date(date: Operand, zone: tzinfo | None, *, ntz: bool) -> Operand:
    """Return the midnight of a date as a timestamp, as Spark compares a date with a timestamp.

    Args:
        date: A date.
        zone: The session's time zone, or None if it is unknown.
        ntz: Whether the other timestamp is a timestamp_ntz.
    """
    local = date.converted(_LOCAL, functions.local_of_date, is_exact=True)
    return local if ntz else local.converted(_INSTANT, functions.instant_of_local(zone))


def _through_instant(inner: Operand, zone: tzinfo | None) -> Operand | None:
    """Return a date or a timestamp as the local time of its instant. The two differ for local times that never occur."""
    instant = _as_instant(inner, zone)
    return None if instant is None else _as_local(instant, zone)


def _formatted(time: exp.Expr, pattern: str, context: ConditionContext) -> Operand | None:
    """Return the operand for `date_format(time, pattern)`."""
    inner = operand_of(time, context)
    # sqlglot parses `YYYY`, which can mean the year of a week, like `yyyy`.
    if inner is None or not _FORMATS.fullmatch(pattern) or "YY" in context.text or "%Y" in context.text:
        return None
    local = _through_instant(inner, context.zone)
    return None if local is None else local.converted(_STRING, functions.formatted_local(pattern.replace("strict", "")))


def _cast(inner: Operand, target: exp.DataType, zone: tzinfo | None) -> Operand | None:
    """Return the operand for a cast, or None if the results do not sort like the values."""
    supported_arguments = ("this", "nested", "expressions") if target.this is exp.DType.DECIMAL else ("this", "nested")
    if any(argument for name, argument in target.args.items() if name not in supported_arguments):
        return None
    match target.this:
        case exp.DType.DATE:
            return _as_date(inner, zone)
        case _ if target.this in _TIMESTAMPS:
            return _cast_to_timestamp(inner, target.this, zone)
        case exp.DType.TEXT:
            return _cast_to_string(inner, zone)
        case _ if inner.type in _TIMES or inner.type == _STRING:
            return None
        case exp.DType.DECIMAL:
            return _cast_to_decimal(inner, [int(parameter.name) for parameter in target.expressions])
        case exp.DType.DOUBLE if _is_number(inner.type):
            return inner.converted(_DOUBLE, functions.double_of_number)
        case _ if target.this in _CAST_INTEGERS and _is_number(inner.type):
            name = _CAST_INTEGERS[target.this]
            is_wider = isinstance(inner.type, Primitive) and INTEGERS.get(inner.type.name, 65) <= INTEGERS[name]
            # With spark.sql.ansi.enabled, Spark casts a decimal of more than 18 digits to double before it becomes an int.
            may_round = isinstance(inner.type, Decimal) and inner.type.precision > _MAX_LONG_PRECISION and name != "long"
            convert = functions.same if is_wider else functions.integer_of_number(INTEGERS[name], may_round=may_round)
            return inner.converted(Primitive(name), convert, is_exact=is_wider)
    return None


def _is_number(type_: DataType) -> bool:
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in (*INTEGERS, "float", "double"))


def _cast_to_timestamp(inner: Operand, target: exp.DType, zone: tzinfo | None) -> Operand | None:
    """Return the operand of a cast to a timestamp type. `spark.sql.timestampType` decides whether TIMESTAMP has instants or local times."""
    if target is exp.DType.TIMESTAMPNTZ:
        return _as_local(inner, zone)
    if target is exp.DType.TIMESTAMPLTZ:
        return _as_instant(inner, zone)
    local = _as_local(inner, zone)  # a range that is certain for both meanings
    return None if local is None else local.converted(_INSTANT, functions.instant_of_local(zone))


def _cast_to_string(inner: Operand, zone: tzinfo | None) -> Operand | None:
    """Return the operand for a cast to a string, which sorts like its dates or times."""
    if inner.type == _STRING:
        return inner
    local = _as_local(inner, zone)
    if local is None:
        return None
    if inner.type == _DATE:
        return local.converted(_STRING, functions.formatted_local("%Y-%m-%d"))
    # The fraction of the second has no trailing zeros, and is absent without other digits.
    return local.converted(_STRING, functions.formatted_local("%Y-%m-%d %H:%M:%S", ".999999"))


def _cast_to_decimal(inner: Operand, parameters: list[int]) -> Operand | None:
    """Return the operand for a cast of an integer or a decimal to a decimal, or None if the cast can round."""
    precision, scale = parameters + [10, 0][len(parameters) :]
    match inner.type:
        case Decimal() as decimal if decimal.scale <= scale and decimal.precision - decimal.scale <= precision - scale:
            pass
        case Primitive(name) if name in _INTEGER_DIGITS and 0 <= scale <= precision <= 38:
            pass
        case _:
            return None
    return inner.converted(Decimal(precision, scale), functions.decimal_of_number(precision, scale))


def _shifted(node: exp.Expr, context: ConditionContext) -> Operand | None:
    """Return the operand for a date or an integer plus or minus a number, or for a date plus or minus days."""
    inner = operand_of(node.this, context)
    number = _shift(node.expression)
    if inner is None or number is None or not inner.is_comparable:
        return None
    is_days = isinstance(node.expression, exp.Interval) or isinstance(node, exp.TsOrDsAdd)
    number = -number if isinstance(node, exp.Sub) else number
    if isinstance(node, exp.TsOrDsAdd):
        unit = node.args.get("unit")
        inner = _as_date(inner, context.zone) if unit is not None and unit.name == "DAY" else None
    if inner is not None and inner.type == _DATE and abs(number) <= _MAX_SHIFT:
        return inner.converted(_DATE, functions.shifted_date(number), is_exact=True)
    if inner is None or is_days or not isinstance(inner.type, Primitive) or inner.type.name not in INTEGERS:
        return None
    is_long = inner.type == _LONG or not -(1 << 31) <= number < 1 << 31
    return inner.converted(_LONG if is_long else _INTEGER, functions.shifted_integer(number, 64 if is_long else 32))


def _shift(node: exp.Expr) -> int | None:
    """Return the integer or the number of days that an expression adds, or None for any other expression."""
    match node.unnest():
        case exp.Interval(this=exp.Literal() as count, args={"unit": exp.Var(this="DAY" | "DAYS")}):
            return int(count.name) if re.fullmatch("-?[0-9]{1,7}", count.name) else None
        case exp.Mul(expression=exp.Neg()) as product:  # date_sub
            days = _shift(product.this)
            return None if days is None or _shift(product.expression) != -1 else -days
        case exp.Literal() | exp.Neg(this=exp.Literal()):  # `1Y`, whose sum with a tinyint can overflow, is a Cast
            number = constant(node)
            return int(number.value) if isinstance(number, ExactNumber) and number.integer else None
    return None


def _coalesce(node: exp.Coalesce, context: ConditionContext) -> Operand | None:
    """Return the operand for `coalesce` over operands and literals of one type, or None for any other operands."""
    first = operand_of(node.this, context)
    if first is None or not first.is_comparable:
        return None
    operands = [first]
    for child in node.expressions:
        literal = constant(child)
        operand = operand_of(child, context) if literal is None else literal_operand(literal, first.type, context.zone)
        if operand is None or operand.type != first.type or not operand.is_comparable:
            return None
        operands.append(operand)
    columns = frozenset[str]().union(*(operand.columns for operand in operands))
    # An integer literal can be greater than the integers of the column's type.
    type_ = _LONG if isinstance(first.type, Primitive) and first.type.name in INTEGERS else first.type
    return Operand(type_, lambda files: functions.first_not_null([operand.bounds(files) for operand in operands]), columns, False)


def literal_operand(literal: Constant, type_: DataType, zone: tzinfo | None) -> Operand | None:
    """Return a literal as an operand of a type. Return None if it is not a value of the type, or if Spark would choose another type.

    Args:
        literal: The literal.
        type_: The type of the other operands.
        zone: The session's time zone, or None if it is unknown.
    """
    if isinstance(literal, Null) or not _is_of_kind(literal, type_):
        return None
    positions = locate_list_members([literal], type_, zone)
    if positions is None or positions[0].is_between:
        return None
    value = positions[0].floor
    return Operand(type_, lambda files: functions.constant_bounds(value, len(files)), frozenset(), True)


def _is_of_kind(literal: Constant, type_: DataType) -> bool:
    """Return whether the literal has a type that Spark does not convert to another kind together with the type of the operands."""
    match literal:
        case bool():
            return type_ == Primitive("boolean")
        case str():
            return type_ == _STRING
        case ExactNumber(integer=True) if isinstance(type_, Primitive):
            return type_.name in INTEGERS or type_ == _DOUBLE
        case ExactNumber():
            # Otherwise, the common type has more digits, and comparisons may round.
            fits_decimal = isinstance(type_, Decimal) and literal.scale <= type_.scale and literal.digits <= type_.precision - type_.scale
            return fits_decimal or type_ == _DOUBLE
        case FloatNumber():
            return type_ == _DOUBLE
        case Moment():
            return type_ == (_LOCAL if literal.ntz else _INSTANT)
    return type_ == _DATE
