"""Runs suites with the real pytest, each in a process of its own: the fixture ``suite``."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = """
import os, sys, unittest
import pytest
import gpuconf
from gpuconf import memory
MIB = 1 << 20
KEPT = []
"""


class Ran(NamedTuple):
    """How a suite ended."""

    code: int
    out: str
    err: str
    outcomes: dict[str, str]  # by name of the test: "passed", "failed", "error", "skipped"; the worst of its phases
    texts: dict[str, str]  # the messages of failures, errors and skips
    properties: dict[str, dict[str, str]]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Write and run a suite. Other plugins than gpuconf's are loaded only with -p."""

    def run(
        source: str,
        *options: str,
        ini: str = "",
        conftest: str = "",
        autoload: bool = False,
        header: str = HEADER,
        timeout: float = 120,
    ) -> Ran:
        if not autoload:
            monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            options = ("-p", "gpuconf.pytest_plugin", *options)
        else:
            monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
        pytester.makepyfile(test_suite=header + source)
        if conftest:
            pytester.makeconftest(conftest)
        pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\n" + ini)
        report = pytester.path / "junit.xml"
        done = pytester.runpytest_subprocess(
            *options, f"--junitxml={report}", "-o", "junit_family=xunit1", timeout=timeout
        )
        return Ran(int(done.ret), done.stdout.str(), done.stderr.str(), *_read(report))

    return run


def _read(report: object) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, str]]]:
    outcomes: dict[str, str] = {}
    texts: dict[str, str] = {}
    properties: dict[str, dict[str, str]] = {}
    try:
        root = ElementTree.parse(str(report)).getroot()
    except FileNotFoundError:
        return {}, {}, {}
    ranks = ("passed", "skipped", "failure", "error")
    for case in root.iter("testcase"):
        name = case.get("name", "")
        found = [part for part in case if part.tag in ranks]
        worst = max((part.tag for part in found), key=ranks.index, default="passed")
        if ranks.index(worst) >= ranks.index(outcomes.get(name, "passed").replace("failed", "failure")):
            outcomes[name] = worst.replace("failure", "failed")
        for part in found:
            texts[name] = texts.get(name, "") + (part.get("message") or "") + "\n" + (part.text or "")
        properties.setdefault(name, {}).update({p.get("name", ""): p.get("value", "") for p in case.iter("property")})
    return outcomes, texts, properties
