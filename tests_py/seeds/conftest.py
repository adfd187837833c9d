"""The listings are no modules of the tests."""

collect_ignore_glob = ["listings/*"]
