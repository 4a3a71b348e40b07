"""The version of the rowmerge distribution."""

__version__ = "0.1.0"
