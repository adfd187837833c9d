# SPDX-License-Identifier: Apache-2.0
"""The process of a test with the mark ``gpu_process``: ``python -m gpuconf.pytest_plugin._process REQUEST``."""

from __future__ import annotations

import json
import os
import sys

import pytest
from _pytest.config import create_terminal_writer

from .._typing import Any
from ._options import SHARE

VARIABLE = "GPUCONF_PYTEST_PROCESS"  # the file for the reports


def is_child() -> bool:
    """Whether this process is one of a test with the mark."""
    return VARIABLE in os.environ


class Reporter:
    """Writes each report to the file, as a line of JSON."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a report."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with open(self._path, "a", encoding="utf-8") as file:  # the process may end at any time
            file.write(json.dumps(data, default=str) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Print why the test's module could not be imported."""
        if report.failed:
            print(report.longreprtext, file=sys.stderr)


def main(request: str) -> int:
    """Run the test of a request."""
    with open(request, encoding="utf-8") as file:
        asked: dict[str, Any] = json.load(file)
    sys.path[:] = asked["path"]
    # As pytest-xdist's workers do: options as they are, not as words that would have to be read again.
    config = pytest.Config.fromdictargs(asked["options"], asked["args"])
    config.stash[SHARE] = asked["share"]
    # Without the terminal's plugin there is none, and pytest 8 asks it for the colors of what an assertion compares.
    config.get_terminal_writer = lambda: create_terminal_writer(config, sys.stderr)  # type: ignore[method-assign]
    config.pluginmanager.register(Reporter(config, os.environ[VARIABLE]), "gpuconf-reporter")
    try:
        return int(config.hook.pytest_cmdline_main(config=config))
    except pytest.UsageError as error:
        print(error, file=sys.stderr)
        return int(pytest.ExitCode.USAGE_ERROR)
    finally:
        config._ensure_unconfigure()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
