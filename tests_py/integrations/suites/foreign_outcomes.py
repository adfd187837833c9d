"""A pytest plugin for foreign_suites.py: writes the outcome of each phase of each test to the file that
FOREIGN_OUTCOMES names.

A line is a JSON array: the test, the phase's outcome, and the message of what it raised. It is written at once, so that
the file has what was before a crash.
"""

import json
import os
from pathlib import Path

import pytest

_in_worker = False


def pytest_configure(config: pytest.Config) -> None:
    """Look whether another process writes the file, that all reports come to."""
    global _in_worker
    _in_worker = hasattr(config, "workerinput")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write an outcome, with the reason of a skip."""
    if _in_worker:
        return
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    text = " ".join(filter(None, (report.when, report.outcome, reason, str(getattr(report, "wasxfail", "")))))
    crash = getattr(report.longrepr, "reprcrash", None)
    with Path(os.environ["FOREIGN_OUTCOMES"]).open("a") as file:
        file.write(json.dumps([report.nodeid, text, crash.message if crash else ""]) + "\n")
