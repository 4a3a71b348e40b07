"""Distribute rows over tasks, write them as data files, and collect what the tasks wrote."""
