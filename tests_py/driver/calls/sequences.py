# SPDX-License-Identifier: Apache-2.0
"""Written sequences of calls, about the edges of each kind of object: the functions of these modules that take only a
driver.
"""

import functools
import importlib
from collections.abc import Callable

from answers import Driver

MODULES = "arrays captures contexts copies graphs kernels memory pointers pools processes rest streams virtual"
UNITS: dict[str, Callable[[int, int], None]] = {}


def run(unit: Callable[[Driver], None], descriptor: int, _skip: int) -> None:
    unit(Driver(descriptor))


for module in MODULES.split():
    for name, one in vars(importlib.import_module(module)).items():
        if getattr(one, "__annotations__", {}) == {"d": Driver, "return": None}:
            UNITS[name] = functools.partial(run, one)
