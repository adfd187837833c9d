# SPDX-License-Identifier: Apache-2.0
"""``tf.function``: runs the Python function as it is, and says so once."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper

from ..._core.fork import module_lock
from ..._typing import Any
from .._logger import get_logger

_lock = module_lock(globals(), "_lock")
_said = False


class Function:
    """A function that ``tf.function`` decorates: calling it runs the Python function each time."""

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self.python_function = python_function
        update_wrapper(self, python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python_function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Function(self.python_function.__get__(instance, owner))


def function(func: Any = None, **options: Any) -> Any:
    """Return a function that runs ``func`` each time it is called.

    ``options`` have no effect: nothing is traced or compiled.

    The first call logs that.

    >>> @function
    ... def twice(x):
    ...     return x + x
    >>> twice(2)
    4
    """
    del options
    _say()
    return Function if func is None else Function(func)


def _say() -> None:
    global _said
    with _lock:
        if not _said:
            _said = True
            get_logger().info("gpuconf runs tf.function's Python functions as they are: it traces and compiles nothing")
