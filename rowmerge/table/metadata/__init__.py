"""The columns, partitioning, rules and properties of a table, in a form that both table formats share."""
