"""The version of the distribution. `dbt --version` and `dbt init` read it from this module."""

from rowmerge import __version__ as version

__all__ = ["version"]
