"""Runs tests of numba-cuda's own, which come with its package.

    numba_own.py MODULE [TEST ...]

Prints one line for each test when it ends: its outcome, and its name below numba.cuda.tests. Without names it runs all
of the module. The random numbers of each test begin with the same seed.
"""

import random
import sys
import unittest
from collections.abc import Iterator

import numpy as np

PACKAGE = "numba.cuda.tests."


def tests_in(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_in(one)
        else:
            yield one


def outcome(test: unittest.TestCase) -> str:
    """Run one test, with the preparations of its class."""
    random.seed(0)
    np.random.seed(0)
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    for _, text in result.errors + result.failures:
        print(test.id(), text, file=sys.stderr)
    if not result.wasSuccessful():
        return "failed"
    return "skipped" if result.skipped or result.expectedFailures else "passed"


def main() -> None:
    module, *wanted = sys.argv[1:]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromName(PACKAGE + module)
    if loader.errors:
        sys.exit(loader.errors[0])
    for test in tests_in(suite):
        name = test.id().removeprefix(PACKAGE)
        if not wanted or name in wanted:
            print(outcome(test), name, flush=True)


if __name__ == "__main__":
    main()
