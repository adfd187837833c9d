# SPDX-License-Identifier: Apache-2.0
"""Prepares a process of a rehearsal for JAX, before the program imports it."""

from __future__ import annotations

import os
import re
import sys

from ...._typing import Any
from ..records import Request

_MOST = 1 << 30  # bytes of all arrays with which Orbax still writes
_COUNT = re.compile(r"--xla_force_host_platform_device_count=\d+")


def before_import() -> None:
    """Let JAX start on the CPU. The program's own number of CPU devices gives way to the cards."""
    os.environ["XLA_FLAGS"] = _COUNT.sub("", os.environ.get("XLA_FLAGS", ""))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's remarks on what it does without a GPU


def after_import(request: Request, at_exit: Any) -> None:
    """Begin the record, unless the program chose the CPU."""
    from .jax_recording import Recording

    chosen = os.environ.get("JAX_PLATFORMS", "")
    recording = Recording(request)
    recording.devices.wants_cpu = chosen.split(",")[0] == "cpu"
    recording.install()
    at_exit(recording.report)


def leave_checkpoints() -> None:
    """Let Orbax write nothing while arrays are large: they have no values, and reading them takes memory of the
    host.
    """
    import jax

    orbax = sys.modules["orbax.checkpoint"]  # which is not yet an attribute of its package

    def of(save: Any) -> Any:
        def saved(*args: Any, **named: Any) -> Any:
            return sum(one.nbytes for one in jax.live_arrays()) > _MOST or save(*args, **named)

        return saved

    for name in (
        "Checkpointer",
        "AsyncCheckpointer",
        "PyTreeCheckpointer",
        "StandardCheckpointer",
        "CheckpointManager",
    ):
        kind: Any = getattr(orbax, name, None)
        if kind is not None and "save" in vars(kind):
            kind.save = of(kind.save)
