"""The table properties of a format: names, allowed values, defaults and effects. The checks and the documentation read this registry.

Each property is honoured, set by engines alone, stored for other engines, or rejected. Names below RESERVED_PREFIXES belong to the formats
and to rowmerge. All other names belong to the user.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeVar

from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from rowmerge.table.metadata.property_values import BOOLEAN, TEXT, Values

RESERVED_PREFIXES = ("write.", "read.", "commit.", "history.", "encryption.", "delta.", "rowmerge.")
_FORMATS_BY_PREFIX = {"delta.": "Delta", "write.": "Iceberg", "read.": "Iceberg", "commit.": "Iceberg", "history.": "Iceberg"}

logger = logging.getLogger(__name__)
_reported_properties: set[tuple[str, str]] = set()
T = TypeVar("T")


class Effect(Enum):
    """What a table property does in rowmerge."""

    HONOURED = "honoured"
    MANAGED = "set by engines, not by statements"
    OTHER_ENGINES = "read by other engines"
    REJECTED = "rejected"


@dataclass(frozen=True)
class TableProperty(Generic[T]):
    """A table property.

    `name`: the name. A name that ends with `<column>` or the like stands for all names with that beginning. `values`: the allowed values. A
    rejected property allows only values that change nothing. `text`: the effect, or for the other kinds the reason. `default`: the
    value that applies to a table without the property, None if there is no such value. `since`: the first version of rowmerge with this
    effect.
    """

    name: str
    values: Values[T]
    text: str
    default: str | None = None
    effect: Effect = Effect.HONOURED
    since: str = "0.1.0"

    @property
    def prefix(self) -> str | None:
        """The beginning of all names for which the property stands, or None if it stands for one name."""
        return self.name[: self.name.index("<")] if self.name.endswith(">") else None

    def parse(self, properties: Mapping[str, str]) -> T | None:
        """Return the value in the properties of a table, or None if they lack the property. Raises ConfigurationError for a bad value."""
        text = properties.get(self.name)
        return None if text is None else self.values.parse(self.name, text)

    def parse_all(self, properties: Mapping[str, str]) -> dict[str, T]:
        """Return the values of all names that begin with the prefix, by the rest of the name. Raises ConfigurationError for a bad value."""
        prefix = self.prefix
        assert prefix is not None, f"{self.name} stands for one name"
        names = [name for name in properties if name.startswith(prefix)]
        return {name[len(prefix) :]: self.values.parse(name, properties[name]) for name in names}

    def value(self, properties: Mapping[str, str]) -> T:
        """Return the value in the properties of a table, or the default. Raises ConfigurationError for a bad value."""
        assert self.default is not None, f"{self.name} has no default"
        return self.values.parse(self.name, properties.get(self.name, self.default))


@dataclass(frozen=True)
class PropertyRegistry:
    """All properties of the tables of a format. `format`: `Delta` or `Iceberg`."""

    format: str
    properties: tuple[TableProperty[Any], ...]
    _by_name: dict[str, TableProperty[Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {property_.name: property_ for property_ in self.properties})
        assert len(self._by_name) == len(self.properties), "a name occurs twice"

    @cached_property
    def _by_prefix(self) -> tuple[TableProperty[Any], ...]:
        return tuple(property_ for property_ in self.properties if property_.prefix is not None)

    def find(self, name: str) -> TableProperty[Any] | None:
        """Return the property with this name, or the property that stands for all names with its beginning. Return None if none does."""
        by_prefix = (property_ for property_ in self._by_prefix if name.startswith(property_.prefix or ""))
        return self._by_name.get(name) or next(by_prefix, None)

    def check(self, properties: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check the properties that a statement sets.

        Args:
            properties: The properties of the table after the statement, or those in the statement.
            existing: The properties of the table before the statement. The check leaves out properties that do not change, because another
                engine may have set them.

        Raises:
            ConfigurationError: A property does not exist, is rejected, or has a value that it does not allow.
        """
        for name, value in properties.items():
            if existing.get(name) != value:
                self._check_property(name, value, is_new=name not in existing)
        for name in existing.keys() - properties.keys():
            property_ = self.find(name)
            if property_ is not None and property_.effect is Effect.MANAGED:
                raise ConfigurationError(f"The table property {name} cannot be removed. {property_.text}")

    def text_of_missing(self, name: str) -> str:
        """Return what SHOW TBLPROPERTIES answers for a property that a table lacks: Spark's text, with the default of the property."""
        property_ = self.find(name)
        default = "" if property_ is None or property_.default is None else f" (default: {property_.default})"
        return f"Table does not have property: {name}{default}"

    def normalize(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return checked properties as a table stores them: without spaces around values, and names of values in their documented case.

        Other engines do not accept ` TRUE `. The values of unknown properties and of free texts do not change.
        """
        return {name: self._stored_value(name, value) for name, value in properties.items()}

    def _stored_value(self, name: str, value: str) -> str:
        property_ = self.find(name)
        if property_ is None or property_.values is TEXT or not property_.values.allow(value):
            return value
        text, converted = value.strip(), property_.values.convert(value.strip())
        documented = str(converted.value if isinstance(converted, Enum) else converted)
        if property_.values is BOOLEAN:
            return text.lower()
        return documented if documented.lower() == text.lower() else text

    def _check_property(self, name: str, value: str, *, is_new: bool) -> None:
        property_ = self.find(name)
        if property_ is None:
            if is_new and name.lower().startswith(RESERVED_PREFIXES):
                raise ConfigurationError(self._unknown(name))
        elif property_.effect in (Effect.HONOURED, Effect.OTHER_ENGINES):
            property_.values.parse(name, value)
        elif property_.effect is Effect.MANAGED or not property_.values.allow(value):
            raise ConfigurationError(f"The table property {name} cannot be {value!r}. {property_.text}")

    def _unknown(self, name: str) -> str:
        """Return the error message for an unknown property, whose name begins with one of RESERVED_PREFIXES."""
        other_format = next((other for prefix, other in _FORMATS_BY_PREFIX.items() if name.lower().startswith(prefix)), self.format)
        if other_format != self.format:
            advice = "Leave it out, or begin the name with a word of your own."
            return f"The table property {name} applies only to {other_format} tables: its beginning belongs to that format. {advice}"
        names = {property_.name.lower(): property_.name for property_ in self.properties}
        similar_names = [names[similar] for similar in get_close_matches(name.lower(), names, n=1)]
        advice = f"Did you mean {similar_names[0]}?" if similar_names else "Remove it, or begin the name with a word of your own."
        return f"There is no table property {name}. {advice}"

    def check_write(self, table: str, properties: Mapping[str, str]) -> None:
        """Check the properties of a table before a statement writes files, and log a warning for properties that do not exist.

        Another engine can have set a property that rowmerge rejects. Such a table can be read. A write would break the promise of the
        property, for example that files are encrypted.

        Args:
            table: The name of the table, for messages.
            properties: The properties of the table.

        Raises:
            UnsupportedTableFeature: A property is rejected.
        """
        for name, value in properties.items():
            property_ = self.find(name)
            if property_ is None:
                self._report_unknown(table, name)
            elif property_.effect is Effect.REJECTED and not property_.values.allow(value):
                advice = f"{property_.text} Write with the engine that set it, or remove it with ALTER TABLE … UNSET TBLPROPERTIES."
                raise UnsupportedTableFeature(table, f"{name} = {value}", action="write to", advice=advice)

    def _report_unknown(self, table: str, name: str) -> None:
        """Log one warning for each property of a table that does not exist, unless the name belongs to the user."""
        if name.startswith(RESERVED_PREFIXES) and (table, name) not in _reported_properties:
            _reported_properties.add((table, name))
            logger.warning("The table property %s of %s is unknown to rowmerge and has no effect.", name, table)
