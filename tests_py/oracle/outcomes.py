"""The result of a call, in a form that can be compared, printed and recorded: a value or an exception."""

import math
import re
import sys
import time
from collections import Counter
from typing import Any, NamedTuple

from .machine import Side

# Base classes of both sides: the first one that an exception derives from.
_BUILT_IN = (KeyError, AttributeError, TypeError, ValueError, RuntimeError, OverflowError, AssertionError)

# pybind11's TypeError for an argument that TensorFlow's native function does not take. It shows C++ signatures and
# addresses.
_OF_THE_BINDING = re.compile(r"\w+\(\): incompatible function arguments\.")


class Outcome(NamedTuple):
    """Either a value, or an exception's families and message."""

    value: str | None  # text of the normal form, such as "[PD('/physical_device:CPU:0', 'CPU')]"
    error: tuple[str, ...] = ()  # the names of its class, and of others that it is an instance of
    message: str = ""

    def __str__(self) -> str:
        return self.value if self.value is not None else f"{'/'.join(self.error)}: {self.message}"


def text_of(value: Any) -> str:
    """A value with distinguishable types: True is not 1, a list is not a tuple, and named tuples have their names."""
    kind = type(value).__name__
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{kind}({', '.join(map(text_of, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, value))},)"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{text_of(k)}: {text_of(v)}' for k, v in value.items()))}}}"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(value)


def families(error: BaseException) -> tuple[str, ...]:
    """The name of its class, and then the classes by which a caller may catch it: built-in ones, and those of
    tf.errors.
    """
    found = [type(error).__name__] + [one.__name__ for one in _BUILT_IN if isinstance(error, one)]
    for cls in type(error).__mro__:
        if cls.__module__.startswith(("tensorflow", "gpuconf")) and cls.__name__.endswith("Error"):
            found.append(cls.__name__)
    return tuple(dict.fromkeys(found))


_CLASS = re.compile(r"<class '[\w.]+\.(\w+)'>")


def outcome(side: Side, call: str) -> Outcome:
    """Make a call on a side."""
    try:
        return Outcome(text_of(side.evaluate(call)))
    except Exception as error:
        message = getattr(error, "message", None)
        text = message if isinstance(message, str) else str(error)
        # The module of a class differs between the sides.
        return Outcome(None, families(error), _CLASS.sub(r"<class '\1'>", text))


def agree(theirs: Outcome, ours: Outcome) -> bool:
    """The same value; or an exception of the same class, not a subclass of it, whose message starts with
    TensorFlow's.
    """
    if theirs.value is not None or ours.value is not None:
        return theirs.value == ours.value
    if theirs.error[0] != ours.error[0]:
        return False
    return ours.message.startswith(expected_start(theirs))


def expected_start(theirs: Outcome) -> str:
    """The required beginning of gpuconf's message: TensorFlow's, unless pybind11 wrote it."""
    return "" if "TypeError" in theirs.error and _OF_THE_BINDING.match(theirs.message) else theirs.message


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
