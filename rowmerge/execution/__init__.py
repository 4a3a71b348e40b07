"""Execution of commands: plan, find and write the rows with Spark, commit, and retry after a conflict."""
