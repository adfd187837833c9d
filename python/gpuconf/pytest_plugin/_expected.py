# SPDX-License-Identifier: Apache-2.0
"""``xfail`` for leaks and peaks, which are known only when the test is torn down.

A test that passes may still leak. So "it passed unexpectedly" is put off until then: the leak is the failure that was
expected.
"""

from __future__ import annotations

import pytest

from ._marks import Need

_REASON = pytest.StashKey[tuple[str, bool]]()  # of the mark xfail, and whether it is strict
_STRICT = "[XPASS(strict)] "


def put_off(item: pytest.Item, report: pytest.TestReport, need: Need | None) -> None:
    """Report a marked test that passed as passed, for now."""
    if _REASON in item.stash:
        del item.stash[_REASON]  # of an earlier run
    if need is None or (need.allowed is None and need.peak is None and not need.baseline):
        return
    if any("raises" in mark.kwargs for mark in item.iter_markers("xfail")):
        return  # an exception is expected
    strict = report.failed and isinstance(report.longrepr, str) and report.longrepr.startswith(_STRICT)
    if strict:
        item.stash[_REASON] = str(report.longrepr).removeprefix(_STRICT), True
        report.outcome, report.longrepr = "passed", None
    elif report.passed and hasattr(report, "wasxfail"):
        item.stash[_REASON] = report.wasxfail, False
        del report.wasxfail


def settle(item: pytest.Item, report: pytest.TestReport) -> None:
    """Report the teardown of such a test as expected to fail: it did, or it did not."""
    if _REASON not in item.stash:
        return
    reason, strict = item.stash[_REASON]
    del item.stash[_REASON]
    if report.failed and isinstance(report.longrepr, str):  # ours; an exception has another type
        report.outcome, report.wasxfail = "skipped", reason
    elif report.passed and strict:
        report.outcome, report.longrepr = "failed", f"{_STRICT}{reason}"
    elif report.passed:
        report.wasxfail = reason
