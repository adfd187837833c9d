"""A step of the work on a GPU: one process with a time limit, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
MISSING = 77  # the exit code of a step that this machine cannot run
TAIL = 4000  # characters of a failed step's output that are kept


class Step(NamedTuple):
    """One process. Its last line of output is its figures, as JSON, or why it was left out."""

    name: str
    command: list[str]
    limit: float = 180.0  # seconds


def all_cases() -> list[str]:
    """All cases of this folder."""
    return subprocess.run([sys.executable, HERE / "case.py"], capture_output=True, text=True, check=True).stdout.split()


def of_case(name: str, limit: float = 180.0) -> Step:
    """The step that runs a case."""
    return Step(name, [sys.executable, str(HERE / "case.py"), name], limit)


def run(step: Step, environment: Mapping[str, str], limit: float | None = None) -> dict[str, Any]:
    """Run a step; ``result`` is "passed", "left out", "FAILED" or "timed out", with its ``figures``, ``why`` or ``output``."""
    begin = time.monotonic()
    process = subprocess.Popen(
        step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=limit or step.limit)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return {"result": "timed out", "seconds": time.monotonic() - begin, "output": output[-TAIL:]}
    found: dict[str, Any] = {"seconds": time.monotonic() - begin}
    last = output.strip().rpartition("\n")[2]
    if process.returncode == MISSING:
        return found | {"result": "left out", "why": last}
    if process.returncode:
        return found | {"result": "FAILED", "output": output[-TAIL:]}
    try:
        figures = json.loads(last)
    except ValueError:
        figures = last
    return found | {"result": "passed", "figures": figures}


def unpacked(wheel: str | None, stack: contextlib.ExitStack) -> dict[str, str]:
    """The environment with the wheel's package in front; the wheel is unpacked, as this machine may lack pip."""
    environment = dict(os.environ)
    if wheel:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        zipfile.ZipFile(wheel).extractall(folder)
        environment["PYTHONPATH"] = os.pathsep.join([folder, environment.get("PYTHONPATH", "")])
    return environment
