# SPDX-License-Identifier: Apache-2.0
"""What each Python process of a program does in a rehearsal, from its start (``_startup``)."""

from __future__ import annotations

import atexit
import os
import sys
import time
from types import TracebackType

from ..._core import import_hook, stacks
from ..._typing import Any
from ...simulation import simulated_torch
from . import trackers
from .absent import absent
from .installed import package_of
from .line import line, request
from .records import Request


def begin() -> None:
    """Prepare this process."""
    asked = request()
    simulated_torch.accept_without_cuda()  # the answer says which framework ran, and it may be JAX
    import_hook.when_imported("torch", lambda: _torch(asked))
    _jax(asked)
    trackers.install()
    _tell_failures()


def _torch(asked: Request) -> None:
    import torch

    line.tell("torch", version=torch.__version__, simulated=simulated_torch.runs())
    if not simulated_torch.runs():
        return
    from ...simulation.values import install, notice
    from . import trackers
    from .torch_recording import Recording

    if not asked.cpu_values:
        install.leave_unwritten()
    if asked.compiles:
        notice.allow()
    recording = Recording(asked)
    import_hook.when_imported("accelerate.utils.memory", recording.watcher.watch_accelerate)
    trackers.keep_checkpoints_small()
    recording.install()
    _at_exit(recording.report)


def _jax(asked: Request) -> None:
    from .xla import jax_start

    def imported() -> None:
        import jax

        line.tell("jax", version=jax.__version__)
        jax_start.after_import(asked, _at_exit)

    import_hook.before_import("jax", jax_start.before_import)
    import_hook.when_imported("jax", imported)
    import_hook.when_imported("orbax.checkpoint", jax_start.leave_checkpoints)


def _at_exit(report: Any) -> None:
    """Report before the process ends, however Python ends it."""
    atexit.register(report)
    leave = os._exit

    def reporting(status: int) -> None:
        report()
        leave(status)

    os._exit = reporting  # type: ignore[assignment]


def _tell_failures() -> None:
    before = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        calls, last = [], trace
        while last is not None:
            code = last.tb_frame.f_code
            calls.append((code.co_filename, last.tb_lineno, code.co_name))
            last = last.tb_next
        calls = [call for call in reversed(calls) if not call[0].startswith(stacks.OWN)]
        package = package_of(getattr(sys.modules["__main__"], "__file__", None), calls)
        of_package = (call for call in calls if package and call[0].startswith(package))
        site = next(of_package, None) or stacks.call_site(tuple(calls))
        place = "" if site is None else f"{site[0]}:{site[1]}"
        line.tell(
            "failed",
            error=kind.__name__,
            text=str(error)[:2000],
            place=place,
            absent=absent(error),
            rank=os.environ.get("RANK", ""),
            time=time.time(),
        )
        before(kind, error, trace)

    sys.excepthook = failed
