"""Run a program in a new process, for what cannot be tested in the process of the tests."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess


class Done(NamedTuple):
    """The result of a program."""

    code: int
    stdout: str
    stderr: str
    seconds: float


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests without the variables of gpuconf, TensorFlow and CUDA, plus changes.

    ``python`` is this one, as in an activated environment; another one may be active here, of which IPython warns.
    """
    dropped = ("GPUCONF_", "TF_", "CUDA_", "PYTEST_", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "PYTHONFAULTHANDLER": "", **(changes or {})}


def plain() -> dict[str, str]:
    """The environment of the tests without all that concerns drivers, frameworks and how libraries are found."""
    dropped = ("GPUCONF_", "TF_", "CUDA_", "FAKE", "PYTORCH_", "LD_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def completed(
    words: Sequence[object], *, timeout: float = 170, check: bool = False, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output as text."""
    command = list(map(str, words))
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout, **how)


def printed(words: Sequence[object], **how: Any) -> str:
    """What a program prints that must succeed."""
    done = completed(words, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_others(tables: str) -> str:
    """What ``gpuconf ps`` says without the simulated cards of the machine's other programs, which are below the
    tables.
    """
    return tables.partition("simulated cards, each shared by the processes of one job:\n")[0]


def run(
    code: str,
    *,
    env: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    cwd: Path | str | None = None,
    stdin: str | None = None,
    timeout: float = 30,
) -> Done:
    """Run Python code with this interpreter. A program that hangs fails the test, with subprocess.TimeoutExpired."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(env),
        cwd=cwd,
        input=stdin,
        timeout=timeout,
    )
    return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)


def execute(words: Sequence[Any], *, timeout: float = 120, check: bool = False, **how: Any) -> CompletedProcess[str]:
    """Run a program and catch what it prints. ``how`` is for subprocess.run."""
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=check, **how)


def run_well(code: str, **how: object) -> str:
    """Run code that must exit with code 0 and print nothing to stderr; returns its stdout."""
    done = run(code, **how)  # type: ignore[arg-type]
    assert (done.code, done.stderr) == (0, ""), done
    return done.stdout


def run_with_children(
    words: Sequence[object], *, env: Mapping[str, str], cwd: Path | None = None, timeout: float
) -> Done:
    """Run a program that starts others. If it hangs, they end with it: as orphans, workers would run on for ever."""
    begin = time.monotonic()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        list(map(str, words)), text=True, env=env, cwd=cwd, start_new_session=True, **pipes
    ) as program:
        try:
            out, err = program.communicate(timeout=timeout)
        except BaseException:
            os.killpg(program.pid, signal.SIGKILL)
            raise
    return Done(program.returncode, out, err, time.monotonic() - begin)


def start_in_a_terminal(words: Sequence[str], env: Mapping[str, str]) -> tuple[int, int]:
    """Start a command in a terminal of its own. Returns its pid, and our end of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execve(words[0], words, env)
        finally:
            os._exit(99)
    return pid, terminal
