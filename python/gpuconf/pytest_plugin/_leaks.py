# SPDX-License-Identifier: Apache-2.0
"""The device memory that stays allocated after a test, and the most that it used."""

from __future__ import annotations

import gc
import sys
import warnings

import pytest

from .. import errors, memory
from .._core import runtime, stacks
from .._core.native import loaded
from .._typing import Any
from ..memory import _record, _release, _tracebacks
from . import _pytorch
from ._marks import sizes_text
from ._peaks import Peaks

_MOST_EVENTS = 100_000  # of one test, on each GPU, among which call sites are looked up
_MOST_SITES = 3
_COUNTED_ELSEWHERE = frozenset(("cupy", "numba.cuda.cudadrv.driver", "torch"))  # whose memory need not be gpuconf's

_DRIVER = "the driver"  # what was requested from it past PyTorch's allocator and gpuconf's pools
_PYTORCH = "PyTorch"  # its own allocator; "torch" is PyTorch in gpuconf's pools

Sums = dict[Any, "tuple[int, int]"]  # as in difference.py
Holdings = dict[tuple[str, str, str], tuple[int, int]]  # (device, library, tag) -> bytes, blocks


def holdings() -> Holdings:
    """Return what is in use in gpuconf's pools and PyTorch's allocator on all GPUs. Initializes nothing."""
    usage: Holdings = {
        (f"cuda:{ordinal}", _PYTORCH, ""): held for ordinal, held in _pytorch.in_use().items() if held != (0, 0)
    }
    usage.update({(f"cuda:{ordinal}", _DRIVER, ""): (size, 0) for ordinal, size in _pytorch.of_driver().items()})
    if not loaded() or not runtime.initialized():
        return usage
    segments = "torch" if _pytorch.mode() == "segments" else None  # whose blocks PyTorch counts
    for device in (d for d in runtime.logical_devices("pytest") if d.device_type == "GPU"):
        for row in memory.usage(device.name):
            if row.live_blocks and row.library != segments:
                usage[device.name, row.library, row.tag] = row.bytes_in_use, row.live_blocks
    return usage


def _held_lease() -> Any:
    """Return the lease of this process, None without one."""
    leases: Any = sys.modules.get("gpuconf.leases.lease")
    return None if leases is None else leases.held()


def _that_a_reset_leaves(held: Holdings) -> Holdings:
    return {key: found for key, found in held.items() if key[1] in (_PYTORCH, _DRIVER)}


def _buffers() -> set[int]:
    return {buffer.ptr for buffer in memory.live_buffers()} if loaded() else set()


def _difference(now: Holdings, before: Holdings) -> Holdings:
    """Return what is in ``now`` beyond ``before``."""
    more: Holdings = {}
    for key, (size, blocks) in now.items():
        size_before, blocks_before = before.get(key, (0, 0))
        if size > size_before or blocks > blocks_before:
            more[key] = max(0, size - size_before), max(0, blocks - blocks_before)
    return more


def _add(one: Holdings, other: Holdings, sign: int = 1) -> Holdings:
    total = dict(one)
    for key, (size, blocks) in other.items():
        size_now, blocks_now = total.get(key, (0, 0))
        total[key] = max(0, size_now + sign * size), max(0, blocks_now + sign * blocks)
    return total


def total_bytes(held: Holdings) -> int:
    """Return the sum of bytes."""
    return sum(size for size, _ in held.values())


def line(key: tuple[str, str, str], size: int, blocks: int, sites: list[str]) -> str:
    """Describe memory of one library and tag, and where it was allocated, the most frequent call site first."""
    device, library, tag = key
    if library == _DRIVER:
        return f"{device}: {sizes_text(size)} from the driver, past PyTorch's allocator"
    name, who = device.removeprefix("/device:"), library if library == _PYTORCH else f"{library} {tag or '(untagged)'}"
    text = f"{name}: {sizes_text(size)} in {blocks} block{'' if blocks == 1 else 's'} of {who}"
    counted = sorted({site: sites.count(site) for site in sites}.items(), key=lambda one: (-one[1], one[0]))
    places = [site if count == 1 else f"{site} ({count} times)" for site, count in counted[:_MOST_SITES]]
    return f"{text}, allocated at {', '.join(places)}" if places else text


class Watch:
    """Watches one test after the other. ``begin`` and ``end`` are called around each."""

    def __init__(self) -> None:
        self._measured = False  # whether the test's peak matters, and so the lines that hold it
        self._before: Holdings = {}
        self._generation = -1
        self._noted: Holdings = {}
        # Fixtures that outlive a test -> generation, what they hold.
        self._fixtures: dict[int, tuple[int, Holdings]] = {}
        self.peaks = Peaks()
        self.at_peak: dict[int, Sums] = {}  # by GPU: what each line held at the peak of a measured test
        self.call_sites: dict[tuple[str, str, str], list[str]] = {}  # where what is still in use was allocated
        # By allocator, GPU and address: who has it, and the line.
        self._live: dict[tuple[str, int, int], tuple[tuple[str, str, str], str]] = {}
        self._recording: memory.Recording | None = None
        self._history = _pytorch.History()
        self.file = ""  # that the test is in, once a part of it has failed
        self._lease: Any = None  # that the test found open, or a fixture that outlives it has opened
        self._wide: set[int] = set()  # the addresses of buffers of fixtures that outlive a test

    def begin(self, measured: bool) -> None:
        """Note what is in use. With ``measured``, the peak of PyTorch's own allocator and call sites are recorded."""
        self._measured = measured
        self._noted = {}
        self._live = {}
        self.call_sites = {}
        self.file = ""
        self._recording = None
        self._lease = _held_lease()
        _pytorch.drop_workspaces()
        self.record()
        self._before, self._generation = holdings(), runtime.current.generation
        self.at_peak = {}
        self.peaks.begin(measured)

    def record(self, machine_is_new: bool = False) -> None:
        """Record call sites from here on, if the peak matters. A recording of the test's own takes precedence.

        Lists the devices of a machine that the plugin itself has just simulated; listing any other's is up to the test.
        """
        if self._measured and not self._history.running:
            self._history.start()
        if self._recording is not None and self._recording.running:
            return
        if self._measured and machine_is_new:
            runtime.physical_devices()
        if self._measured and loaded() and runtime.enumerated():
            try:
                self._recording = _record.record_in_background(_MOST_EVENTS)
            except errors.FailedPreconditionError:  # an earlier test has left one running
                return

    def _read_call_sites(self) -> None:
        """Find out where the memory that is still in use was allocated."""
        if self._recording is not None:
            self._read_trace(self._recording.stop(), "")
            self._recording = None
        of_torch = self._history.stop()
        if of_torch is not None:
            self._read_trace(of_torch, _PYTORCH)
        self.call_sites = {}
        for key, site in self._live.values():
            self.call_sites.setdefault(key, []).append(site)

    def _read_trace(self, trace: memory.Trace, library: str) -> None:
        from ..plans.pages.history import histories
        from ..plans.recordings import difference

        for history in histories(trace):
            history.blocks = [block for block in history.blocks if block.allocation.event >= 0]  # as the peak counts
            sums = {
                (library or by, tag, site): held
                for (by, tag, site), held in difference.at_peak(history, _pytorch.OURS).items()
            }
            whole = self.at_peak.setdefault(history.gpu, {})
            before = {site: held for site, held in whole.items() if (site[0] == _PYTORCH) == bool(library)}
            if sum(size for size, _ in sums.values()) >= sum(size for size, _ in before.values()):
                for site in before:
                    del whole[site]
                whole.update(sums)
        for event in trace.events:
            if event.action == "allocate" and event.call_site is not None:
                key = f"/device:GPU:{event.gpu}", event.library, event.tag
                if library:
                    key = f"cuda:{event.gpu}", library, ""
                self._live[library, event.gpu, event.address] = key, stacks.shown(event.call_site)
            elif event.action == "free":
                self._live.pop((library, event.gpu, event.address), None)

    def at_end_of_call(self) -> None:
        """Read the peak, and what held it, before fixtures are torn down."""
        self.peaks.read()
        self._read_call_sites()
        self.record()  # what they free

    def note(self) -> None:
        """Note what is in use beyond the start, before a fixture frees it."""
        self._noted = _add(self._noted, self._leaked())
        self.peaks.read()
        self._read_call_sites()

    def end(self) -> Holdings:
        """Return what stayed allocated."""
        self.peaks.read()
        if self.file and not _COUNTED_ELSEWHERE.isdisjoint(sys.modules):
            drop_tracebacks(self.file)
        leaked = _add(self._noted, self._leaked())
        self._noted = {}
        self._read_call_sites()
        return {key: held for key, held in leaked.items() if held != (0, 0)}

    def end_lease(self) -> str:
        """End the lease that the test has left open, which would limit later tests, and return what to say of it."""
        lease = _held_lease()
        if lease is None or lease is self._lease or not lease.gpus:
            return ""
        text = f"gpuconf: the test left {lease!r} open"
        try:
            lease.release()
        except errors.FailedPreconditionError as error:
            return f"{text}, and it stays so: {error}"
        return f"{text}. It has ended now: write `with gpuconf.lease(...):`"

    def _leaked(self) -> Holdings:
        before = self._before if self._generation == runtime.current.generation else _that_a_reset_leaves(self._before)
        leaked = _difference(holdings(), before)
        if leaked:
            with warnings.catch_warnings():
                # "dropped without free()" says less than the leak's own report.
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
            _release.empty_caches()
            leaked = _difference(holdings(), before)
            if leaked and self.file and drop_tracebacks(self.file):
                leaked = _difference(holdings(), before)
        return leaked

    # Memory of a fixture that outlives the test is no leak of the test that was the first to use it.

    def fixture_begins(self) -> tuple[int, Holdings, set[int], Any]:
        """Return what is in use before a fixture of a wider scope is set up."""
        return runtime.current.generation, holdings(), _buffers(), _held_lease()

    def fixture_is_set_up(self, fixture: int, before: tuple[int, Holdings, set[int], Any]) -> None:
        """Count what a fixture of a wider scope allocated as expected."""
        now = runtime.current.generation
        since, held, buffers, lease = before
        if _held_lease() is not lease:
            self._lease = _held_lease()
        grown = _difference(holdings(), held if since == now else _that_a_reset_leaves(held))
        buffers = buffers if since == now else set()
        if now != self._generation:
            self._before, self._generation = _that_a_reset_leaves(self._before), now
        self._fixtures[fixture] = now, grown
        self._wide |= _buffers() - buffers
        self._before = _add(self._before, grown)
        self.peaks.go_on()

    def free_leaked_buffers(self) -> None:
        """Free the buffers that earlier tests left on a simulated machine, which is about to be replaced."""
        if loaded() and runtime.initialized() and runtime.simulated():
            for buffer in memory.live_buffers():
                if buffer.ptr not in self._wide:
                    buffer.free()

    def fixture_is_torn_down(self, fixture: int) -> None:
        """No longer expect what a fixture allocated."""
        generation, grown = self._fixtures.pop(fixture, (-1, {}))
        if generation == self._generation:
            self._before = _add(self._before, grown, -1)


_KEY = pytest.StashKey[Watch]()


def watch_of(config: pytest.Config) -> Watch:
    """Return the watch of a run."""
    if _KEY not in config.stash:
        config.stash[_KEY] = Watch()
    return config.stash[_KEY]


def drop_locals(error: BaseException) -> None:
    """Let go of the device memory that the frames of an exception and its chain hold. Their report is made already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        _tracebacks.clear(error)


def drop_tracebacks(file: str) -> bool:
    """Let go of the device memory that all tracebacks hold which pass through a file. Whether there were any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        if not _tracebacks.clear_through(file):
            return False
        gc.collect()
    _release.empty_caches()
    return True


def uses_gpu() -> bool:
    """Whether a library in this process has used a GPU, so that a traceback may hold its memory."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        return True
    return "cupy" in sys.modules or "numba.cuda.cudadrv.driver" in sys.modules or loaded()
