"""Incremental models: verification of their configs, and the plan that the macros of strategies render."""
