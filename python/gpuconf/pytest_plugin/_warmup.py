# SPDX-License-Identifier: Apache-2.0
"""``gpu_leak(warmup=1)``, ``gpu_peak(warmup=1)``: runs before the one that counts, for what is allocated once and
kept.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

from . import _walk
from ._marks import MarkError, need_of

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
                reports = runtestprotocol(item, nextitem=item.parent, log=False)  # type: ignore[arg-type]  # keeps wider fixtures
            finally:
                item.stash[WARMING] = False
            if any(not report.passed for report in reports):
                _walk.report_all(item, nextitem, reports)
                return True
        return None


_NAME = "gpuconf-warmup"


def register(config: pytest.Config) -> None:
    """Register the hook."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(Warmup(), _NAME)
