"""Access to files by path on a local disk or in an object store, with the primitive that makes commits atomic."""
