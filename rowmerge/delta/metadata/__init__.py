"""Protocol and metadata of a table: its columns, features and properties, and how they may change."""
