# SPDX-License-Identifier: Apache-2.0
"""``%gpu fits``: whether what a cell does fits on cards, by a rehearsal of the cell on a simulated one."""

from __future__ import annotations

from IPython.display import display

from .._typing import Any
from ..plans.programs.block import RehearsedBlock, rehearse


class Fitting:
    """The rehearsal of a cell of one shell."""

    def __init__(self) -> None:
        self._block: RehearsedBlock | None = None

    def begin(self, gpu: str) -> None:
        """Rehearse the rest of the cell.

        Raises as :func:`gpuconf.rehearse` does, and MissingPackageError without PyTorch.
        """
        self.after(None)
        block = rehearse(gpu)
        block.__enter__()
        self._block = block

    def after(self, result: Any) -> None:
        """Show the answer after the cell. IPython calls this."""
        block, self._block = self._block, None
        if block is not None:
            error = None if result is None else result.error_in_exec
            block.__exit__(type(error) if error is not None else None, error, None)
            display(block.result)
