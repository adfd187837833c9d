"""Classes whose objects only functions create."""

from __future__ import annotations

from .. import errors
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


class Made(type):
    """The type of such a class. To call the class is an error that names the functions, which is ``_made_by``; they call ``make``.

    Objects put together from anything failed later, in methods that could not know why.
    """

    _made_by: str

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise errors.InvalidTypeError(f"{cls.__name__} objects cannot be created directly: {cls._made_by}")


def make(cls: type[T], *arguments: Any) -> T:
    """Create an object of such a class."""
    made: T = type.__call__(cls, *arguments)
    return made
