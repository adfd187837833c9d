# SPDX-License-Identifier: Apache-2.0
"""The header and the summary of a run."""

from __future__ import annotations

import os
import sys

import pytest

from .._typing import Any
from ._options import settings

_MOST_LINES = 20


def header(config: pytest.Config) -> str | None:
    """Return the line of the header; None if nothing was chosen."""
    chosen = settings(config)
    if chosen.mode == "simulate":
        return (
            f"gpuconf: simulated GPUs: {os.environ.get('GPUCONF_SIMULATE', '')} ({_page()} says what differs from "
            "a card)"
        )
    return f"gpuconf: GPUs are {chosen.mode}" if chosen.mode in ("required", "off") else None


def _page() -> str:
    """Return the address of the page about simulated GPUs: on the site, if the package names it."""
    import importlib.metadata

    for each in importlib.metadata.metadata("gpuconf").get_all("Project-URL") or []:
        name, _, address = each.partition(", ")
        if name == "Documentation":
            return f"{address.rstrip('/')}/simulation.html"
    return "docs/simulation.md"


def summarize(reporter: Any, config: pytest.Config) -> None:
    """List leaks, and with --gpuconf-report the memory of tests."""
    leaks, peaks, missing, failed = [], {}, [], []
    for reports in reporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            properties = dict(report.user_properties)
            if "gpuconf.leak" in properties:
                leaks.append((properties["gpuconf.leaked_bytes"], report.nodeid, properties["gpuconf.leak"]))
            if "gpuconf.no_baseline" in properties:
                missing.append(report.nodeid)
            if "gpuconf.peak" in properties:
                failed.append((report.location, properties["gpuconf.peak"]))
            if "gpuconf.leak" in properties and report.failed:
                failed.append((report.location, f"left allocated: {properties['gpuconf.leak']}"))
            if "gpuconf.peak_bytes" in properties:
                peaks[report.nodeid] = properties["gpuconf.peak_bytes"], properties.get("gpuconf.leaked_bytes", 0)
    if leaks:
        reporter.section("GPU memory left allocated")
        _lines(reporter, [f"{nodeid}  {text}" for _, nodeid, text in sorted(leaks, key=lambda leak: -leak[0])])
        if not settings(config).report:  # recording call sites makes allocations slower
            reporter.write_line("--gpuconf-report shows where it was allocated")
    if settings(config).report and peaks:
        from ._marks import sizes_text

        reporter.section("GPU memory of tests")
        lines = [
            f"peak {sizes_text(peak)}" + (f", left {sizes_text(left)}" if left else "") + f"  {nodeid}"
            for nodeid, (peak, left) in sorted(peaks.items(), key=lambda one: (-one[1][0], one[0]))
        ]
        _lines(reporter, lines, len(lines))
    if missing:
        these = f"{len(missing)} tests" if len(missing) > 1 else missing[0]
        name = settings(config).baseline.name
        reporter.write_line(f"gpuconf: no baseline in {name} for {these} on this GPU: --gpuconf-update writes it")
    if settings(config).update:
        from ._limits import of_run

        written = of_run(config)
        if written.written is not None:
            tests = "1 test" if written.written == 1 else f"{written.written} tests"
            reporter.write_line(f"gpuconf: {written.path.name} is written, with peaks of {tests} of this run")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for (file, line, _), text in failed:
            reporter.write_line(f"::error file={file},line={(line or 0) + 1},title=GPU memory::{text}")
    if "gpuconf.pytest_plugin._workers" in sys.modules:
        from ._workers import problem

        if problem(config):
            reporter.write_line(f"gpuconf: the workers have no GPU of their own: {problem(config)}")


def _lines(reporter: Any, lines: list[str], most: int = _MOST_LINES) -> None:
    for line in lines[:most]:
        reporter.write_line(line)
    if len(lines) > most:
        reporter.write_line(f"and {len(lines) - most} more; -o junit_family=xunit1 --junitxml=FILE has all")
