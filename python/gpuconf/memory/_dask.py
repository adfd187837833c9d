# SPDX-License-Identifier: Apache-2.0
"""Serialization of buffers that are results or arguments of Dask tasks.

Dask looks up a serializer by type before it falls back to pickle. Dask calls this module when it is imported, through
an entry point (``dask.sizeof`` in pyproject.toml); if Dask was imported first, importing ``gpuconf.memory`` registers
the serializers. A buffer is sent as its bytes and arrives as an :class:`ArrivedBuffer`, which allocates device memory
when a task first uses it. The receiving thread must not allocate: an error there (no GPU, out of memory) leaves the
task waiting forever, and in a client it would initialize the devices with a configuration that the program did not
choose.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._buffer import Buffer

_SERIALISERS = "distributed.protocol.serialize"


def when_dask_is_imported(_sizeof: object) -> None:
    """Register once the serializer table exists.

    Dask calls this; ``distributed``, which has the table, imports Dask first.
    """
    from .._core import import_hook

    if _SERIALISERS in sys.modules:
        register()
    else:
        import_hook.when_imported(_SERIALISERS, register)


def register() -> None:
    """Register if ``distributed`` has been imported."""
    serializers: Any = sys.modules.get(_SERIALISERS)
    if not hasattr(serializers, "dask_deserialize"):
        return
    from dask.sizeof import sizeof

    from ._buffer import Buffer

    sizeof.register(Buffer, _size)  # as for CuPy's and RMM's memory, so that Dask knows the cost of moving a buffer
    serializers.dask_serialize.register(Buffer, _dump)
    serializers.dask_deserialize.register(Buffer, _load)


def _size(buffer: Buffer) -> int:
    return buffer.nbytes


def _dump(buffer: Buffer) -> tuple[dict[str, Any], list[bytearray]]:
    about = {"nbytes": buffer.nbytes, "freed": buffer.freed}
    return about, [] if buffer.freed else [buffer.copy_to_host()]  # a memoryview makes distributed's pickler recurse


def _load(about: dict[str, Any], frames: Sequence[bytearray | memoryview]) -> Buffer:
    from .._core.table import make
    from ._arrived import ArrivedBuffer

    return make(ArrivedBuffer, about["nbytes"], None if about["freed"] else bytearray().join(frames))
