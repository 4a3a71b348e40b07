"""Read, write, list and delete files on a local disk or in an object store. `put_if_absent` makes commits atomic."""
