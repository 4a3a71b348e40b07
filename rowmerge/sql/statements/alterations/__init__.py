"""The grammar of ALTER statements: tables and views, columns, branches and tags."""
