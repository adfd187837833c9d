# SPDX-License-Identifier: Apache-2.0
"""Checks of host addresses that a program supplies: through ``from_address`` of ``ctypes``, or ``__array_interface__``.

All other memory that reaches gpuconf belongs to an object that allocated it. A supplied address may be wrong, and
reading a wrong one crashes the process. So the address is first looked up in the process's memory map.
"""

from __future__ import annotations

import sys
from _weakref import ReferenceType

from .. import errors
from .._typing import Any

_MAPS = "/proc/self/maps"

# The live arrays behind ``Buffer.view``, by id, because ctypes arrays are not hashable.
views: dict[int, ReferenceType[Any]] = {}


def check(exporter: Any, address: int, nbytes: int, write: bool = False) -> None:
    """Raise InvalidArgumentError if an object's bytes are at an address that is not readable, or not writable."""
    owner = owner_of(exporter)
    if nbytes and made_up(owner) and not _ours(owner):
        _look_up(type(owner).__name__, address, nbytes, write)


def owner_of(exporter: Any) -> Any:
    """Return the object behind a view, or a view of a view; None for memory that NumPy allocated."""
    numpy = sys.modules.get("numpy")
    while exporter is not None:
        if isinstance(exporter, memoryview):
            exporter = exporter.obj
        elif numpy is not None and isinstance(exporter, numpy.ndarray):
            exporter = exporter.base
            if isinstance(exporter, tuple):  # of an object with __array_struct__: that, and the capsule
                exporter = exporter[0]
        else:
            break
    return exporter


def made_up(owner: Any) -> bool:
    """Whether the program supplied the object's address."""
    if owner is None:
        return False
    # A ctypes type is recognized by its metaclass, without importing ctypes.
    return (
        type(type(owner)).__module__ == "_ctypes"
        or hasattr(owner, "__array_interface__")
        or hasattr(owner, "__array_struct__")
    )


def _ours(owner: Any) -> bool:
    """Whether it is the array behind a ``Buffer.view``.

    Such memory stays mapped, in too many mappings for a quick lookup.
    """
    return id(owner) in views


def _look_up(kind: str, address: int, nbytes: int, write: bool) -> None:
    try:
        with open(_MAPS, encoding="ascii", errors="replace") as maps:
            lines = maps.readlines()
    except OSError:  # without /proc the address cannot be checked
        return
    at, end = address, address + nbytes
    for line in lines:  # in order of address
        span, _, rest = line.partition(" ")
        first, last = (int(number, 16) for number in span.split("-"))
        if last <= at:
            continue
        if first > at or rest[0] != "r" or (write and rest[1] != "w"):
            break
        at = last
        if at >= end:
            return
    verb = "written" if write else "read"
    raise errors.InvalidArgumentError(
        f"{nbytes} bytes at host address 0x{address:x} cannot be {verb}: the address range is not mapped in this "
        f"process, or its permissions do not allow it. The address was supplied by an object of type {kind}"
    )
