# SPDX-License-Identifier: Apache-2.0
"""Ends loops over a loader early, once what they allocate repeats, so that a rehearsal sees the whole program.

Only the loader ends: its last batch comes next, and the program goes on with what follows the loop. A loop runs on

- while it allocates nothing on a GPU, or holds more with each round, there or in the host's memory: batches, or what
  was copied from a GPU,
- if it is a comprehension, or takes its batches by ``next()``,
- while batches come that are smaller than what its data set's items make,
- while it has a branch that depends on how often it ran and was not taken, such as ``if step % 500 == 0:``, or a size
  or a choice that does, such as ``torch.zeros(64 + step // 100)``,
- until what began late has gone on for as many rounds as came before it,
- until an optimizer has stepped, if it runs backward passes and the program has an optimizer.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from types import FrameType

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import BatchSampler, dataloader

from ..._core import stacks
from ..._typing import Any, NamedTuple
from ...simulation.values import kernels
from .batches import Items, items_of, numbers, reach_of, shape, tensors
from .branches import Watch, fetching, forget, is_comprehension, locals_of
from .line import TIMES, repeat

_BY_HAND = 20  # equal rounds with backward passes and without an optimizer: gradients may add up
_GROWTH = 2 << 20  # bytes that the rest of a loop may add: a segment of small blocks
_ATTRIBUTE = "_gpuconf_loop"
_MOST_INDICES = 2_000_000
_PATIENCE = 60.0  # seconds to look at the items of a data set for the largest ones


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

    def __init__(self, counted: Callable[[], Counted], *, cuts: bool, longest: bool) -> None:
        self.counted = counted
        self._cuts = cuts
        self.longest = longest  # whether each begins with the batch of the largest items
        self.remarks: dict[str, str] = {}  # by the place of a loop
        self._failed = False
        self.known: set[Any] = set()  # rounds of loops that were cut
        self.stepped = False  # whether a loop has seen an optimizer's step
        self.cut: dict[str, tuple[int, int | None]] = {}  # by the place of the loop: how often it ran, of how many
        self.running: dict[str, str] = {}  # by the place of a loop that is not over: why it was not cut
        self.on_host = _OnHost()
        self.unseen: dict[str, str] = {}  # by the place of a loop

    def said(self) -> dict[str, str]:
        """Return what is said of loops, by their places."""
        if not self.longest or self.remarks or self.unseen:
            return self.remarks
        return {"--longest": "no loader was seen whose data set's items have several sizes"}

    def install(self) -> None:
        """Stand before the iterators of torch.utils.data."""
        kernels.copied_to_host.append(self.on_host.note)
        kind: Any = dataloader._BaseDataLoaderIter
        following = kind.__next__

        def next_batch(iterator: Any) -> Any:
            if not torch.cuda.is_initialized():
                return following(iterator)
            loop = None if self._failed else self._look(self._begin, iterator, sys._getframe(1))
            try:
                with fetching():
                    batch = following(iterator)
            except StopIteration:
                if loop is not None:
                    self._look(loop.say_sizes)
                    self.leave(loop.place)
                raise
            if loop is not None:
                self._look(loop.note, batch)
            return batch

        kind.__next__ = next_batch

    def _look(self, at: Callable[..., Any], *arguments: Any) -> Any:
        """Look at a loop. Whatever fails here must not fail the program: from then on its loops run whole."""
        try:
            return at(*arguments)
        except Exception as error:
            self._failed = True
            self.remarks["loops"] = f"loops run whole, as one could not be looked at: {type(error).__name__}: {error}"

    def _begin(self, iterator: Any, frame: FrameType) -> _Loop:
        """Begin an iteration of a loop, or end the loop."""
        loop = self._loop(iterator, frame)
        if self._cuts and not loop.ended and loop.may_end():
            loop.end()
        return loop

    def leave(self, place: _Place) -> None:
        """Note that a loop is over."""
        self.running.pop(place.text, None)
        place.leave()

    def _loop(self, iterator: Any, frame: FrameType) -> _Loop:
        loop: _Loop | None = getattr(iterator, _ATTRIBUTE, None)
        if loop is None or iterator._sampler_iter is not loop.indices:
            loop = _Loop(self, iterator, frame)
            setattr(iterator, _ATTRIBUTE, loop)  # which so ends with it
        return loop


class _Loop:
    """One walk over a loader. A round is the iterations up to a step of an optimizer, or one that runs none."""

    def __init__(self, loops: Loops, iterator: Any, frame: FrameType) -> None:
        self._loops = loops
        self._iterator = weakref.ref(iterator)
        self.indices = iterator._sampler_iter = _Indices(iterator._sampler_iter)
        self.ended = False
        self._works_elsewhere = bool(iterator._num_workers)
        self._length = _length(iterator)
        self.place = _Place(frame)
        weakref.finalize(iterator, loops.leave, self.place)
        self._before: list[Figures] | None = None
        self._counted = loops.counted()
        self._round: list[Any] = []
        self._rounds: list[Any] = []
        self._in_use: list[list[int]] = []  # after each round, on each GPU and in the host's memory
        self._first: dict[Any, int] = {}  # by what a round requests, the number of the first such round
        self._most: list[int] = []  # in use after a round, on each GPU
        self._grew = self._began = 0  # the round since which more is in use, and since which rounds are as the last one
        self._trains = False
        self._iterations = 0
        self._largest: tuple[int, str] = (0, "")  # numbers in a batch, and its shape
        self._last_size = self._changes = 0  # the numbers in the last batch, and how often that was not as before
        if loops.longest:
            self._begin_with_longest()

    def note(self, batch: Any) -> None:
        """Note the batch of the iteration that begins."""
        self._iterations += 1
        size = numbers(batch)
        self._largest = max(self._largest, (size, shape(batch)))
        self._changes += self._last_size not in (0, size)
        self._last_size = size
        self._loops.on_host.note(batch)

    def say_sizes(self) -> None:
        """Say at the loop's end if its batches had several sizes, and the data set's items make larger ones."""
        iterator: Any = self._iterator()
        if not self.ended and self._changes > 1 and type(iterator._index_sampler) is BatchSampler:  # not only the last
            reason = self._larger()
            if reason:
                self._loops.remarks[self.place.text] = reason

    def _begin_with_longest(self) -> None:
        """Let the batch of the data set's largest items come first, in place of the one that would."""
        iterator: Any = self._iterator()
        if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
            return
        items = items_of(iterator, seconds=_PATIENCE)
        if items.unknown:
            self._loops.unseen[self.place.text] = f"the longest batch: {items.unknown}"
        elif items.has_several_sizes():
            self.indices.begin_with(items, iterator._index_sampler)
            self._loops.remarks[self.place.text] = "the batch of the largest items came first"

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
        self._note_round([one.in_use for one in now])
        self._rounds.append(tuple(self._round))
        self._in_use.append([*(one.in_use for one in now), self._loops.on_host.held()])
        self._round = []
        self.place.end_round()
        times = TIMES if counted.has_optimizer or not self._trains else _BY_HAND
        if self._rounds[-1] not in self._loops.known and not repeat(self._rounds[1:], times):
            return False
        uses_gpu = any(gpu[0] for figures, _, _ in self._rounds[-1] for gpu in figures)
        if not uses_gpu or self._grows() or not self.place.may_end():
            return False
        if len(self._rounds) < 2 * self._began:
            return False  # what began late may go on after as many rounds, such as a model that grows
        self._load_here()
        reason = self.place.untaken() or self._larger()
        if reason:
            self._loops.running[self.place.text] = reason
        return not reason

    def _grows(self) -> bool:
        """Whether the rest of the loop would hold more and more."""
        count = min(len(self._in_use) - 1, TIMES)
        if count < 1:
            return True  # as far as one round shows
        left = (self._length or 100_000) / self._iterations * len(self._rounds)
        growth = max(b - a for a, b in zip(self._in_use[-1 - count], self._in_use[-1], strict=True))
        return growth / count * left > _GROWTH

    def _note_round(self, in_use: list[int]) -> None:
        """Note when a round as this one was the first, or when more memory was in use than before."""
        requests = tuple((steps, tuple(gpu[:3] for gpu in gpus)) for gpus, steps, _ in self._round)
        self._began = max(self._grew, self._first.setdefault(requests, len(self._rounds)))
        most = self._most or in_use
        if any(b - a > _GROWTH for a, b in zip(most, in_use, strict=True)):
            self._grew = self._began = len(self._rounds)
        self._most = [max(pair) for pair in zip(most, in_use, strict=True)]

    def _load_here(self) -> None:
        """Load a batch some times in this process, which sees the branches on the way: in workers they are not seen."""
        iterator: Any = self._iterator()
        kind = iterator._dataset_kind
        if not self._works_elsewhere or kind == dataloader._DatasetKind.Iterable:
            return
        self._works_elsewhere = False
        with contextlib.suppress(Exception):  # a program's data set may fail as it likes
            fetcher = dataloader._DatasetKind.create_fetcher(
                kind, iterator._dataset, iterator._auto_collation, iterator._collate_fn, iterator._drop_last
            )
            for _ in range(TIMES):
                with fetching():
                    fetcher.fetch(self.indices.last)
                self.place.end_round()

    def _larger(self) -> str:
        """Return what is known of batches that are larger than all that came, "" if there are none."""
        iterator: Any = self._iterator()
        if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
            return ""  # see end()
        reach = reach_of(iterator, self.indices.longest or 1)
        if reach.unknown:
            return f"batches of other sizes: {reach.unknown}"
        if self._largest[0] >= reach.numbers:
            return ""
        ran = f"the largest that ran is {self._largest[1]}, and the data set's reach {reach.shape}"
        return f"batches of several sizes: {ran}; see --longest"

    def end(self) -> None:
        """Let the loader end. Its last batch comes before, if that has another size."""
        self.ended = True
        cycle = repeat(self._rounds[1:]) or 1
        self._loops.known.update(self._rounds[-cycle:])
        walk = self._iterations, self._length
        if self._iterations != self._length:
            before = self._loops.cut.get(self.place.text, walk)
            # Of several walks the longest is named, and of those the one that ran most.
            longest = max(before, walk, key=lambda one: (one[1] or _MOST_INDICES, one[0]))
            self._loops.cut[self.place.text] = longest
        at_least_one = self.place.tell_lightning()
        if self._length is not None:
            self.indices.end(at_least_one=at_least_one)
        else:  # an iterable data set's indices say nothing, and may have no end
            self.indices.end(at_least_one=at_least_one, most=int(at_least_one))
            self._loops.unseen[self.place.text] = f"batches after the first {self._iterations} of an iterable data set"
        self._loops.leave(self.place)


class _Indices:
    """A loader's indices of its batches."""

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices
        self.longest = 0  # items in a batch
        self.last: Any = None

    def __iter__(self) -> _Indices:
        return self

    def __next__(self) -> Any:
        index = self.last = next(self._indices)
        if isinstance(index, list):
            self.longest = max(self.longest, len(index))
        return index

    def begin_with(self, items: Items, sampler: Any) -> None:
        """Let the largest batch come first, and one less after it. A sampler of the program's own names its batches."""
        if type(sampler) is BatchSampler:
            if next(self._indices, None) is not None:
                self._indices = chain([items.largest(sampler.batch_size)], self._indices)
            return
        rest = list(islice(self._indices, _MOST_INDICES))
        largest = max(rest, key=items.size_of, default=None)
        if largest is not None:
            rest.remove(largest)
            self._indices = iter([largest, *rest])

    def end(self, *, at_least_one: bool, most: int = _MOST_INDICES) -> None:
        """Keep what no batch so far was like: one with more items, and the last one, if it has fewer."""
        longest: list[Any] = []
        last: list[Any] | None = None
        for one in islice(self._indices, most if self.longest else 0):  # of which at most two are kept
            if isinstance(one, list):
                last = one
                longest = max(longest, one, key=len)
        kept = [longest] if len(longest) > self.longest else []
        if last is not None and (len(last) != self.longest or (at_least_one and not kept)):
            kept.append(last)
        self._indices = iter(kept)


def _length(iterator: Any) -> int | None:
    """Return how many batches a loader has, None if that is unknown."""
    if iterator._dataset_kind == dataloader._DatasetKind.Iterable:
        return None
    try:
        return len(iterator._index_sampler)
    except (TypeError, NotImplementedError):
        return None


class _OnHost:
    """The tensors in the host's memory that may go to a GPU once more: batches, and copies from a GPU."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}  # by the storage, with its bytes

    def note(self, value: Any) -> None:
        """Note the tensors of a value, as long as they live."""
        for tensor in tensors(value):
            if tensor.layout is torch.strided and tensor.device.type == "cpu":
                reference = StorageWeakRef(tensor.untyped_storage())
                self._storages[reference.cdata] = reference, tensor.untyped_storage().nbytes()

    def held(self) -> int:
        """Return the bytes of those that live."""
        self._storages = {key: one for key, one in self._storages.items() if not one[0].expired()}
        return sum(size for _, size in self._storages.values())


# The program's line that a loop is on.


class _Place:
    """Where a loop is: the calls that wait for the loader's next batch."""

    def __init__(self, frame: FrameType | None) -> None:
        frames = _program_of(frame)
        self._selves: list[Any] = []  # of libraries
        self.is_loop: bool = _is_of_loop(frame)  # else it may begin again, or gather everything
        self.text = f"{os.path.basename(frames[0].f_code.co_filename)}:{frames[0].f_lineno}" if frames else "a loop"
        self._branches = Watch(frames)
        while frame is not None:
            if "self" in frame.f_code.co_varnames and frame not in frames:
                with contextlib.suppress(
                    TypeError
                ):  # not all can be referred to weakly, and nothing here is to keep them
                    self._selves.append(weakref.ref(locals_of(frame).get("self")))
            frame = frame.f_back

    def may_end(self) -> bool:
        """Whether it is a loop, and shows what the branches have done that it took for the first time."""
        return self.is_loop and self._branches.rounds >= TIMES - 1

    def leave(self) -> None:
        """End watching the loop."""
        self._branches.leave()

    def end_round(self) -> None:
        """Note that a round has ended."""
        self._branches.end_round()

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
                every = min(getattr(state, "eval_steps", options.eval_steps) or 0, state.max_steps)
                if state.global_step < every:
                    return f"the evaluation each {every} steps"
        return ""

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


def _is_of_loop(frame: FrameType | None) -> bool:
    """Whether a library takes the batch, or a loop of the program's. Generators only pass it on."""
    while frame is not None and frame.f_code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        frame = frame.f_back
    if frame is None or frame not in _program_of(frame):
        return True
    return _is_at_loop(frame) and not is_comprehension(frame)


def _is_at_loop(frame: FrameType) -> bool:
    """Whether a call is at a loop that takes its next item."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "FOR_ITER"
