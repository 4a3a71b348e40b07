"""Metadata tables of Iceberg tables (Iceberg documentation, Inspecting tables)."""
