"""Names of the columns that the engine adds to rows of tables and sources."""

from __future__ import annotations

FILE, POSITION = "__rowmerge_file", "__rowmerge_position"
"""The address of a target row: the path of its data file, and its index in that file."""
ORDINAL = "__rowmerge_source"
"""The number that identifies a source row."""
MET = "__rowmerge_met"
"""Whether a source row matches a target row."""
CLAUSE, ACTION = "__rowmerge_clause", "__rowmerge_action"
"""The index of the clause that applies to a row, and what this clause does (see `rowmerge.parquet.outcomes`)."""
IF_MET, IF_NEW = "__rowmerge_if_met", "__rowmerge_if_new"
"""What the statement does with a source row if it matches a target row, and if it matches none."""
