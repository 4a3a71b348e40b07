"""Name resolution: which table, view, function or file a name in a statement means, and the Spark view that stands for it."""
