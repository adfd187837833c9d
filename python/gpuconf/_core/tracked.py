# SPDX-License-Identifier: Apache-2.0
"""The objects that the garbage collector knows."""

from __future__ import annotations

import gc

from .._typing import Any
from . import native


def instances(kind: type) -> list[Any]:
    """Return the objects of a class and its subclasses, without running code of theirs.

    A tuple that another thread is building is among the collector's objects, and a reference to it makes ``tuple()``
    fail there with SystemError. The core's function (``pybind/_gpuconf/tracked.c``) lets no other thread run; it works
    in a forked
    child too.
    """
    core = native.extension()
    found: list[Any] = (
        core.instances(kind)
        if core is not None
        else [each for each in gc.get_objects() if issubclass(type(each), kind)]
    )
    return found
