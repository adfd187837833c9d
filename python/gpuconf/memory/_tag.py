# SPDX-License-Identifier: Apache-2.0
"""Tags: names for parts of a program, so that memory in use can be told apart by them."""

from __future__ import annotations

import functools
import sys
from _thread import _local
from collections.abc import Callable

from .. import errors
from .._core import texts
from .._core.native import by_hand, core, loaded
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES = 200  # gocore/base/holder

GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR; importing inspect takes long


def refuse_generators(function: Any, doing: str, instead: str) -> None:
    """Refuse a function that has done nothing yet when its call returns."""
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & GENERATORS:
        raise errors.InvalidTypeError(
            f"{doing} a generator or coroutine function, whose body runs after the call returns: {instead}"
        )


class _Blocks(_local):
    """The blocks that a thread is in: each one's tag, and the number of the tag outside it."""

    def __init__(self) -> None:
        self.entered: list[tuple[Tag, int]] = []


_blocks = _Blocks()


class Tag:
    """The context manager and decorator that :func:`tag` returns.

    It is reusable and reentrant, also in several threads.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    name: str

    def __init__(self, name: str) -> None:
        self.name = name
        self._used = False
        self._number = 0  # the core's number for the name, which stays the same in this process; 0 before the first use

    def __enter__(self) -> Tag:
        self._used = True
        self._number = self._number or core.pybind_InternTag(self.name)
        native = by_hand()
        before = native.tag()
        entered = _blocks.entered
        entered.append((self, before))
        try:
            native.set_tag(self._number)
        except BaseException:
            entered.pop()
            native.set_tag(before)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._ending() or not loaded():  # in a forked child
            return
        entered = _blocks.entered
        for i in range(len(entered) - 1, -1, -1):
            if entered[i][0] is self:
                break
        else:
            return  # another thread entered it, as when it collects an abandoned generator
        before = entered[i][1]
        if i == len(entered) - 1:
            by_hand().set_tag(before)
        else:  # blocks of coroutines can end in any order
            entered[i + 1] = (entered[i + 1][0], before)
        del entered[i]

    if TYPE_CHECKING:

        def __call__(self, function: F) -> F: ...
    else:

        def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
            """Return the function with its calls inside this tag."""
            self._used = True
            if not callable(function) or isinstance(function, type):
                raise errors.InvalidTypeError(f"a tag decorates a function, but got {texts.given(function)}")
            inside = f"write `with gpuconf.memory.tag({self.name!r}):` inside it"
            refuse_generators(function, "a tag cannot decorate", inside)

            @functools.wraps(function)
            def tagged(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

            return tagged

    def __del__(self) -> None:
        """Warn of ``gpuconf.memory.tag(...)`` as a statement, under which nothing counts."""
        if self._ending():
            return
        if getattr(self, "_used", True):
            return
        import warnings

        warnings.warn(
            "this tag was never entered: write `with gpuconf.memory.tag(...):` around what counts", stacklevel=2
        )

    def __repr__(self) -> str:
        return f"gpuconf.memory.tag({self.name!r})"


def tag(name: str) -> Tag:
    """Name the part of a program that allocates device memory, for :func:`usage`: a context manager and a decorator.

    Blocks allocated in the ``with`` block count under ``name``, by any library that allocates from gpuconf's pools.
    Inside several tags, the innermost counts. A block keeps its tag until it is freed, wherever that happens.

    A tag belongs to its thread, and a new thread starts without one. PyTorch runs a backward pass in threads of its
    own: they count under the tag that any other thread entered, or returned to, last, which is the one around
    ``loss.backward()`` if tags are used in one thread. asyncio tasks that wait inside a tag share it. PyTorch in mode
    ``"segments"``, and CuPy with a pool of its own, ask gpuconf for large segments; those count under the tag of the
    thread that needed the segment.

    A tag survives a reset. A process can use 8,190 different names; later ones count under ``"(other)"``.

    Raises TypeError if ``name`` is not a string, and ValueError if it is empty, longer than 200 bytes in UTF-8, or
    contains control characters. Entering it loads the core, but does not initialize the runtime.

    >>> with tag("optimizer"):
    ...     state = allocate(1000, "GPU:0")
    >>> [(row.library, row.tag, row.bytes_in_use) for row in usage("GPU:0")]
    [('gpuconf', 'optimizer', 1024)]
    >>> state.free()
    """
    texts.check_text("a tag", name)
    if not name:
        raise errors.InvalidArgumentError("a tag must not be empty")
    size = len(name.encode())
    if size > _MOST_BYTES:
        raise errors.InvalidArgumentError(
            f"a tag must be at most {_MOST_BYTES} bytes long, but got {size}: {texts.shown(name)}"
        )
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in name):
        raise errors.InvalidArgumentError(f"a tag must not contain control characters: {texts.shown(name)}")
    return Tag(name)
