"""How often a command that lost a race begins again, and how long it waits before that."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rowmerge.errors import ConfigurationError

RETRIES = "rowmerge.commit.retry.num-retries"
MIN_WAIT = "rowmerge.commit.retry.min-wait-ms"
MAX_WAIT = "rowmerge.commit.retry.max-wait-ms"


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with jitter. The defaults hold where a table's properties say nothing; waits are in milliseconds."""

    retries: int = 10
    min_wait: int = 50
    max_wait: int = 5_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """From a table's properties, named after Iceberg's `commit.retry.*`. Raises ConfigurationError."""
        return cls(
            _whole_number(properties, RETRIES, cls.retries),
            _whole_number(properties, MIN_WAIT, cls.min_wait),
            _whole_number(properties, MAX_WAIT, cls.max_wait),
        )

    def wait(self, lost: int) -> float:
        """Seconds to wait after so many lost races: doubled each time, and at random between half of that and all."""
        longest: int = min(self.max_wait, self.min_wait * 2 ** min(lost - 1, 30))
        return random.uniform(0.5, 1.0) * longest / 1000


def _whole_number(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name, str(default))
    if not re.fullmatch(r"\s*\d+\s*", value):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a whole number, 0 or more.")
    return int(value)
