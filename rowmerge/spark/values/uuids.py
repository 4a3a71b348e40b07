"""SQL text of values that data files hold as bytes of one length: as users see them, and what may be stored in them."""

from __future__ import annotations

from rowmerge.parquet.uuids import CANONICAL
from rowmerge.table.metadata.schema import Array, DataType, Fixed, Map, Struct, backquote, string_literal

_GROUPS = "(.{8})(.{4})(.{4})(.{4})(.{12})"


def readable(text: str, held: DataType, depth: int = 0) -> str:
    """The value `text`, which Spark's Parquet reader gives as binary wherever `held` has bytes of one length: UUIDs become canonical text.

    Names of structs' fields stay.
    """
    if not _holds_uuid(held):
        return text
    item, other = f"__rowmerge_held_{depth}", f"__rowmerge_beside_{depth}"
    match held:
        case Struct(fields):
            parts = (f"{string_literal(f.name)}, {readable(f'({text}).{backquote(f.name)}', f.type, depth)}" for f in fields)
            return f"if({text} is null, null, named_struct({', '.join(parts)}))"
        case Array(element, _):
            return f"transform({text}, {item} -> {readable(item, element, depth + 1)})"
        case Map(key, value, _):
            if _holds_uuid(value):
                text = f"transform_values({text}, ({other}, {item}) -> {readable(item, value, depth + 1)})"
            if _holds_uuid(key):
                text = f"transform_keys({text}, ({item}, {other}) -> {readable(item, key, depth + 1)})"
            return text
    return f"lower(regexp_replace(hex({text}), '{_GROUPS}', '$1-$2-$3-$4-$5'))"


def fits(text: str, held: Fixed) -> str:
    """Whether a value that is not NULL can be held."""
    return f"char_length({text}) = 36 and {text} rlike '{CANONICAL}'" if held.uuid else f"octet_length({text}) = {held.length}"


def octets(text: str) -> str:
    """The bytes of a UUID's canonical text."""
    return f"unhex(replace({text}, '-', ''))"


def _holds_uuid(type_: DataType) -> bool:
    match type_:
        case Fixed(_, uuid):
            return uuid
        case Struct(fields):
            return any(_holds_uuid(field.type) for field in fields)
        case Array(element, _):
            return _holds_uuid(element)
        case Map(key, value, _):
            return _holds_uuid(key) or _holds_uuid(value)
    return False
