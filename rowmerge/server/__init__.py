"""A server that keeps Spark running between the commands of one user: its process, the files that name it, and its clients."""
