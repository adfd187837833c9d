# SPDX-License-Identifier: Apache-2.0
"""``gpu_oom_after`` and ``gpu_oom_each``: allocations that fail: one, and a warning if the test never came to it; or
each, in a run of the test of its own. The runs before the one that counts, of ``warmup=1``, are here too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from _pytest.runner import runtestprotocol

from .. import errors
from .._core import injected, runtime, texts
from ..memory import _release
from . import _leaks, _ours
from ._marks import need_of
from ._options import MarkError

# ``gpu_oom_after``: an allocation that fails, and a warning if the test never came to it.


class Failure:
    """The failure that a test has requested."""

    def __init__(self) -> None:
        self._n = 0
        self._counted = 0
        self._generation = -1
        self._known = True

    def arm(self, n: int) -> None:
        """Make the n-th allocation from now on fail. 0 takes an earlier request back."""
        injected.fail_allocation(n)
        self._n, self._counted, self._known = n, 0, True
        self._generation = runtime.current.generation

    def settle(self) -> None:
        """Note how many allocations there were, before a reset forgets it."""
        if self._generation == runtime.current.generation:
            self._counted = injected.counted()
        elif self._generation >= 0:
            self._known = False  # the test itself has reset the devices
        self._generation = -1

    def go_on(self) -> None:
        """Count on, from the first allocation on the machine that ``gpu_simulate`` has simulated."""
        if self._n and self._counted < self._n:
            self.arm(self._n)

    @contextmanager
    def during(self, config: pytest.Config) -> Iterator[None]:
        """Let ``gpu_simulate`` find it; at the end, note what came of it, and take it back."""
        config.stash[_KEY] = self
        _release.empty_caches()  # what earlier tests left there would serve this one's allocations, and none could fail
        try:
            yield
        finally:
            self.settle()
            injected.stop()
            del config.stash[_KEY]

    @property
    def fired(self) -> bool:
        """Whether the allocation has failed, as of the last ``settle``."""
        return 0 < self._n <= self._counted

    def complaint(self) -> str:
        """Return what to say of a failure that no allocation came to."""
        if not self._n or self.fired or not self._known:
            return ""
        made = f"{self._counted or 'no'} allocation{'' if self._counted == 1 else 's'}"
        return (
            f"gpu_oom_after({self._n}) made no allocation fail: the test made {made} after it. gpu_oom_after(0) "
            "takes it back."
        )


_KEY = pytest.StashKey[Failure]()
PASSED = pytest.StashKey[bool]()  # whether the test's own code has passed


def of_run(config: pytest.Config) -> Failure | None:
    """Return the failure of the test that runs now, if it uses the fixture."""
    return config.stash.get(_KEY, None)


@contextmanager
def for_a_test(item: object, config: pytest.Config) -> Iterator[Callable[[int], None]]:
    """Yield a function that makes an allocation fail.

    At the end, take that back, and warn if a test passed without it.
    """
    failure = Failure()

    def fail(n: int) -> None:
        __tracebackhide__ = True  # the test's own line is what is wrong
        if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 2**63:
            raise errors.InvalidArgumentError(
                f"gpu_oom_after takes the number of an allocation, at least 1, but got {texts.shown(n)}"
            )
        failure.arm(n)

    with failure.during(config):
        yield fail
    complaint = failure.complaint()
    if complaint and isinstance(item, pytest.Item) and item.stash.get(PASSED, False):
        item.warn(pytest.PytestWarning(f"gpuconf: {complaint}"))


_NONE = pytest.StashKey[bool]()  # whether the test has allocated nothing
STEP = pytest.StashKey[int]()  # the number of the allocation that fails; 0: none


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, in any library. A group does if all of its exceptions do."""
    # Of an ExceptionGroup, that of Python 3.11 or the one that anyio has for 3.10.
    grouped = getattr(error, "exceptions", None)
    if isinstance(grouped, tuple) and grouped:
        return all(map(is_out_of_memory, grouped))
    return (
        isinstance(error, MemoryError) or " out of memory" in str(error) or type(error).__name__ == "OutOfMemoryError"
    )


def _refusal(item: pytest.Item) -> str:
    """Return why a test cannot be walked, "" if it can."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return "cannot walk a test with @given, which Hypothesis repeats itself: give this test fixed values"
    if "benchmark" in getattr(item, "fixturenames", ()) and item.config.pluginmanager.has_plugin("benchmark"):
        return "cannot walk a test with the fixture benchmark, which would time the failing runs: use two tests"
    if "gpu_oom_after" in _ours.fixtures(item):
        return "cannot walk a test with gpu_oom_after, which chooses the allocation that fails itself: use one of them"
    return ""


def report_all(item: pytest.Item, nextitem: pytest.Item | None, reports: list[pytest.TestReport]) -> None:
    """Report a run of a test that was not logged, and tear down the fixtures of wider scope that it left for the next
    run.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    # Not by the hook, which ran for the run already.
    wider = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")
    if wider.excinfo is not None:
        reports = [*reports, pytest.TestReport.from_item_and_call(item, wider)]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class Walker:
    """The hooks of the walk. Registered when a test uses the fixture."""

    def __init__(self) -> None:
        self._failure = Failure()  # of the step that runs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run the steps, then leave the ordinary run to pytest, or report the step that failed."""
        if "gpu_oom_each" not in _ours.fixtures(item) or _refusal(item):
            return None
        n = 0
        while True:
            n += 1
            item.stash[STEP] = n
            self._failure = Failure()
            reports = runtestprotocol(item, nextitem=item.parent, log=False)  # type: ignore[arg-type]  # keeps wider fixtures
            if any(report.failed for report in reports):
                self._report(item, nextitem, reports, n)
                return True
            if not self._failure.fired or any(report.skipped for report in reports):
                item.stash[STEP] = 0
                item.stash[_NONE] = n == 1 and not any(report.skipped for report in reports)
                return None  # the ordinary run

    def _report(
        self, item: pytest.Item, nextitem: pytest.Item | None, reports: list[pytest.TestReport], n: int
    ) -> None:
        item.stash[STEP] = 0
        for report in reports:
            if report.failed and self._failure.fired:
                report.sections.append(("gpu_oom_each", f"Allocation {n} of this test was made to fail (injected)."))
            report.user_properties.append(("gpuconf.injected_allocation", n))
        report_all(item, nextitem, reports)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse a test that cannot be walked."""
        why = _refusal(item) if "gpu_oom_each" in _ours.fixtures(item) else ""
        if why:
            pytest.fail(f"gpu_oom_each {why}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        """Make an allocation of the test's own code fail, and accept that the test ends with that error."""
        n = item.stash.get(STEP, 0)
        if not n:
            result = yield
            if item.stash.get(_NONE, False):
                item.warn(pytest.PytestWarning("gpuconf: gpu_oom_each made no allocation fail: the test makes none"))
            return result
        failure = self._failure
        try:
            with failure.during(item.config):
                failure.arm(n)
                result = yield
        except BaseException as error:
            if not (failure.fired and is_out_of_memory(error)):
                raise
            self._forget(error)
            return None
        found = getattr(item, "_excinfo", None)  # where pytest keeps the error of a unittest.TestCase's test
        if failure.fired and found and is_out_of_memory(found[0].value):
            self._forget(found.pop(0).value)
        return result

    @staticmethod
    def _forget(error: BaseException) -> None:
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):  # as pytest does before the next test
            vars(sys).pop(name, None)
        _leaks.drop_locals(error)


# ``gpu_leak(warmup=1)``, ``gpu_peak(warmup=1)``: runs before the one that counts, for what is allocated once and
# kept.

WARMING = pytest.StashKey[bool]()


class Warmup:
    """The hook. Registered when a mark has the argument."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run the test, with fresh fixtures of function scope each time; report a run that fails, else leave the last
        to pytest.
        """
        try:
            need = need_of(item)
        except MarkError:
            return None  # the setup reports it
        for _ in range(need.warmup if need is not None else 0):
            item.stash[WARMING] = True
            try:
                # The parent as the next item keeps wider fixtures.
                reports = runtestprotocol(item, nextitem=item.parent, log=False)  # type: ignore[arg-type]
            finally:
                item.stash[WARMING] = False
            if any(not report.passed for report in reports):
                report_all(item, nextitem, reports)
                return True
        return None
