# SPDX-License-Identifier: Apache-2.0
"""The results of earlier cells that IPython and the interactive interpreter keep:
``Out``, ``_``, ``__``, ``___``, ``_1`` ...
"""

from __future__ import annotations

import builtins

from .._typing import Any
from ._holders import holds_device_memory
from ._ipython import shell

_UNDERSCORES = ("_", "__", "___")


def drop_outputs() -> int:
    """Drop the outputs that hold device memory, and only these. Return their number.

    A name that the user has assigned, such as ``_ = batch``, is the user's variable and stays.
    """
    dropped = 0
    # The interactive interpreter; gettext installs a function there.
    if holds_device_memory(getattr(builtins, "_", None)):
        builtins._ = None  # type: ignore[attr-defined]
        dropped += 1
    ipython = shell()
    return dropped if ipython is None else dropped + _drop_from(ipython)


def _drop_from(ipython: Any) -> int:
    names, hidden, hook = ipython.user_ns, ipython.user_ns_hidden, ipython.displayhook
    outputs = names.get("_oh")
    dropped: dict[int, Any] = {}
    if isinstance(outputs, dict):
        for number, value in list(outputs.items()):
            if holds_device_memory(value):
                dropped[id(value)] = outputs.pop(number)
                for namespace in (names, hidden):
                    if namespace.get(f"_{number}") is value:
                        del namespace[f"_{number}"]
    for name in _UNDERSCORES:
        value = getattr(hook, name, None)
        if holds_device_memory(value):
            dropped[id(value)] = value
            setattr(hook, name, "")
            for namespace in (names, hidden):
                if namespace.get(name) is value:
                    namespace[name] = ""
    result: Any = getattr(ipython, "last_execution_result", None)
    value = getattr(result, "result", None)
    if holds_device_memory(value):
        dropped[id(value)] = value
        result.result = None
    return len(dropped)
