"""Ways to execute a row-level statement, one module each; `selection.WAYS` lists them in order of preference."""
