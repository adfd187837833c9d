"""Measure the HTML report of a long trace: the page's size, the time to make it, and the time to open it in Chromium.

    make test-integrations        # installs the browser's driver, once
    .venv-integrations/bin/python benchmarks/report_page.py [EVENTS]

Prints a line for each figure. "Open" is from the start of the navigation until all figures are drawn, as the page
measures it itself: the least, the median and the greatest of seven.
"""

from __future__ import annotations

import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests_py" / "integrations"))

import chromium
import gpuconf
from gpuconf.memory import Trace, allocate, record, tag
from gpuconf.plans.pages import report
from selenium.webdriver.support.wait import WebDriverWait

TAGS = ("weights", "activations", "gradients", "optimizer")


def forward(size: int) -> gpuconf.memory.Buffer:
    return allocate(size)


def backward(size: int) -> gpuconf.memory.Buffer:
    return allocate(size)


def recorded(events: int) -> Trace:
    """A trace with blocks of all sizes, tags and call sites."""
    gpuconf.simulate("H100-80GB")
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    rng = random.Random(1)
    with record(2 * events, stacks=True) as recording:
        live: list[gpuconf.memory.Buffer] = []
        for i in range(events // 2):
            with tag(TAGS[rng.randrange(4)]):
                live.append((forward, backward)[i % 2](int(rng.lognormvariate(12, 2)) + 1))
            if len(live) > 3000:
                live.pop(rng.randrange(3000)).free()
        for buffer in live:
            buffer.free()
    return recording.trace


def main(events: int) -> None:
    trace = recorded(events)
    print(f"{len(trace):,} events; Python {platform.python_version()}, {platform.processor() or platform.machine()}")
    began = time.perf_counter()
    found = gpuconf.plan(trace)
    planned = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        report.write(trace, found, path)
        written = time.perf_counter()
        print(f"plan {planned - began:.1f} s, page {written - planned:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        opened = []
        for browser in chromium.browser(Path(folder) / "profile"):
            chromium.resize(browser, 1400, 1000)
            for _ in range(7):
                browser.get("about:blank")
                browser.get(path.as_uri())
                drawn = WebDriverWait(browser, 60).until(
                    lambda b: b.execute_script("return document.documentElement.dataset.drawn")
                )
                opened.append(int(drawn) / 1000)
        print(f"open {min(opened):.2f} s, {statistics.median(opened):.2f} s, {max(opened):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
