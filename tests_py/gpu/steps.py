"""A step of the work on a GPU: one process with a time limit, and what came of it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
MISSING = 77  # the exit code of a step that this machine cannot run
TAIL = 60_000  # bytes of a failed step's output that are kept
LAST_WORDS = 30.0  # seconds that a long case has left when it stops by itself
LAST_STACKS = 5.0  # seconds that a step beyond its time has to say where it is
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Step(NamedTuple):
    """One process. Its last line of output is its figures, as JSON, or why it was left out."""

    name: str
    command: list[str]
    limit: float = 180.0  # seconds
    least: float = 30.0  # it is not begun with less time than this


def all_cases() -> list[str]:
    """All cases of this folder."""
    return subprocess.run([sys.executable, HERE / "case.py"], capture_output=True, text=True, check=True).stdout.split()


def of_case(name: str, limit: float = 180.0, least: float = 30.0) -> Step:
    """The step that runs a case."""
    return Step(name, [sys.executable, str(HERE / "case.py"), name], limit, least)


def run(step: Step, environment: Mapping[str, str], limit: float | None = None) -> dict[str, Any]:
    """Run a step.

    ``result`` is "passed", "left out", "FAILED" or "timed out", with its ``figures``, ``why`` or ``output``.
    """
    seconds = limit or step.limit
    environment = {"GPU_CASE_SECONDS": str(max(seconds - LAST_WORDS, 1.0)), "PYTHONFAULTHANDLER": "1", **environment}
    begin = time.monotonic()
    # The output is a file: a pipe would stay open as long as any process that the step started.
    with tempfile.TemporaryDirectory() as folder, Path(folder, "output").open("w+b") as file:
        log = Path(folder, "driver.log")
        if not step.name.startswith("bench"):  # what the driver says of each call that fails, from CUDA 12.9 on
            environment["CUDA_LOG_FILE"] = str(log)
        process = subprocess.Popen(
            step.command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            preexec_fn=_alone,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            code = process.returncode
            if code is None:
                _where(process)
        finally:
            _end(process)
        seen = evidence.of_step(begin, log, code not in (0, MISSING))
        file.seek(max(file.seek(0, os.SEEK_END) - TAIL, 0))
        output = file.read().decode(errors="replace")
    found: dict[str, Any] = {"seconds": time.monotonic() - begin, **seen}
    last = output.strip().rpartition("\n")[2]
    figures = _figures(last)
    if code == MISSING:
        return found | {"result": "left out", "why": last}
    if code == 0:
        return found | {"result": "passed", "figures": last if figures is None else figures}
    kept = {"figures": figures} if figures else {}
    if code is None:
        return found | {"result": "timed out", "output": output} | kept
    return found | {"result": "FAILED", "output": output, "exit_code": code} | kept


def _figures(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _alone() -> None:
    """In the step's process: what it starts can be ended with it, and it ends with this one. It dumps no core."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _where(process: subprocess.Popen[bytes]) -> None:
    """Let a step beyond its time, then the Pythons that it started, say where they are: faulthandler does so at this
    signal.
    """
    process.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LAST_STACKS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGABRT)
        time.sleep(LAST_STACKS / 5)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a step: a process that stays would hold memory of the GPU, and take part in the next
    figures.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)  # a process that waits for a GPU that hangs cannot be ended


def unpacked(wheel: str | None, stack: contextlib.ExitStack) -> dict[str, str]:
    """The environment with the wheel's package in front; the wheel is unpacked, as this machine may lack pip."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GPUCONF_") or name == "GPUCONF_LEDGER"
    }
    if wheel:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        zipfile.ZipFile(wheel).extractall(folder)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, environment.get("PYTHONPATH", "")]))
    return environment
