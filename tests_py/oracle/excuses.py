"""Which listed difference explains one that was found. The list itself is differences.json."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .outcomes import Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from .machine import Side


class Found(NamedTuple):
    """A difference: the calls, of which the last one differs, and what became of it."""

    calls: list[str]
    theirs: Outcome
    ours: Outcome
    side: Side  # TensorFlow, to ask it more; the sequence is over
    gpus: int = 0


_EXCUSES: dict[str, Callable[[Found], bool]] = {}


def excuse(name: str) -> Callable[[Callable[[Found], bool]], Callable[[Found], bool]]:
    """Register the test whether a listed difference explains one that was found."""

    def register(test: Callable[[Found], bool]) -> Callable[[Found], bool]:
        _EXCUSES[name] = test
        return test

    return register


def find(found: Found) -> str | None:
    """The name of the listed difference that explains this one, if there is one."""
    return next((name for name, test in _EXCUSES.items() if test(found)), None)


def names() -> list[str]:
    """All listed differences that calls can show."""
    return list(_EXCUSES)


@excuse("list-changed-later")
def _(found: Found) -> bool:
    return any(call.startswith("kept(") for call in found.calls)


# What equals a PhysicalDevice and is none.
_LOOK_ALIKE = re.compile(r"LD\('/physical_device|\(\('/physical_device|[\[ ]\('/physical_device")


@excuse("look-alike")
def _(found: Found) -> bool:
    return any("set_visible_devices" in call and _LOOK_ALIKE.search(call) for call in found.calls)


@excuse("limit-range")
def _(found: Found) -> bool:
    return "_device_configuration(" in found.calls[-1] and found.ours.message.startswith("memory_limit is")


_SETTERS = re.compile(r"\.set_(memory_growth|\w+_device_configuration|int\w+_threads|\w+_placement|experimental_options)\(")


@excuse("growth-type")
def _(found: Found) -> bool:
    return ".set_memory_growth(" in found.calls[-1] and found.ours.message.startswith("Memory growth must be True or False")


@excuse("memory-info-argument")
def _(found: Found) -> bool:
    function = re.search(r"\.(get_memory_info|get_memory_usage|reset_memory_stats)\((None|b'.*')\)", found.calls[-1])
    return function is not None and found.ours.message.startswith("device must be a string")


@excuse("wrong-type")
def _(found: Found) -> bool:
    """Gpuconf refuses at once what TensorFlow stores and then can't start with. That it can't is tried."""
    call = found.calls[-1]
    refused = "TypeError" in found.ours.error or "must fit in 32 bits" in found.ours.message
    taken = found.theirs.value == "None" or "cannot be modified after" in found.theirs.message
    if not (refused and taken and _SETTERS.search(call)):
        return False
    found.side.fresh(1)
    outcome(found.side, re.sub(r"\bg\d\b", "g0", call))
    started = outcome(found.side, "config.list_logical_devices()")
    broken = "out of range" in started.message or "must be specified for all virtual devices" in started.message
    return broken or bool({"TypeError", "OverflowError"} & set(started.error))


@excuse("text-that-is-none")
def _(found: Found) -> bool:
    return any(
        words in found.ours.message for words in ("must not contain a NUL character", "is not valid text (it has a lone surrogate)")
    )


@excuse("graph-messages")
def _(found: Found) -> bool:
    """Both say that a node can't be placed, TensorFlow in today's words, and each of the node that it comes to first."""
    ours = "InvalidArgumentError" in found.ours.error and "Cannot assign a device " in found.ours.message
    return "graph(" in found.calls[-1] and "Cannot assign a device for operation " in found.theirs.message and ours


@excuse("dumps-in-messages")
def _(found: Found) -> bool:
    """TensorFlow shows its own data structures behind these words."""
    words = re.match(r"(?s)(Malformed device specification '.*?' in (eager op: Name: \w+|node: ))", found.theirs.message)
    return words is not None and found.ours.message.startswith(words[1])


@excuse("int32-constants")
def _(found: Found) -> bool:
    """Only the memory that an int32 constant is kept in differs: the first CPU's, or that of the CPU it is on."""
    return "constant([[1, 2]" in found.calls[-1] and found.theirs.value == (found.ours.value or "").replace(
        ":1',)", ":0',)"
    ).replace(":2',)", ":0',)")


@excuse("bad-imported-list")
def _(found: Found) -> bool:
    """A program starts with a list of GPUs that are none. TensorFlow keeps the rest of its ConfigProto, gpuconf nothing of it."""
    listed = re.search(r"visible_device_list='([^']+)'", found.calls[0]) if found.calls[0].startswith("start(") else None
    if listed is None or not found.gpus:
        return False
    return not all(re.fullmatch(r"\s*-?\d+\s*", one) and -found.gpus <= int(one) < found.gpus for one in listed[1].split(","))
