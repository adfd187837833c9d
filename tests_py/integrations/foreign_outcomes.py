"""A pytest plugin for foreign_suites.py: writes the outcome of each phase of each test to the file that FOREIGN_OUTCOMES names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_OUTCOMES: dict[str, list[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note an outcome, with the reason of a skip."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    text = " ".join(filter(None, (report.when, report.outcome, reason, str(getattr(report, "wasxfail", "")))))
    _OUTCOMES.setdefault(report.nodeid, []).append(text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file, from the process that all reports come to."""
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["FOREIGN_OUTCOMES"]).write_text(json.dumps(_OUTCOMES))
