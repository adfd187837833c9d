"""Excludes the listings, which are not test modules."""

collect_ignore_glob = ["listings/*"]
