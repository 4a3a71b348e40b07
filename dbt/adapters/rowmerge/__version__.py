"""The version of the adapter, which `dbt --version` and `dbt init` look for here: the one of the whole distribution."""

from rowmerge import __version__ as version

__all__ = ["version"]
