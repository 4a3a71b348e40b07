"""From a command and the columns it meets to a RowPlan: what happens to which rows, without Spark and without IO."""
