"""Files by path on local disk or an object store, with the one primitive that makes commits atomic."""
