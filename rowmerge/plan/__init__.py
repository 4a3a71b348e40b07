"""Planning of row-level commands: a command and the columns of its tables become a RowPlan, without Spark and without IO."""
