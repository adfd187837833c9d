# SPDX-License-Identifier: Apache-2.0
"""How large a loader's batches are, and how large its data set's items can make them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

import torch
from torch.utils.data import dataloader

from ..._typing import Any, NamedTuple
from .branches import untraced

_ITEMS, _SECONDS = 100_000, 2.0  # of a data set, to see whether its items have one size
_OBJECTS = 100  # of a batch whose attributes are looked at
_FEWEST = 32  # items of which that is believed, if there are more


def numbers(value: Any, *, texts: bool = False) -> int:
    """Return how many numbers a batch or an item has, and letters, if ``texts``."""
    if isinstance(value, torch.Tensor):
        return int(value.numel())
    if isinstance(value, (str, bytes)):
        return len(value) if texts else 0
    if isinstance(value, Mapping):
        return sum(numbers(one, texts=texts) for one in value.values())
    if isinstance(value, (list, tuple)):
        return sum(numbers(one, texts=texts) for one in value)
    size = getattr(value, "size", None)  # of NumPy's arrays, and of pictures
    if isinstance(size, int):
        return size
    if isinstance(size, tuple) and len(size) == 2 and all(isinstance(one, int) for one in size):
        return int(size[0] * size[1])
    fields = getattr(value, "__dict__", None)
    return sum(numbers(one, texts=texts) for one in fields.values()) if fields else 1


def shape(batch: Any) -> str:
    """Return the shape of the largest tensor in a batch."""
    shapes = [tuple(one.shape) for one in tensors(batch)]
    largest = max(shapes, key=lambda shape: torch.Size(shape).numel(), default=())
    return "x".join(map(str, largest)) or "without a shape"


def tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors in a batch."""
    waiting, objects = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, (Mapping, list, tuple)):
            waiting.extend(one.values() if isinstance(one, Mapping) else one)
        elif hasattr(one, "__dict__") and objects < _OBJECTS:  # which may refer to each other
            objects += 1
            waiting.extend(vars(one).values())


class Items(NamedTuple):
    """The sizes of a data set's items by their numbers, and why not all are known."""

    sizes: dict[int, int]
    unknown: str = ""

    def has_several_sizes(self) -> bool:
        """Whether the items differ."""
        return len(set(self.sizes.values())) > 1

    def largest(self, count: int | None) -> Any:
        """Return the numbers of the largest items, or the largest one's for None: a loader without batches."""
        order = sorted(self.sizes, key=lambda number: -self.sizes[number])
        return order[0] if count is None else (order * count)[:count]

    def size_of(self, index: Any) -> int:
        """Return how large a batch of these items is, if the largest one's size is that of all."""
        numbers = index if isinstance(index, list) else [index]
        return len(numbers) * max((self.sizes.get(number, 0) for number in numbers), default=0)


class Reach(NamedTuple):
    """A batch of a data set's largest items: how many numbers it has, its shape, and else why that is not known."""

    numbers: int = 0  # if all items have one size
    shape: str = ""
    unknown: str = ""


_kept: dict[tuple[int, float], tuple[Any, Items]] = {}  # by the data set, which is kept: its number would be another's
_reaches: dict[tuple[int, int], Reach] = {}


def items_of(iterator: Any, *, seconds: float = _SECONDS) -> Items:
    """Return what is known of a loader's items after a time."""
    dataset = iterator._dataset
    key = id(dataset), seconds
    if key not in _kept:
        try:
            with untraced():
                items = _look(dataset, seconds, texts=iterator._collate_fn is not dataloader.default_collate)
        except Exception as error:  # a program's data set may fail as it likes
            items = Items({}, f"the data set's items could not be looked at ({type(error).__name__})")
        _kept[key] = dataset, items
    return _kept[key][1]


def reach_of(iterator: Any, count: int) -> Reach:
    """Return how large a batch of the largest items would be."""
    items = items_of(iterator)
    if items.unknown:
        return Reach(unknown=items.unknown)
    if not items.has_several_sizes():
        return Reach()
    key = id(iterator._dataset), count
    if key not in _reaches:
        try:
            with untraced():
                batch = iterator._collate_fn([iterator._dataset[number] for number in items.largest(count)])
            _reaches[key] = Reach(numbers(batch), shape(batch))
        except Exception as error:
            _reaches[key] = Reach(unknown=f"the largest items make no batch ({type(error).__name__})")
    return _reaches[key]


def _look(dataset: Any, seconds: float, *, texts: bool) -> Items:
    begin, total = time.monotonic(), len(dataset)
    sizes = {}
    for number in random.Random(0).sample(range(total), min(total, _ITEMS)):
        sizes[number] = numbers(dataset[number], texts=texts)
        if time.monotonic() - begin > seconds:
            break
    is_one_size = len(set(sizes.values())) == 1
    if len(sizes) < (min(total, _FEWEST) if is_one_size else total):
        return Items(sizes, f"{len(sizes)} of the data set's {total} items were looked at")
    return Items(sizes)
