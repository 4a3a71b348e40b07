"""Results of statements: descriptions of relations, the rows of DESCRIBE and SHOW, counts of changed rows."""
