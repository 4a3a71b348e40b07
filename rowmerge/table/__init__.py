"""The nouns that the engine and the formats share; knows neither Spark nor any format."""
