"""The version of the rowmerge distribution."""

__version__ = "0.2.0"
