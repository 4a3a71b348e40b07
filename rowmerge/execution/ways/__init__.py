"""The ways to execute a row-level statement, one module for each. `selection.WAYS` lists them in order of preference."""
