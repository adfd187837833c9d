"""Run the tests of one of TensorFlow's files on one machine, and print what became of each as JSON.

    python -m tensorflow_tests.one_file FILE v1|v2

``GPUCONF_SIMULATE`` says which machine.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import traceback
import types
import unittest
from pathlib import Path
from typing import Any

import gpuconf.compat.v1 as tf1

from tensorflow_tests import adapter

TIMEOUT = 60


class Result(unittest.TestResult):
    """The outcome of each test: its kind and its reason."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def _record(self, test: Any, kind: str, reason: str) -> None:
        self.outcomes[f"{type(test).__name__}.{test._testMethodName}"] = (kind, reason)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self._record(test, "pass", "")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._record(test, "skip", reason)

    def addFailure(self, test: Any, error: Any) -> None:  # noqa: N802
        self.addError(test, error)

    def addError(self, test: Any, error: Any) -> None:  # noqa: N802
        kind, value, trace = error
        if kind is TimeoutError and adapter.in_threads:
            kind, value = type(adapter.in_threads[0]), adapter.in_threads[0]
        if issubclass(kind, adapter.NeedsTensorFlow) and not str(value).endswith("private"):
            self._record(test, "scope", str(value))
        else:
            lines = traceback.format_exception(kind, value, trace)
            self._record(test, "fail", f"{kind.__name__}: {value}\n{''.join(lines)}")


def _expired(*_: Any) -> None:
    raise TimeoutError(f"not finished after {TIMEOUT} s")


def main(file: str, version: str) -> None:
    """Run the tests."""
    adapter.install()
    if version == "v1":
        tf1.disable_v2_behavior()
    module = types.ModuleType(Path(file).stem)
    sys.modules[module.__name__] = module
    exec(compile(Path(file).read_text(), file, "exec"), vars(module))
    adapter.hide()
    result = Result()
    signal.signal(signal.SIGALRM, _expired)
    for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
        adapter.in_threads.clear()
        signal.alarm(TIMEOUT)
        test.run(result)
        signal.alarm(0)
        gc.collect()  # tensors in tracebacks
        adapter.reset_context()
    json.dump(result.outcomes, sys.stdout)


def _tests(suite: Any) -> Any:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


if __name__ == "__main__":
    main(*sys.argv[1:])
