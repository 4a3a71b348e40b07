"""The public interface of the engine: sessions that run statements and return their results."""
