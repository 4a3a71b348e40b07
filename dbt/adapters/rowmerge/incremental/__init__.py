"""Incremental models: the verification of their configs, and the plan that the strategies' macros render."""
