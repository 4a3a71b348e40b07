"""Rows that do not come from SQL: seeds, and the DataFrames that Python models return."""
