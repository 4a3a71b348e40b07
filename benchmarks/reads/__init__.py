"""The files that queries open and the seconds that they take, next to other engines: `make bench-reads`."""
