"""Growth curves: how seconds, requests, bytes and memory of a statement grow with one property of its table."""
