"""Counts of what was compared, and progress lines."""

from __future__ import annotations

import sys
import time
from collections import Counter


class Tally:
    """The counts of one part. Prints a line now and then."""

    def __init__(self, part: str, unit: str, wanted: int) -> None:
        self.part, self.unit, self.wanted = part, unit, wanted
        self.same = 0
        self.by_excuse: Counter[str] = Counter()
        self.failures: dict[str, tuple[int, list[str]]] = {}  # by kind: the number, and the first one's description
        self.started = self._last = time.monotonic()
        self.notes: list[str] = []

    @property
    def compared(self) -> int:
        return self.same + self.by_excuse.total() + self.not_equal

    @property
    def not_equal(self) -> int:
        return sum(count for count, _ in self.failures.values())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def equal(self, count: int = 1) -> None:
        """Count equal results."""
        self.same += count
        self._progress()

    def excused(self, name: str, count: int = 1) -> None:
        """Count a difference that is listed."""
        self.by_excuse[name] += count

    def different(self, kind: str, story: list[str], times: int = 1) -> None:
        """Count an unexplained difference; the first of each kind is described."""
        count, first = self.failures.get(kind, (0, story))
        if not count:
            print("\n".join(["", f"NOT EQUAL ({self.part}, {kind}):", *story, ""]), file=sys.stderr, flush=True)
        self.failures[kind] = (count + times, first)

    def _progress(self) -> None:
        now = time.monotonic()
        if now - self._last >= 10:
            self._last = now
            print(
                f"  {self.part}: {self.compared:,} of {self.wanted:,} {self.unit}, {self.not_equal} not equal",
                flush=True,
            )

    def __str__(self) -> str:
        return (
            f"{self.part}: {self.compared:,} {self.unit} compared, {self.same:,} equal, {self.by_excuse.total():,} "
            "equal up to a "
            f"listed difference, {self.not_equal:,} not equal ({self.seconds:.0f} s)"
        )
