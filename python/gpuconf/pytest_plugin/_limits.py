# SPDX-License-Identifier: Apache-2.0
"""``gpu_peak``: compares the peak of a test with its limit, or with the baseline's file."""

from __future__ import annotations

import json

import pytest

from .._core.stacks import Frame
from . import _baselines
from ._failing import PASSED
from ._leaks import Watch
from ._marks import Need, sizes_text
from ._settings import settings

_MOST_LINES = 10


def measures(config: pytest.Config, need: Need | None) -> bool:
    """Whether the peak of a test matters."""
    chosen = settings(config)
    return chosen.report or chosen.peak is not None or (need is not None and (need.baseline or need.peak is not None))


def look(item: pytest.Item, report: pytest.TestReport, need: Need | None, watch: Watch) -> None:
    """Fail the teardown of a test whose peak is too high."""
    if not item.stash.get(PASSED, False):
        return  # it may have ended before its peak
    peak, chosen = watch.peaks.most, settings(item.config)
    limit = need.peak if need is not None and need.peak is not None else chosen.peak
    if limit is not None and peak > limit:
        _fail(
            report,
            f"peak {sizes_text(peak)} of GPU memory, and the limit is {sizes_text(limit)}",
            _holders(watch),
            chosen.report,
        )
    if need is not None and need.baseline:
        _compare(item, report, need, watch)


def _compare(item: pytest.Item, report: pytest.TestReport, need: Need, watch: Watch) -> None:
    config, chosen, peak = item.config, settings(item.config), watch.peaks.most
    where = _baselines.place()
    entry = _baselines.new_entry(peak, watch.at_peak, config.rootpath)
    if chosen.update:
        report.user_properties.append((_baselines.ENTRY, json.dumps([where, entry])))
        return
    old = _baselines.of_run(config).entry(item.nodeid, where)
    if old is None:
        report.user_properties.append(("gpuconf.no_baseline", where))
        return
    before = old["peak_bytes"]
    most = int(before * (1 + (need.tolerance or chosen.tolerance)))
    if peak > most:
        allowed = f" (at most {sizes_text(most)} with the tolerance)" if most > before else ""
        above = f"{sizes_text(peak - before)} above the baseline of {sizes_text(before)}{allowed}"
        text = f"peak {sizes_text(peak)} of GPU memory is {above}"
        lines = [*_baselines.grown_lines(old, entry), f"{where}; --gpuconf-update accepts the new peak"]
        _fail(report, text, lines, chosen.report)


def _holders(watch: Watch) -> list[str]:
    """Return what holds the most at the peak, if call sites are recorded."""
    rows = [(size, blocks, site) for sums in watch.at_peak.values() for (_, _, site), (size, blocks) in sums.items()]
    rows.sort(key=lambda row: (-row[0], str(row)))
    return [
        f"{sizes_text(size)} at {_line(site)}, {blocks} block{'' if blocks == 1 else 's'}"
        for size, blocks, site in rows
    ]


def _line(site: Frame | None) -> str:
    if site is None:
        return "no line of Python (a library's own thread, such as PyTorch's for the backward pass)"
    file, line, function = site
    return f"{file}:{line} ({function})"


def _fail(report: pytest.TestReport, text: str, lines: list[str], recorded: bool) -> None:
    shown = lines[:_MOST_LINES] + ([] if recorded else ["--gpuconf-report names the lines that allocated it"])
    report.user_properties.append(("gpuconf.peak", text))
    if report.passed:
        report.outcome = "failed"
        report.longrepr = "\n  ".join([f"{text}:", *shown])
