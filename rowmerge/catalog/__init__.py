"""Which schemas, tables and views a warehouse folder holds, and where each of them lives."""

from rowmerge.catalog.directory import DirectoryCatalog
from rowmerge.catalog.relation import Relation, View

__all__ = ["DirectoryCatalog", "Relation", "View"]
