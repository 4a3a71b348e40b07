"""Results of statements: descriptions of relations, the rows of DESCRIBE and SHOW, and counts of changed rows."""
