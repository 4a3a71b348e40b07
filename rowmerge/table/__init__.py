"""The nouns that the engine and the table formats share, without Spark."""
