# SPDX-License-Identifier: Apache-2.0
"""Names of ``typing``, without its cost.

Importing ``typing`` takes about half as long as all of gpuconf. Annotations must resolve all the same, because
``typing.get_type_hints`` evaluates them in the module of the function or class. So modules import from here what they
would import from ``typing``. A type checker sees the real names. At run time ``Any`` and ``NoReturn`` stand for
``object``, and ``NamedTuple`` is a light one for classes of the same form.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
else:
    Any = NoReturn = object

    class _FromAnnotations(type):
        """Makes a class of a named tuple whose fields are the annotated names in the class body."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            base = namedtuple(name.removeprefix("_"), fields, defaults=defaults, module=body["__module__"])
            base.__new__.__annotations__ = fields  # for inspect.signature
            return type(name, (*bases[0]._methods, base), {"__slots__": (), **body})

    def named_tuple(name: str, *methods: type) -> type:
        """Return a class like ``typing.NamedTuple``, whose classes also have the methods of others."""
        return type.__new__(_FromAnnotations, name, (), {"_methods": methods})

    NamedTuple = named_tuple("NamedTuple")
