"""The columns, partitioning, rules and properties of a table, in the form that both formats share."""
