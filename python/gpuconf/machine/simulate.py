# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs, and reset."""

from __future__ import annotations

import sys
from types import TracebackType

from .. import errors
from .._core import runtime, simulated_torch, simulation_notice, texts
from .._core.made import Made, make
from .._core.native import core, loaded, refuse_in_child
from ..memory import _buffer


def simulated() -> str:
    """Return the simulated machine as a spec for :func:`simulate`, or ``""`` if nothing is simulated. Lists the devices.

    >>> simulated()
    '2xH100-80GB'
    """
    return runtime.simulated()


def reset() -> None:
    """Discard the devices and the configuration, and release the memory of all pools. For tests and notebooks.

    The next call lists the devices again. If device memory is in use (by buffers, views, tensors or another library), raises
    RuntimeError, which lists what uses it, and changes nothing.
    """
    refuse_in_child()
    if not loaded() and not runtime.enumerated():
        runtime.current.at_enumeration.clear()
        return

    def change() -> None:
        _refuse_while_in_use("cannot reset")
        core.pybind_Reset()

    runtime.replace(change)


def _refuse_while_in_use(what: str) -> None:
    lines, free = _buffer.live()
    lines += _live_tensors()
    if lines:
        shown = sorted(lines)[:10] + ([f"and {len(lines) - 10} more"] if len(lines) > 10 else [])
        text = "\n  ".join([f"{what} while device memory is in use; free it first:", *shown])
        raise errors.FailedPreconditionError(f"{text}\n{free}".rstrip())


def _live_tensors() -> list[str]:
    """The live tensors, one line each."""
    if not runtime.initialized():
        return []
    import gc
    import json

    from ..tensors.tensor import release_abandoned

    for collect in (True, False):
        release_abandoned()
        lines: list[str] = json.loads(core.pybind_LiveTensors())["tensors"]
        if not lines:
            break
        if collect:
            gc.collect()  # a tensor may be in an unreachable cycle, such as a traceback's
    return lines


# The simulations that have been entered but not left, oldest first.
_entered: list[Simulation] = []


class Simulation(metaclass=Made):
    """The result of ``simulate``. As a context manager it ends the simulation on exit.

    Simulations may overlap. One that ends before a later one changes nothing yet; when the later one ends, the machine that
    preceded both is restored.
    """

    __module__ = "gpuconf"

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    _made_by = "use gpuconf.simulate()"

    def __init__(self, spec: str, before: str) -> None:
        self.spec = spec
        self._before = before

    def __enter__(self) -> Simulation:
        _entered.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ending() or not loaded():  # in a forked child
            return
        later = _leave(self)
        if later is not None:
            later._before = self._before
            return
        try:
            _choose(self._before, "cannot end the simulation")
        except errors.FailedPreconditionError:
            if kind is None:
                raise  # otherwise the block's own error takes precedence

    def __repr__(self) -> str:
        return f"gpuconf.simulate({self.spec or None!r})"


def _leave(simulation: Simulation) -> Simulation | None:
    """Remove a simulation from the list. Returns the next later one that is still entered, or None."""
    with runtime.unchanged():
        if simulation not in _entered:
            return None
        at = _entered.index(simulation)
        del _entered[at]
        return _entered[at] if at < len(_entered) else None


def _choose(spec: str, refusal: str, caller: str = "") -> str:
    def change() -> str:
        _refuse_while_in_use(refusal)
        found = core.pybind_Simulate(spec)
        simulation_notice.chosen(spec and found.partition("\n")[2], caller)
        return found

    return runtime.replace(change)


def simulate(spec: str | None, *, values: str | None = None) -> Simulation:
    """Simulate GPUs from now on, or for a ``with`` block, after which the previous machine is restored.

    ``None`` ends the simulation: the process uses the real GPUs again, or those of ``GPUCONF_SIMULATE``.

    ``spec`` is a comma-separated list of ``[N x]MODEL[:MEMORY][:PROFILE]...``, such as ``"2xH100-80GB"``, ``"A100,T4"`` or
    ``"4xT4:8GiB:no-peers"``. A model without a memory size has its most common size, which :func:`simulated` returns. Names that a
    driver reports, such as ``"NVIDIA A100-SXM4-80GB"``, are also models. A profile is how the machine around the card behaves:
    ``wsl``, ``mig-container``, ``unified``, ``no-peers``, ``mps`` or ``driver=VERSION``. Simulated memory is host memory, which is
    allocated when it is first written. The configuration is discarded. ``CUDA_VISIBLE_DEVICES`` filters simulated GPUs too. The
    environment variable ``GPUCONF_SIMULATE`` has the same effect as a call.

    With ``values="none"``, PyTorch sees the simulated GPUs, too, if it is imported afterwards: it allocates on them as on the
    cards, but nothing is computed, and what it reads from a GPU has no meaning. It keeps these GPUs until the process ends.
    ``None`` is the choice of ``GPUCONF_SIMULATE_VALUES``; by default PyTorch sees none of them.

    Raises ValueError for an invalid spec (the message for an unknown model lists the known ones and the nearest) or another
    choice of values, and RuntimeError while device memory is in use, if the process has started a simulated driver of another
    version, or if PyTorch is imported too early.

    >>> with simulate("A100-40GB,T4"):
    ...     [d.name for d in gpuconf.config.list_physical_devices("GPU")]
    ['/physical_device:GPU:0', '/physical_device:GPU:1']
    """
    refuse_in_child()
    if spec is not None and not texts.check_text("spec", spec).strip():
        raise errors.InvalidArgumentError("spec is empty: pass a model, such as 'H100-80GB', or None to end the simulation")
    wanted = simulated_torch.requested() if values is None else simulated_torch.is_none(values, "values")
    if wanted and spec is not None:
        simulated_torch.prepare()
    before, now = _choose(spec or "", "cannot change the simulation", runtime.caller("gpuconf.simulate")).split("\n")
    return make(Simulation, now, before)
