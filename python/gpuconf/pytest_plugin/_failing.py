# SPDX-License-Identifier: Apache-2.0
"""``gpu_oom_after``: an allocation that fails, and a warning if the test never came to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from .. import errors
from .._core import injected, runtime, texts
from ..memory import _release


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
        """Count again on the machine that ``gpu_simulate`` has simulated."""
        if self._n and self._counted < self._n:
            self.arm(self._n)

    def complaint(self) -> str:
        """Return what to say of a failure that no allocation came to."""
        if not self._n or self._counted >= self._n or not self._known:
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
    failure = config.stash[_KEY] = Failure()
    _release.empty_caches()  # what earlier tests left there would serve this one's allocations, and none could fail

    def fail(n: int) -> None:
        __tracebackhide__ = True  # the test's own line is what is wrong
        if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 2**63:
            raise errors.InvalidArgumentError(
                f"gpu_oom_after takes the number of an allocation, at least 1, but got {texts.shown(n)}"
            )
        failure.arm(n)

    try:
        yield fail
    finally:
        failure.settle()
        injected.stop()
        del config.stash[_KEY]
    complaint = failure.complaint()
    if complaint and isinstance(item, pytest.Item) and item.stash.get(PASSED, False):
        item.warn(pytest.PytestWarning(f"gpuconf: {complaint}"))
