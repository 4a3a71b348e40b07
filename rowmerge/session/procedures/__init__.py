"""Procedures of Iceberg's Spark catalogs, for the tables of both formats."""
