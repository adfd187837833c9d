"""Simulated GPUs, and starting over."""

from __future__ import annotations

import sys
from types import TracebackType

from .. import errors
from .._core import runtime, texts
from .._core.made import Made, make
from .._core.native import core, loaded, refuse_in_child
from ..memory import _buffer


def simulated() -> str:
    """Tell which machine is simulated, as :func:`simulate` takes it; "" where the GPUs are real, or none. Lists the devices.

    >>> simulated()
    '2xH100-80GB'
    """
    return runtime.simulated()


def reset() -> None:
    """Start over: forget the devices and the configuration, and give all memory of the pools back. For tests and notebooks.

    The devices are listed anew by the next call. Raises RuntimeError with the list of what is still in use (buffers, views,
    tensors, memory that another library holds) where there is any, and changes nothing then.
    """
    refuse_in_child()
    if not loaded() and not runtime.enumerated():
        runtime.current.at_enumeration.clear()
        return

    def change() -> None:
        _refuse_while_in_use("reset is refused")
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
    """The tensors that somebody holds, each as a line."""
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
            gc.collect()  # a tensor may be in a cycle that nobody reaches, such as a traceback's
    return lines


# The simulations that are entered and not left, the oldest first.
_entered: list[Simulation] = []


class Simulation(metaclass=Made):
    """What ``simulate`` returns: a handle that ends the simulation when it is used as a context manager.

    Simulations may overlap: one that ends while a later one goes on changes nothing yet; after the later one the machine is
    what it was before both.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    _made_by = "they come from gpuconf.simulate()"

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
            _choose(self._before, "the simulation can't end")
        except errors.FailedPreconditionError:
            if kind is None:
                raise  # else the block's own error is the one to see

    def __repr__(self) -> str:
        return f"gpuconf.simulate({self.spec or None!r})"


def _leave(simulation: Simulation) -> Simulation | None:
    """Take a simulation off the list. Gives the one that was entered next after it, if that goes on."""
    with runtime.unchanged():
        if simulation not in _entered:
            return None
        at = _entered.index(simulation)
        del _entered[at]
        return _entered[at] if at < len(_entered) else None


def _choose(spec: str, refusal: str) -> str:
    def change() -> str:
        _refuse_while_in_use(refusal)
        return core.pybind_Simulate(spec)

    return runtime.replace(change)


def simulate(spec: str | None) -> Simulation:
    """Run on simulated GPUs from here on, or for a ``with`` block, after which the machine is the one before.

    ``None`` ends the simulation: the machine is the real one again, or that of ``GPUCONF_SIMULATE``.

    ``spec`` is a comma list of ``[N x]MODEL[:MEMORY]``, such as ``"2xH100-80GB"``, ``"A100,T4"`` or ``"4xT4:8GiB"``. A model
    without a size takes its most common one, which :func:`simulated` then shows; names that a driver reports, such as
    ``"NVIDIA A100-SXM4-80GB"``, are models too. Simulated memory is host memory, taken only as it is written. Everything that was
    configured is forgotten. ``CUDA_VISIBLE_DEVICES`` filters simulated GPUs too. The environment variable ``GPUCONF_SIMULATE``
    does the same without a call.

    Raises ValueError for an invalid spec (for an unknown model it lists the known ones), and RuntimeError while memory is in use.

    >>> with simulate("A100-40GB,T4"):
    ...     [d.name for d in gpuconf.config.list_physical_devices("GPU")]
    ['/physical_device:GPU:0', '/physical_device:GPU:1']
    """
    refuse_in_child()
    if spec is not None and not texts.check_text("spec", spec).strip():
        raise errors.InvalidArgumentError("spec names no GPU: write a model, such as 'H100-80GB', or None to end the simulation")
    before, now = _choose(spec or "", "simulate is refused").split("\n")
    return make(Simulation, now, before)
