# SPDX-License-Identifier: Apache-2.0
"""``gpu_process``: a test in a process of its own, on the GPUs of the run or on a machine that the mark names.

The process runs pytest for this test alone, with the options of the run, and writes its reports to a file; `_process`
is its side. Fixtures of wider scope are set up in it anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext

import pytest

from .._core.command import run
from .._typing import Any
from ._marks import item_is_ours, machine_of, need_of
from ._options import SHARE, MarkError, settings
from ._process import VARIABLE
from ._walk import report_all
from ._workers import masks

# Options about other tests, other output, or how the run is split. Those of pytest-cov are all about output.
_DROPPED: dict[str, Any] = {
    "basetemp": None, "collectonly": False, "deselect": None, "dist": "no", "durations": None, "failedfirst": False,
    "htmlpath": None, "keyword": "", "lf": False, "log_file": None, "looponfail": False, "markexpr": "", "maxfail": 0,
    "maxprocesses": None, "newfirst": False, "numprocesses": None, "pastebin": None, "report_log": None,
    "setuponly": False, "setupshow": False, "stepwise": False, "stepwise_skip": False, "trace": False, "tx": [],
    "usepdb": False, "xmlpath": None,
}  # fmt: skip
_MOST_OUTPUT = 4000  # characters of a process that ended early


def _options(config: pytest.Config, machine: str) -> dict[str, Any]:
    """Return the options that the process gets."""
    options = {
        name: value
        for name, value in vars(config.option).items()
        if _is_plain_data(value) and not name.startswith("cov")
    }
    options.update({name: value for name, value in _DROPPED.items() if name in options})
    # Which are words for the process, or of this command line.
    for name in ("plugins", "file_or_dir", "_raise_print_help"):
        options.pop(name, None)
    if machine:
        options.update(gpuconf_simulate=machine, gpuconf_mode="simulate")
    return options


def _is_plain_data(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain_data, value))
    return value is None or isinstance(value, (str, int, float))


def _environment(config: pytest.Config, machine: str, reports: str) -> dict[str, str]:
    environment = {**os.environ, VARIABLE: reports}
    if machine:  # of its own, all of whose GPUs the test may see
        for name in ("GPUCONF_SIMULATE", "GPUCONF_SIMULATED_CARDS"):
            environment.pop(name, None)
        if environment.get("CUDA_VISIBLE_DEVICES") in masks(config):
            del environment["CUDA_VISIBLE_DEVICES"]
    return environment


class Processes:
    """The hook that runs marked tests. Registered when there is one."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a marked test in a process, and report what that reports."""
        marked = item.get_closest_marker("gpu_process") is not None and item_is_ours(item)
        if not marked or settings(item.config).mode == "off":
            return None
        report_all(item, nextitem, _reports(item))
        return True


def _reports(item: pytest.Item) -> list[pytest.TestReport]:
    try:
        machine, need = machine_of(item), need_of(item)
    except MarkError as error:
        return [_failed(item, "setup", str(error))]
    with _lock(item, need is not None and need.exclusive):
        return _run(item, machine)


def _lock(item: pytest.Item, exclusive: bool) -> Any:
    if not hasattr(item.config, "workerinput"):
        return nullcontext()
    from ._devices import held

    return held(item.config, exclusive)


def _run(item: pytest.Item, machine: str) -> list[pytest.TestReport]:
    config = item.config
    with tempfile.TemporaryDirectory(prefix="gpuconf-pytest-") as folder:
        request, written = os.path.join(folder, "request.json"), os.path.join(folder, "reports.jsonl")
        with open(request, "w", encoding="utf-8") as file:
            plugins = [word for name in [*config.option.plugins, "no:terminal"] for word in ("-p", name)]
            words = [*plugins, os.path.join(config.rootpath, item.nodeid)]
            share = None if machine else config.stash.get(SHARE, None)
            asked = {"path": sys.path, "options": _options(config, machine), "args": words, "share": share}
            json.dump(asked, file)
        child = [sys.executable, "-m", "gpuconf.pytest_plugin._process", request]
        within = {"cwd": config.invocation_params.dir, "env": _environment(config, machine, written)}
        captured = config.getoption("capture", "fd") != "no"
        done = run(child, stdin=subprocess.DEVNULL, capture_output=captured, encoding="utf-8", **within)
        reports = []
        if os.path.exists(written):
            with open(written, encoding="utf-8") as file:
                reports = [_read(config, json.loads(line)) for line in file]
    if not any(report.when == "teardown" for report in reports):
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        output = f"{done.stdout or ''}{done.stderr or ''}"[-_MOST_OUTPUT:].strip()
        at = "call" if reports else "setup"
        text = (
            _refusal(machine, output)
            or f"gpuconf: the process of this test ended with {how} before the test was over\n{output}"
        )
        reports.append(_failed(item, at, text.rstrip()))
    return reports


def _refusal(machine: str, output: str) -> str:
    """Return one line if the process refused the machine, which the mark names and the process has as an option."""
    _, option, why = output.rpartition("\n")[2].partition("--gpuconf-simulate: ")
    return f"gpu_process({machine!r}): {why}" if machine and option else ""


def _read(config: pytest.Config, data: dict[str, Any]) -> pytest.TestReport:
    for name in ("location", "longrepr"):  # JSON has no tuples
        if isinstance(data[name], list):
            data[name] = tuple(data[name])
    for name in ("sections", "user_properties"):
        data[name] = [tuple(pair) for pair in data[name]]
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=data)
    return report


def _failed(item: pytest.Item, when: Any, text: str) -> pytest.TestReport:
    keywords: dict[str, Any] = dict.fromkeys(item.keywords, 1)
    return pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, when)
