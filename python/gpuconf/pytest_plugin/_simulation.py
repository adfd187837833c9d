# SPDX-License-Identifier: Apache-2.0
"""A simulated machine for one test."""

from __future__ import annotations

import ctypes
import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from .. import config as tf_config
from .. import errors, memory
from .._core import abi, runtime
from .._core.native import loaded
from ..simulation import simulate as machine
from ..simulation import simulated_torch
from . import _leaks, _walk, _workers


@contextmanager
def for_a_test(config: pytest.Config) -> Iterator[Callable[[str | None], machine.Simulation]]:
    """Yield a function that simulates a machine.

    At the end, free what was left on it and restore the machine before.
    """
    entered: list[machine.Simulation] = []
    masks = _workers.masks(config)

    def simulate(spec: str | None) -> machine.Simulation:
        __tracebackhide__ = True  # the test's own line is what is wrong
        _clean(config, bool(entered))
        failure = _walk.of_run(config)
        if failure is not None:
            failure.settle()
        if not entered:
            simulated_torch.starts_only_on = os.environ.get("GPUCONF_SIMULATE")
        try:
            simulation = machine.simulate_buffers(spec)
        except errors.FailedPreconditionError as error:
            raise (_for_a_process(error, spec) if simulated_torch.runs() else error).with_traceback(None) from None
        except errors.GpuconfError as error:
            raise error.with_traceback(None) from None
        # The run's GPUs, or this worker's. A value that the test itself sets is for the simulated machine, and counts.
        # PyTorch keeps the GPUs that it has.
        runtime.other_machines_masks.difference_update(masks)
        if spec is not None and not simulated_torch.runs():
            runtime.other_machines_masks.update(masks)
        if not entered:
            entered.append(simulation.__enter__())
        _leaks.watch_of(config).record(machine_is_new=True)
        if failure is not None:
            failure.go_on()
        return simulation

    simulate.__qualname__ = "gpu_simulate"  # in the message for a call without a machine
    yield simulate
    simulated_torch.starts_only_on = None
    runtime.other_machines_masks.difference_update(masks)
    failure = _walk.of_run(config)
    if failure is not None:
        failure.settle()
    if entered:
        _clean(config, True)
        entered[0].__exit__(None, None, None)
        _workers.apply_share(config)  # again: the simulation has dropped it


def _for_a_process(error: errors.GpuconfError, spec: str | None) -> errors.GpuconfError:
    """Add what the test can do instead to the refusal of a machine on which PyTorch has not started."""
    why, _, instead = str(error).rpartition(". ")
    mark = f"@pytest.mark.gpu_process({spec!r})"
    return type(error)(
        f"{why}. {mark} runs a test in a process of its own, on this machine" if spec else f"{why}. {instead}"
    )


def _clean(config: pytest.Config, ours: bool) -> None:
    """Report and free what the test left on its simulated machine."""
    if not loaded() or not runtime.initialized():
        return
    if not ours:
        _leaks.watch_of(config).free_leaked_buffers()
        return
    _leaks.watch_of(config).note()
    if not _leaks.holdings():
        return
    for buffer in memory.live_buffers():
        buffer.free()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    for device in tf_config.list_logical_devices("GPU"):
        _free_c_blocks(device.name)


def _free_c_blocks(device: str) -> None:
    """Free the blocks of C programs. Buffers and tensors free their own."""
    if any(row.live_blocks and row.library != "c" for row in memory.usage(device)):
        return
    for region in memory.memory_map(device).regions:
        for chunk in region.chunks:
            if chunk.in_use:
                abi.library().gpuconf_free(ctypes.c_void_p(chunk.address), 0, 0, None)
