# SPDX-License-Identifier: Apache-2.0
"""The cards of the machine, whether this process sees them or not, without CUDA."""

from __future__ import annotations

from .._core import runtime
from .._core.generated import cards as wire
from .._core.generated.cards import SimulatedModel
from .._core.message import loads
from .._core.native import core


class Survey(wire.Survey):
    """All cards of the machine."""

    __slots__ = ()

    @property
    def why_none_shortly(self) -> str | None:
        """Why there is no card, without the files that were looked for."""
        return self.why_none and self.why_none.partition(" (")[0]


def survey() -> Survey:
    """Return all cards of the machine: the simulated one if there is one, else those that NVML reports.

    Creates no CUDA context and takes no device memory. ``CUDA_VISIBLE_DEVICES`` has no effect. A machine without a
    driver has no card, which ``why_none`` explains. Raises ValueError if ``GPUCONF_SIMULATE`` is invalid.
    """
    text = core.pybind_Cards(runtime.environment())
    return Survey(*wire.Survey._read(loads(text)))


def models() -> list[SimulatedModel]:
    """Return the models that can be simulated, newest first."""
    text = core.pybind_Models()
    return list(map(SimulatedModel._read, loads(text)))
