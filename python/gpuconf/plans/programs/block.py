# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.rehearse``: a block of this process on a simulated GPU without a limit, for notebooks."""

from __future__ import annotations

import contextlib
import os
import tempfile

from ... import errors
from ..._core import settings, texts
from ..._core.block import Block, refuse_copy
from ..._core.table import Made, Printed, make
from ..._typing import Any
from ...simulation import simulated_torch
from ...simulation.simulate import Simulation, simulate
from .answer import Rehearsal
from .needs import Card, alike, group_of, parse


class RehearsedBlock(Block, Printed, metaclass=Made):
    """The result of :func:`gpuconf.rehearse`, a context manager.

    After the block ``result`` is a Rehearsal; before, None.
    """

    __module__ = "gpuconf"

    _made_by = "use gpuconf.rehearse()"
    __reduce_ex__ = refuse_copy

    def __init__(self, cards: list[Card], simulation: Simulation | None) -> None:
        self._cards = cards
        self._simulation = simulation
        self._recording: Any = None
        self.result: Rehearsal | None = None

    def __enter__(self) -> RehearsedBlock:
        try:
            self._begin()
        except BaseException:
            # Back to the cards of before, unless PyTorch has started on these.
            with self._simulation or contextlib.nullcontext():
                raise
        return self

    def _begin(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise texts.missing("gpuconf.rehearse needs", "PyTorch, built for CUDA", "torch", error) from error
        from .records import Request
        from .torch_recording import Recording

        if not torch.cuda.is_available():
            raise errors.FailedPreconditionError(
                "PyTorch sees no simulated GPU: install the PyTorch that is built for CUDA"
            )
        if group_of(torch.cuda.get_device_capability()) != group_of(self._cards[0].capability):
            started = torch.cuda.get_device_name()
            raise errors.FailedPreconditionError(
                f"PyTorch has started on {started}, and chooses other kernels on {self._cards[0].name}: restart the "
                "process for it"
            )
        self._recording = Recording(Request(card=self._cards[0].name))
        self._recording.watch()

    def _leave(self, _: object, error: BaseException | None, __: object) -> None:
        if self._recording is None:
            return
        from .rehearse import of_block

        recording, self._recording = self._recording, None
        with tempfile.TemporaryDirectory(prefix="gpuconf-plan-") as folder:
            recording.write(folder)
            recording.stop()
            self.result = of_block(
                folder, self._cards, failed="" if error is None else f"{type(error).__name__}: {error}"
            )

    def __str__(self) -> str:
        return "the block has not ended" if self.result is None else str(self.result)

    def __repr__(self) -> str:
        return f"<gpuconf.RehearsedBlock: {self.result!r}>"


def rehearse(gpu: str) -> RehearsedBlock:
    """Rehearse a ``with`` block in this process, for notebooks: what PyTorch does in it, on a simulated GPU without a
    limit.

    ``gpu`` is a card, or a list such as ``"L4,A10"`` of cards that PyTorch treats alike. Call this before the first
    ``import torch``: PyTorch then sees the simulated GPU until the process ends, and computes small tensors only, as
    ``gpuconf.simulate(..., values="none")``. A later block may follow. After the block, ``result`` is a Rehearsal, as
    of ``gpuconf.plan(command=...)``. In contrast to that, what the block writes and sends is real: it runs in this
    process.

    Raises ValueError for an invalid card or cards that differ, and RuntimeError if PyTorch was imported before, or has
    started on other GPUs.
    """
    cards = parse(texts.check_text("gpu", gpu))
    if len(alike(cards)) > 1:
        raise errors.InvalidArgumentError(
            f"PyTorch chooses other kernels on some of {gpu}: rehearse each in a process of its own, with "
            "gpuconf.plan(command=...)"
        )
    simulation = None
    if not simulated_torch.runs() or os.environ.get(settings.VALUES):
        simulation = simulate(cards[0].simulated(cards[0].count), values="none")
    return make(RehearsedBlock, cards, simulation)
