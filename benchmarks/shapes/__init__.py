"""The grid: statements on tables of many shapes, each pair of properties in at least one cell."""
