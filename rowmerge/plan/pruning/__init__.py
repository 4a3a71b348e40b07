"""Skip data files whose statistics and partition values exclude the rows of a statement."""
