# SPDX-License-Identifier: Apache-2.0
"""What a run takes and returns: feeds and fetches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..._typing import Any
from ...tensors import arrays as _arrays
from ...tensors.tensor import Tensor as EagerTensor
from .._arrays import array_of
from ._graph import Graph, Operation, Tensor


def arrays(graph: Graph, feed_dict: Any) -> dict[Tensor, Any]:
    """Return the arrays of a ``feed_dict``, by tensor.

    Raises TypeError for a key that is not a tensor of the graph or a value of the wrong type, and ValueError for a
    wrong shape.
    """
    try:
        return {} if not feed_dict else dict(_fed(graph, key, value) for key, value in _items(feed_dict))
    except RecursionError:
        raise ValueError("the feeds are recursive or nested too deeply") from None


def _items(feed_dict: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a ``feed_dict``. A tuple as a key is flattened together with its value."""
    from collections.abc import Mapping

    if not isinstance(feed_dict, Mapping):
        raise TypeError(
            "FlattenDictItems: 'dict' must be a dictionary or collection.Mapping type object, "
            f"instead of '{type(feed_dict).__name__}'."
        )
    seen = set()
    for key, value in feed_dict.items():
        keys, values = ([key], [value]) if not isinstance(key, tuple) else (list(_leaves(key)), list(_leaves(value)))
        if len(keys) != len(values):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} elements. "
                f"Key: {shown(keys)}, value: {shown(values)}."
            )
        for one in keys:
            if one in seen:
                raise ValueError(f"Cannot flatten dict because this key is not unique: {shown(one)}")
            seen.add(one)
        yield from zip(keys, values, strict=True)


def _leaves(nested: Any) -> Iterator[Any]:
    if not isinstance(nested, (list, tuple)):
        yield nested
        return
    for each in nested:
        yield from _leaves(each)


def _fed(graph: Graph, key: Any, value: Any) -> tuple[Tensor, Any]:
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from None
    assert isinstance(tensor, Tensor)
    if isinstance(value, (Tensor, EagerTensor)):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, "
            f"lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was {shown(value)} which was "
            f"passed to the argument `feed_dict` with key {shown(key)}."
        )
    array = _array(value, tensor.dtype.dtype)
    if not _fits(array.shape, tensor._shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape} for Tensor {tensor.name}, which has shape {tensor.shape}"
        )
    return tensor, array


def _fits(shape: tuple[int, ...], known: tuple[int | None, ...] | None) -> bool:
    """Whether an array of a shape can be fed to a tensor of which a shape is known."""
    if known is None or shape == known:
        return True
    return len(shape) == len(known) and all(wanted in (None, size) for size, wanted in zip(shape, known, strict=True))


def _array(value: Any, dtype: Any) -> Any:
    """Convert a value to an array with a tensor's dtype, by NumPy's rules."""
    np = _arrays.numpy()
    if isinstance(value, int) and not _holds(dtype, value):
        raise TypeError(
            f"Type of feed value {_arrays.shown(value)} with type {type(value)} is not compatible with Tensor type "
            f"{dtype.type}. Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )
    _arrays.check_readable(value)
    if dtype.kind == "O":
        return array_of(value, "string")
    try:
        return np.asarray(value, dtype)
    except TypeError as error:
        raise TypeError(f"Cannot feed {_arrays.shown(value)}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"Cannot feed {_arrays.shown(value)}: {error}") from None


def _holds(dtype: Any, value: int) -> bool:
    """Whether a dtype can represent an int exactly."""
    if dtype.kind in "iu":
        limits = _arrays.numpy().iinfo(dtype)
        return bool(limits.min <= value <= limits.max)
    try:
        return bool(dtype.type(value) == value)
    except OverflowError:
        return False


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
