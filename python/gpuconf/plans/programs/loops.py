# SPDX-License-Identifier: Apache-2.0
"""Ends loops over a loader early, once what they allocate repeats, so that a rehearsal sees the whole program.

Only the loader ends: its last batch comes next, and the program goes on with what follows the loop. A loop runs on

- while it allocates nothing on a GPU, holds more with each round, or gathers tensors elsewhere,
- while batches come that are smaller than what its data set's items make,
- while it has a branch that depends on how often it ran and was not taken, such as ``if step % 500 == 0:``,
- until an optimizer has stepped, if it runs backward passes and the program has an optimizer.
"""

from __future__ import annotations

import contextlib
import dis
import os
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import FrameType

import torch
from torch.utils.data import dataloader

from ..._core import stacks
from ..._typing import Any, NamedTuple
from .branches import Watch, forget, locals_of
from .line import TIMES, repeat

_BY_HAND = 20  # equal rounds with backward passes and without an optimizer: gradients may add up
_GROWTH = 2 << 20  # bytes that the rest of a loop may add: a segment of small blocks
_ATTRIBUTE = "_gpuconf_loop"
_MOST_INDICES = 2_000_000
_ITEMS, _SECONDS = 4096, 1.0  # of a data set, to see whether its items have one size


class Figures(NamedTuple):
    """What was allocated on a GPU until now, and what is in use, in bytes."""

    blocks: int
    requested: int
    freed: int
    reserved: int
    in_use: int


def figures() -> list[Figures]:
    """Return the figures of each GPU."""
    of_gpus = []
    for gpu in range(torch.cuda.device_count()):
        stats = torch._C._cuda_memoryStats(gpu)
        requested = stats["requested_bytes"]["all"]
        of_gpus.append(
            Figures(
                stats["allocation"]["all"]["allocated"],
                requested["allocated"],
                requested["freed"],
                stats["reserved_bytes"]["all"]["current"],
                stats["allocated_bytes"]["all"]["current"],
            )
        )
    return of_gpus


def between(before: Sequence[Figures], now: Sequence[Figures]) -> tuple[Any, ...]:
    """Return what was requested and freed on each GPU, and what is reserved.

    What is in use differs from step to step: which cached block serves a request depends on those before.
    """
    return tuple(
        (b.blocks - a.blocks, b.requested - a.requested, b.freed - a.freed, b.reserved)
        for a, b in zip(before, now, strict=True)
    )


class Counted(NamedTuple):
    """How often an optimizer and a backward pass ran, and whether there is an optimizer."""

    steps: int
    backward: int
    has_optimizer: bool


class Loops:
    """The loops over loaders of this process."""

    def __init__(self, counted: Callable[[], Counted]) -> None:
        self.counted = counted
        self.known: set[Any] = set()  # rounds of loops that were cut
        self.stepped = False  # whether a loop has seen an optimizer's step
        self.cut: dict[str, tuple[int, int | None]] = {}  # by the place of the loop: how often it ran, of how many
        self.running: dict[str, str] = {}  # by the place of a loop that is not over: why it was not cut
        self.unseen: dict[str, str] = {}  # by the place of a loop

    def install(self) -> None:
        """Stand before the iterators of torch.utils.data."""
        kind: Any = dataloader._BaseDataLoaderIter
        following = kind.__next__

        def next_batch(iterator: Any) -> Any:
            if not torch.cuda.is_initialized():
                return following(iterator)
            loop = self._loop(iterator)
            if not loop.ended and loop.may_end():
                loop.end()
            try:
                batch = following(iterator)
            except StopIteration:
                self.leave(loop.place)
                raise
            loop.note(batch)
            return batch

        kind.__next__ = next_batch

    def leave(self, place: _Place) -> None:
        """Note that a loop is over."""
        self.running.pop(place.text, None)
        place.leave()

    def _loop(self, iterator: Any) -> _Loop:
        loop: _Loop | None = getattr(iterator, _ATTRIBUTE, None)
        if loop is None or iterator._sampler_iter is not loop.indices:
            loop = _Loop(self, iterator)
            setattr(iterator, _ATTRIBUTE, loop)  # which so ends with it
        return loop


class _Loop:
    """One walk over a loader. A round is the iterations up to a step of an optimizer, or one that runs none."""

    def __init__(self, loops: Loops, iterator: Any) -> None:
        self._loops = loops
        self._iterator = weakref.ref(iterator)
        self.indices = iterator._sampler_iter = _Indices(iterator._sampler_iter)
        self.ended = False
        self._length = _length(iterator)
        self.place = _Place(sys._getframe(3))
        weakref.finalize(iterator, loops.leave, self.place)
        self._before: list[Figures] | None = None
        self._counted = loops.counted()
        self._round: list[Any] = []
        self._rounds: list[Any] = []
        self._in_use: list[list[int]] = []  # after each round
        self._trains = False
        self._iterations = 0
        self._largest: tuple[int, str] = (0, "")  # numbers in a batch, and its shape

    def note(self, batch: Any) -> None:
        """Note the batch of the iteration that begins."""
        self._iterations += 1
        self._largest = max(self._largest, (_numbers(batch), _shape(batch)))

    def may_end(self) -> bool:
        """Whether what is left of the loop does nothing new. An iteration has just ended, but for the first time."""
        now, counted = figures(), self._loops.counted()
        if self._before is None:
            self._before, self._counted = now, counted
            return False
        steps, backward = counted.steps - self._counted.steps, counted.backward - self._counted.backward
        self._round.append((between(self._before, now), steps, backward))
        self._before, self._counted = now, counted
        if steps and not self._loops.stepped:
            self._loops.stepped = True
            forget()
        self._trains = self._trains or bool(backward)
        if self._trains and counted.has_optimizer and not steps:
            return False
        self._rounds.append(tuple(self._round))
        self._in_use.append([one.in_use for one in now])
        self._round = []
        times = TIMES if counted.has_optimizer or not self._trains else _BY_HAND
        if self._rounds[-1] not in self._loops.known and not repeat(self._rounds[1:], times):
            return False
        uses_gpu = any(gpu[0] for figures, _, _ in self._rounds[-1] for gpu in figures)
        if not uses_gpu or self._grows() or self.place.gathers():
            return False
        reason = self.place.untaken() or self._larger()
        if reason:
            self._loops.running[self.place.text] = reason
        return not reason

    def _grows(self) -> bool:
        """Whether the rest of the loop would hold more and more."""
        count = min(len(self._in_use) - 1, TIMES)
        if count < 1:
            return False
        left = (self._length or 100_000) / self._iterations * len(self._rounds)
        growth = max(b - a for a, b in zip(self._in_use[-1 - count], self._in_use[-1], strict=True))
        return growth / count * left > _GROWTH

    def _larger(self) -> str:
        """Return what is known of batches that are larger than all that came, "" if there are none."""
        reach = _reach(self._iterator(), self.indices.longest)
        if self._largest[0] >= reach[0]:
            return ""
        return (
            f"batches of several sizes: the largest that ran is {self._largest[1]}, and the data set's reach {reach[1]}"
        )

    def end(self) -> None:
        """Let the loader end. Its last batch comes before, if that has another size."""
        self.ended = True
        cycle = repeat(self._rounds[1:]) or 1
        self._loops.known.update(self._rounds[-cycle:])
        done, _ = self._loops.cut.get(self.place.text, (0, 0))
        self._loops.cut[self.place.text] = max(done, self._iterations), self._length
        self.indices.end(at_least_one=self.place.tell_lightning())
        if self._length is None:
            self._loops.unseen[self.place.text] = f"batches after the first {self._iterations} of an iterable data set"
        self._loops.leave(self.place)


class _Indices:
    """A loader's indices of its batches."""

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices
        self.longest = 0  # items in a batch

    def __iter__(self) -> _Indices:
        return self

    def __next__(self) -> Any:
        index = next(self._indices)
        if isinstance(index, list):
            self.longest = max(self.longest, len(index))
        return index

    def end(self, *, at_least_one: bool) -> None:
        """Keep what no batch so far was like: one with more items, and the last one, if it has fewer."""
        rest = (
            [] if self.longest == 0 else [one for one in islice(self._indices, _MOST_INDICES) if isinstance(one, list)]
        )
        longest = max(rest, key=len, default=[])
        kept = [longest] if len(longest) > self.longest else []
        if rest and (len(rest[-1]) != self.longest or (at_least_one and not kept)):
            kept.append(rest[-1])
        self._indices = iter(kept)


def _length(iterator: Any) -> int | None:
    """Return how many batches a loader has, None if that is unknown."""
    if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
        return None
    try:
        return len(iterator._index_sampler)
    except (TypeError, NotImplementedError):
        return None


# The sizes of a data set's items.


def _numbers(value: Any, *, texts: bool = False) -> int:
    """Return how many numbers a batch or an item has, and letters, if ``texts``."""
    if isinstance(value, torch.Tensor):
        return int(value.numel())
    if isinstance(value, (str, bytes)):
        return len(value) if texts else 0
    if isinstance(value, Mapping):
        return sum(_numbers(one, texts=texts) for one in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_numbers(one, texts=texts) for one in value)
    size = getattr(value, "size", None)  # of NumPy's arrays, and of pictures
    if isinstance(size, int):
        return size
    if isinstance(size, tuple) and len(size) == 2 and all(isinstance(one, int) for one in size):
        return int(size[0] * size[1])
    fields = getattr(value, "__dict__", None)
    return sum(_numbers(one, texts=texts) for one in fields.values()) if fields else 1


def _shape(batch: Any) -> str:
    """Return the shape of the largest tensor in a batch."""
    shapes = [tuple(one.shape) for one in _tensors(batch)]
    largest = max(shapes, key=lambda shape: torch.Size(shape).numel(), default=())
    return "x".join(map(str, largest)) or "without a shape"


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(one)


_reaches: dict[int, tuple[Any, tuple[int, str]]] = {}  # by the data set, which is kept: its number would be another's


def _reach(iterator: Any, count: int) -> tuple[int, str]:
    """Return the numbers in a batch of the largest items, and its shape; nothing if all have one size."""
    dataset = iterator._dataset
    if id(dataset) not in _reaches:
        _reaches[id(dataset)] = dataset, (0, "")
        try:
            _reaches[id(dataset)] = dataset, _largest_batch(iterator, dataset, count)
        except Exception:  # a program's data set may fail as it likes; the loop is judged by its batches
            return 0, ""
    return _reaches[id(dataset)][1]


def _largest_batch(iterator: Any, dataset: Any, count: int) -> tuple[int, str]:
    if count == 0:
        return 0, ""
    begin, total = time.monotonic(), len(dataset)
    texts = iterator._collate_fn is not dataloader.default_collate
    items: list[tuple[int, Any]] = []
    for number in random.Random(0).sample(range(total), min(total, _ITEMS)):
        item = dataset[number]
        items.append((_numbers(item, texts=texts), item))
        items = sorted(items, key=lambda one: -one[0])[:count] + items[-1:] if len(items) > 4 * count else items
        if time.monotonic() - begin > _SECONDS:
            break
    items.sort(key=lambda one: -one[0])
    if items[0][0] == items[-1][0]:
        return 0, ""
    batch = iterator._collate_fn([item for _, item in (items * count)[:count]])
    return _numbers(batch), _shape(batch)


# The program's line that a loop is on.


class _Place:
    """Where a loop is: the calls that wait for the loader's next batch."""

    def __init__(self, frame: FrameType | None) -> None:
        frames = _program_of(frame)
        self._selves: list[Any] = []  # of libraries
        # Else it calls next(): it may begin again, or gather everything.
        self._is_loop = not frames or frames[0] is not frame or _is_at_loop(frames[0])
        self.text = f"{os.path.basename(frames[0].f_code.co_filename)}:{frames[0].f_lineno}" if frames else "a loop"
        self._lengths: list[dict[str, int]] = []
        self._branches = Watch(list(filter(_is_at_loop, frames)))
        while frame is not None:
            if "self" in frame.f_code.co_varnames and frame not in frames:
                with contextlib.suppress(
                    TypeError
                ):  # not all can be referred to weakly, and nothing here is to keep them
                    self._selves.append(weakref.ref(locals_of(frame).get("self")))
            frame = frame.f_back

    def leave(self) -> None:
        """End watching the loop."""
        self._branches.leave()

    def untaken(self) -> str:
        """Return what the loop has not done yet, as far as its program says so; "" if there is nothing."""
        branch = self._branches.untaken()
        if branch:
            return branch
        for one in self._libraries():
            if type(one).__name__ == "_TrainingEpochLoop":  # Lightning's
                every = one.trainer.val_check_batch
                if one.batch_idx + 1 <= every < one.trainer.num_training_batches:
                    return f"the validation each {every} batches"
            state: Any = getattr(one, "state", None)
            options: Any = getattr(one, "args", None)
            if getattr(options, "eval_strategy", None) == "steps":  # transformers'
                every = min(options.eval_steps or 0, state.max_steps)
                if state.global_step < every:
                    return f"the evaluation each {every} steps"
        return ""

    def gathers(self) -> bool:
        """Whether a loop keeps tensors in a list, which may go to a GPU in the end, or takes its batches by next()."""
        if not self._is_loop:
            return True
        lengths = {}
        for frame in list(filter(_is_at_loop, _program_of(sys._getframe(1))))[:1]:
            variables = locals_of(frame)
            for owner, names in (("", variables), ("self.", getattr(variables.get("self"), "__dict__", {}))):
                for name, value in names.items():
                    if isinstance(value, list) and value and _numbers(value[-1]) > 1:
                        lengths[owner + name] = len(value)
        self._lengths.append(lengths)
        before = self._lengths[-2] if len(self._lengths) > 1 else None
        # The first time nothing is known: the next round shows it.
        return bool(lengths) and (before is None or any(n > before.get(name, 0) for name, n in lengths.items()))

    def _libraries(self) -> Iterator[Any]:
        """Yield the objects of libraries whose calls lead to the loader."""
        return (one for one in (reference() for reference in self._selves) if one is not None)

    def tell_lightning(self) -> bool:
        """Tell Lightning, which counts a loader's batches, that the next one is the last. Returns whether it is
        Lightning.
        """
        is_lightning = False
        for one in self._libraries():
            kind = type(one)
            if kind.__name__.endswith("DataFetcher") and "lightning" in kind.__module__ and one.length is not None:
                one.length, is_lightning = one.fetched + 1, True
            if (
                kind.__name__ == "_TrainingEpochLoop"
                and one.trainer.val_check_batch >= one.trainer.num_training_batches
            ):
                one.trainer.val_check_batch = float("inf")  # with the last batch
        return is_lightning


def _program_of(frame: FrameType | None) -> list[FrameType]:
    """Return the program's own calls that led to one, the innermost first."""
    frames = []
    while frame is not None:
        if stacks.is_program((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _is_at_loop(frame: FrameType) -> bool:
    """Whether a call is at a loop that takes its next item."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "FOR_ITER"
