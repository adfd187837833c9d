# SPDX-License-Identifier: Apache-2.0
"""Check the model of PyTorch's allocator against a snapshot that PyTorch wrote."""

from __future__ import annotations

import os

from ... import errors
from ..._core.job import Job
from ..._core.native import core, refuse_in_child
from ..._core.table import Table
from ..._typing import NamedTuple


class _Verification(NamedTuple):
    allocations: int  # in the snapshot's events
    same_address: int  # allocations that got the recorded address
    undetermined: int  # allocations that depend on something that the snapshot does not contain
    segments: int  # segments taken and released, and ranges mapped and unmapped
    same_segments: int  # of these, those that the replay took and released at the same time
    difference: str  # the first difference, or ""


class Verification(Table, _Verification):
    """How far a replay of a snapshot agrees with what PyTorch recorded."""

    __slots__ = ()


def verify(path: str | os.PathLike[str]) -> Verification:
    """Replay a snapshot of ``torch.cuda.memory._dump_snapshot()`` on the model of PyTorch's allocator, and compare.

    Raises ValueError for a file that is not such a snapshot, and OSError as ``open`` does.
    """
    name = os.fspath(path)
    refuse_in_child()
    with open(name, "rb", buffering=0) as file:
        try:
            with Job(core.pybind_OpenVerify, file.fileno()) as job:
                result = job.finish()
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"cannot verify {name!r}: {error}") from None
    return Verification(**result["verdict"], difference=result["difference"])
