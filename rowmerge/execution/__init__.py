"""Execution of commands: plan, find and write the rows with Spark, commit, and begin again after a conflict."""
