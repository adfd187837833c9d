"""Runs tests of numba-cuda's own, which come with its package: numba_own.py MODULE [TEST...]

Prints one line for each test when it ends: its outcome, and its name below numba.cuda.tests. Without names it runs all of the module. The
random numbers of each test begin with the same seed.
"""

from __future__ import annotations

import random
import sys
import unittest
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "numba.cuda.tests."


class Lines(unittest.TestResult):
    """A line for each test."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.outcome = "passed"
        random.seed(0)
        np.random.seed(0)

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        print(self.outcome, test.id().removeprefix(PACKAGE), file=sys.__stdout__, flush=True)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.outcome = "failed"
        print(test.id(), self._exc_info_to_string(err, test), file=sys.__stderr__)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addError(subtest, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.outcome = "skipped"

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.outcome = "skipped"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.outcome = "failed"

    addFailure = addError


def tests_in(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_in(one)
        else:
            yield one


def main() -> None:
    module, *wanted = sys.argv[1:]
    suite = unittest.defaultTestLoader.loadTestsFromName(PACKAGE + module)
    if wanted:
        suite = unittest.TestSuite(test for test in tests_in(suite) if test.id().removeprefix(PACKAGE) in wanted)
    suite.run(Lines())


if __name__ == "__main__":
    main()
