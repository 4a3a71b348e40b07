"""Planning of row-level commands: the planner converts a command and the columns of its tables into a RowPlan, without Spark or IO."""
