"""A fork while another thread uses something for the first time, and imports a module for it.

    python tests_py/core/fork_first_use.py --forks 200          # `make soak`

Python locks a module while a thread imports it, and does not replace that lock in a forked child: an import of the same
module there never returns. So gpuconf refuses in a child before it imports anything. Each attempt is a new process in
which nothing has been imported yet: it loads the core, a thread starts to use something, and the main thread forks a
child that does the same.

This file itself imports as little as possible. A new operation that imports is a line in ``FIRST_USES``.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections import namedtuple

import gpuconf
from forking import DEADLINE_S, Child, Notes, fork, refused_or_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FirstUse(namedtuple("FirstUse", ["act", "lasts_ms", "may_return"])):
    """An operation that a thread starts and a child repeats."""

    act: Callable[[Any], object]  # on a live buffer
    lasts_ms: float  # about how long the first one takes on an idle machine: the fork comes within that time
    may_return: bool  # whether a child may succeed


def _use(act: Callable[[Any], object], lasts_ms: float = 5, may_return: bool = False) -> FirstUse:
    return FirstUse(act, lasts_ms, may_return)


FIRST_USES = {
    "list devices": _use(lambda _: gpuconf.config.list_logical_devices()),
    "allocate": _use(lambda _: gpuconf.memory.allocate(1000)),
    "copy to the host": _use(lambda buffer: buffer.copy_to_host()),
    "copy from the host": _use(lambda buffer: buffer.copy_from_host(b"x")),
    "view": _use(lambda buffer: buffer.view()),
    "lend": _use(lambda buffer: buffer.__dlpack__()),
    "device of a loan": _use(lambda buffer: buffer.__dlpack_device__(), may_return=True),
    "statistics": _use(lambda _: gpuconf.memory.stats(), 1),
    "memory map": _use(lambda _: gpuconf.memory.memory_map(), 1),
    "constant": _use(lambda _: gpuconf.constant([1.0]), 150),
    "matmul": _use(lambda _: gpuconf.matmul([[1.0]], [[1.0]]), 150),
    "scope": _use(lambda _: gpuconf.device("GPU:1").__enter__(), 1),
    "record": _use(lambda _: gpuconf.memory.record(1000).start(), 1),
    "plan": _use(lambda _: gpuconf.plan("/proc/self/fd/0", limit="8MiB")),
    "load a trace": _use(lambda _: gpuconf.memory.load_trace("/proc/self/fd/0")),
    "configure": _use(lambda _: gpuconf.configure(growth=True)),
    "visible devices": _use(lambda _: gpuconf.visible_devices(), 1),
    "reset": _use(lambda _: gpuconf.reset()),
    "simulate": _use(lambda _: gpuconf.simulate("T4")),
}


def attempt(use: FirstUse, delay_s: float) -> Child:
    """Load the core, start a first use in a thread, and fork. Runs in a process that has imported nothing."""
    gpuconf.simulate("2xH100-80GB")
    buffer = gpuconf.memory.allocate(1000)
    begun = _thread.allocate_lock()
    begun.acquire()

    def in_thread() -> None:
        begun.release()
        refused_or_not(lambda: use.act(buffer), gpuconf.errors.ForkedProcessError)

    def in_child(notes: Notes) -> None:
        notes.begin("the first use")
        came = refused_or_not(lambda: use.act(buffer), gpuconf.errors.ForkedProcessError)
        if came != "refused" and not (came == "quiet" and use.may_return):
            notes.wrong(f"was {came} and not refused")

    _thread.start_new_thread(in_thread, ())
    begun.acquire()
    time.sleep(delay_s)
    return fork(in_child)


def try_use(name: str, number: int, attempts: int) -> Child:
    """One attempt in a new process; the higher its number, the later the fork."""
    use = FIRST_USES[name]

    def act(notes: Notes) -> None:
        child = attempt(use, use.lasts_ms / 1000 * number / attempts)
        if child.hung_in:
            notes.wrong(f"hung: {child.stack}")
        for wrong in child.wrong:
            notes.wrong(wrong)

    child = fork(act, deadline_s=2 * DEADLINE_S)
    return child._replace(wrong=[*child.wrong, f"hung itself: {child.stack}"]) if child.hung_in else child


def main() -> int:
    """Try all first uses, and print the results."""
    import argparse

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--forks", type=int, default=200, help="how often each use is tried")
    asked = parser.parse_args()
    begin, wrong, hung = time.monotonic(), 0, 0
    for name in FIRST_USES:
        texts = [text for number in range(asked.forks) for text in try_use(name, number, asked.forks).wrong]
        count = sum(text.startswith("hung") for text in texts)
        hung += count
        wrong += len(texts) - count
        if texts:
            print(
                f"{name}: of {asked.forks} children {count} hung and {len(texts) - count} went wrong, such as: "
                f"{texts[0]}"
            )
    seconds = f"{time.monotonic() - begin:.0f} s"
    print(f"{len(FIRST_USES)} first uses, {asked.forks} forks each: {hung} hung, {wrong} went wrong ({seconds})")
    return 1 if hung or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
