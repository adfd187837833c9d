# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs, and reset."""

from __future__ import annotations

from .. import errors
from .._core import runtime, settings, texts
from .._core.block import Block, refuse_copy
from .._core.message import loads
from .._core.native import core, loaded, refuse_in_child
from .._core.table import Made, make
from .._core.texts import refuse_unknown
from .._typing import NoReturn
from ..memory import _buffer
from . import simulated_torch


def simulated() -> str:
    """Return the simulated machine as a spec for :func:`simulate`, or ``""`` if nothing is simulated.

    Lists the devices.

    >>> simulated()
    '2xH100-80GB'
    """
    return runtime.simulated()


def reset() -> None:
    """Discard the devices and the configuration, and release the memory of all pools. For tests and notebooks.

    The next call lists the devices again. If device memory is in use (by buffers, views, tensors or another library),
    raises RuntimeError, which lists what uses it, and changes nothing.
    """
    refuse_in_child()

    def change() -> None:
        if loaded() or runtime.enumerated():
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

    from ..tensors.tensor import release_abandoned

    for collect in (True, False):
        release_abandoned()
        lines: list[str] = loads(core.pybind_LiveTensors())["tensors"]
        if not lines:
            break
        if collect:
            gc.collect()  # a tensor may be in an unreachable cycle, such as a traceback's
    return lines


# The simulations that have been entered but not left, oldest first.
_entered: list[Simulation] = []


class Simulation(Block, metaclass=Made):
    """The result of ``simulate``. As a context manager it ends the simulation on exit.

    Simulations may overlap. One that ends before a later one changes nothing yet; when the later one ends, the machine
    that preceded both is restored.
    """

    __module__ = "gpuconf"

    _made_by = "use gpuconf.simulate()"
    __reduce_ex__ = refuse_copy

    def __init__(self, spec: str, before: str) -> None:
        self.spec = spec
        self._before = before

    def __enter__(self) -> Simulation:
        _entered.append(self)
        return self

    def _leave(self, kind: type[BaseException] | None, *_: object) -> None:
        if not loaded():  # in a forked child
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
        if simulated_torch.keeps_machine():
            simulated_torch.refuse_another_machine(core.pybind_Specification(spec) if spec else "")
        _refuse_while_in_use(refusal)
        found: str = core.pybind_Simulate(spec)
        now = found.partition("\n")[2]
        runtime.chosen(spec and now, caller)
        return found

    return runtime.replace(change)


def simulate(
    spec: str | None, *more: NoReturn, values: str | None = None, strict: bool | None = None, **unknown: NoReturn
) -> Simulation:
    """Simulate GPUs from now on, or for a ``with`` block, after which the previous machine is restored.

    ``None`` ends the simulation: the process uses the real GPUs again, or those of ``GPUCONF_SIMULATE``.

    ``spec`` is a comma-separated list of ``[N x]MODEL[:MEMORY][:PROFILE]...``, such as ``"2xH100-80GB"``, ``"A100,T4"``
    or ``"4xT4:8GiB:no-peers"``. A model without a memory size has its most common size, which :func:`simulated`
    returns. Names that a driver reports, such as ``"NVIDIA A100-SXM4-80GB"`` or what ``torch.cuda.get_device_name()``
    returns, are also models. A profile is how the machine around the card behaves: ``wsl``, ``mig-container``,
    ``unified``, ``no-peers``, ``mps``, ``no-limit``, ``contexts`` or ``driver=VERSION``. Simulated memory is host
    memory, which is allocated when it is first written. The configuration is discarded. ``CUDA_VISIBLE_DEVICES``
    filters simulated GPUs too. The environment variable ``GPUCONF_SIMULATE`` has the same effect as a call.

    PyTorch sees the simulated GPUs, too, if it is built for CUDA and imported afterwards, and keeps them until the
    process ends. With ``values="cpu"`` the CPU computes what it does on them. With ``values="none"`` it allocates as on
    the cards, but only operations on tensors below 64 KiB are computed; other results read as zero. ``None`` is the
    choice of ``GPUCONF_SIMULATE_VALUES``, else "cpu". What runs on the simulated GPUs without a value, such as a Triton
    kernel, is counted and named when the process ends. With ``strict=True`` or ``GPUCONF_SIMULATE_STRICT=1`` it is an
    error.

    Raises ValueError for an invalid spec (the message for an unknown model lists the known ones and the nearest) or
    another choice of values. Raises RuntimeError while device memory is in use, if the process has started a simulated
    driver of another version, if a PyTorch for CUDA is imported already, or if PyTorch has started on another simulated
    machine. If values were requested, by the argument or the variable, ``import torch`` raises RuntimeError for a
    PyTorch that is built without CUDA; else it warns.

    >>> with simulate("A100-40GB,T4"):
    ...     [d.name for d in gpuconf.config.list_physical_devices("GPU")]
    ['/physical_device:GPU:0', '/physical_device:GPU:1']
    """
    refuse_unknown("simulate", unknown, ("spec", "values", "strict"), {})
    _check(spec)
    if more:
        raise errors.InvalidTypeError(f"spec is one text, such as '2xT4', but got {1 + len(more)} arguments")
    if strict is not None and not isinstance(strict, bool):
        raise errors.InvalidTypeError(f"strict must be True, False or None, but got {texts.shown(strict)}")
    caller = runtime.caller("gpuconf.simulate")
    if spec is not None:
        simulated_torch.choose(values, strict, caller=caller)
    elif values is not None:
        settings.checked_values(values, "values")
    return _simulated(spec, caller)


def simulate_buffers(spec: str | None) -> Simulation:
    """Like :func:`simulate`, for gpuconf's own buffers: libraries that are imported already do not matter, and see no
    GPU of it.
    """
    _check(spec)
    return _simulated(spec, runtime.caller("gpuconf.simulate"))


def _check(spec: str | None) -> None:
    refuse_in_child()
    if isinstance(spec, int) and not isinstance(spec, bool):
        raise errors.InvalidTypeError(
            f"spec must be a string with a model, such as '{max(spec, 1)}xT4', but got int: {spec}"
        )
    if spec is not None and not texts.check_text("spec", spec).strip():
        raise errors.InvalidArgumentError(
            "spec is empty: pass a model, such as 'H100-80GB', or None to end the simulation"
        )


def _simulated(spec: str | None, caller: str) -> Simulation:
    before, now = _choose(spec or "", "cannot change the simulation", caller).split("\n")
    return make(Simulation, now, before)
