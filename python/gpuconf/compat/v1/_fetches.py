# SPDX-License-Identifier: Apache-2.0
"""The fetches of a session: a structure of graph elements, and a result with the same structure."""

from __future__ import annotations

from collections.abc import Callable

from ..._typing import Any
from ._graph import Graph, Operation, Tensor

Build = Callable[[dict[Tensor, Any]], Any]


class Fetches:
    """A structure of tensors, operations and names, nested in lists, tuples and mappings.

    ``tensors`` and ``operations`` hold each element of the structure once.
    """

    def __init__(self, graph: Graph, structure: Any) -> None:
        self.tensors: dict[Tensor, None] = {}  # a set that keeps its order
        self.operations: dict[Operation, None] = {}
        self._graph = graph
        try:
            self.build = self._parsed(structure)
        except RecursionError:
            raise ValueError("the fetches are recursive or nested too deeply") from None

    def _parsed(self, fetch: Any) -> Build:
        """Record the elements of a fetch, and return the function that builds its result."""
        from collections.abc import Mapping

        if fetch is None:
            raise TypeError('Argument `fetch` = None has invalid type "NoneType". Cannot be None')
        if isinstance(fetch, (list, tuple)):
            return self._sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        element = self._element(getattr(fetch, "_value", fetch))  # of a variable
        if isinstance(element, Operation):
            self.operations[element] = None
            return lambda _: None
        self.tensors[element] = None
        return lambda values: values[element]

    def _sequence(self, fetch: list[Any] | tuple[Any, ...]) -> Build:
        parts, kind = [self._parsed(each) for each in fetch], type(fetch)
        if isinstance(fetch, list):
            return lambda values: [part(values) for part in parts]
        if kind is tuple:
            return lambda values: tuple(part(values) for part in parts)
        return lambda values: kind(*(part(values) for part in parts))  # a namedtuple

    def _mapping(self, fetch: Any) -> Build:
        from collections import defaultdict

        items = [(key, self._parsed(each)) for key, each in fetch.items()]
        first = (fetch.default_factory,) if isinstance(fetch, defaultdict) else ()
        return lambda values: type(fetch)(*first, ((key, part(values)) for key, part in items))

    def _element(self, fetch: Any) -> Tensor | Operation:
        try:
            return self._graph.as_graph_element(fetch)
        except TypeError as error:
            text = (
                f'Argument `fetch` = {shown(fetch)} has invalid type "{type(fetch).__name__}" must be a string or '
                f"Tensor. ({error})"
            )
            raise TypeError(text) from None
        except (ValueError, KeyError) as error:
            text = f"Argument `fetch` = {shown(fetch)} cannot be interpreted as a Tensor. ({error})"
            raise ValueError(text) from None


def shown(value: Any) -> str:
    """Return ``str(value)`` for a message, shortened in the middle if it is long."""
    try:
        text = str(value)
    except Exception as error:
        return f"a {type(value).__name__} whose text is unavailable: {type(error).__name__}"
    return text if len(text) <= 400 else f"{text[:200]}... {len(text) - 300} characters ...{text[-100:]}"
