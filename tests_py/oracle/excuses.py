"""Which listed difference explains an observed one. The list itself is docs/differences.md.

An excuse must not hide a defect, so each one checks the call and both results, as its row describes them. If the row's
effect shows in later calls, the excuse repeats the calls on TensorFlow without the cause: then TensorFlow's result must
equal gpuconf's. tests_py/conformance/test_excuses.py plants defects that the excuses must not explain.
"""

import ast
import math
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .machine import Side
from .outcomes import Outcome, agree, outcome


class Ask(Protocol):
    """Makes more calls on TensorFlow, after the sequence."""

    def __call__(self, calls: list[str], gpus: int | None = None) -> list[Outcome]:
        """The results of calls on a fresh machine with this number of GPUs, or (None) on the machine as it is."""


def asking(side: Side) -> Ask:
    """Makes them on a side directly."""

    def ask(calls: list[str], gpus: int | None = None) -> list[Outcome]:
        if gpus is not None:
            side.fresh(gpus)
        return [outcome(side, call) for call in calls]

    return ask


class Found(NamedTuple):
    """A difference: the calls, of which the last one differs, and its results."""

    calls: list[str]
    theirs: Outcome
    ours: Outcome
    ask: Ask
    gpus: int = 0


_EXCUSES: dict[str, list[Callable[[Found], bool]]] = {}


def excuse(name: str) -> Callable[[Callable[[Found], bool]], Callable[[Found], bool]]:
    """Register the test whether a listed difference explains an observed one."""

    def register(test: Callable[[Found], bool]) -> Callable[[Found], bool]:
        _EXCUSES.setdefault(name, []).append(test)
        return test

    return register


def find(found: Found) -> str | None:
    """The name of the listed difference that explains this one, if there is one."""
    return next((name for name, tests in _EXCUSES.items() if any(test(found) for test in tests)), None) or _together(
        found
    )


def names() -> list[str]:
    """All listed differences that calls can show."""
    return list(_EXCUSES)


# Functions that remove the cause of a difference from the calls. Such a difference may show in any later call.
_CAUSES: dict[str, Callable[[Found, list[str]], list[str]]] = {}


def cause(name: str) -> Callable[[Callable[[Found, list[str]], list[str]]], Callable[[Found, list[str]], list[str]]]:
    """Register an excuse: without the cause, TensorFlow's result equals gpuconf's."""

    def register(without: Callable[[Found, list[str]], list[str]]) -> Callable[[Found, list[str]], list[str]]:
        _CAUSES[name] = without
        excuse(name)(lambda found: _explained(found, without(found, found.calls)))
        return without

    return register


def _explained(found: Found, calls: list[str]) -> bool:
    return calls != found.calls and bool(calls) and agree(found.ask(calls, found.gpus)[-1], found.ours)


def _together(found: Found) -> str | None:
    """The first of several causes that explain a difference together."""
    calls, at_work = found.calls, []
    for name, without in _CAUSES.items():
        before, calls = calls, without(found, calls)
        if calls != before:
            at_work.append(name)
    return at_work[0] if len(at_work) > 1 and _explained(found, calls) else None


@cause("list-changed-later")
def _(_found: Found, calls: list[str]) -> list[str]:
    """TensorFlow stores the caller's list; here it gets a copy that does not change."""
    if not any(call.startswith("kept(") for call in calls):
        return calls
    return [re.sub(r", (keep\(.*\))\)$", r", list(\1))", call) for call in calls]


# A tuple or a LogicalDevice that equals a PhysicalDevice.
_LOOK_ALIKE = re.compile(r"(?<!PD)(?:LD)?\(('/physical_device:\w+:\d+', ?'\w+')\)")


@cause("look-alike")
def _(_found: Found, calls: list[str]) -> list[str]:
    """TensorFlow keeps the look-alike; here it gets the device that the look-alike equals."""
    return [_LOOK_ALIKE.sub(r"PD(\1)", call) if "set_visible_devices(" in call else call for call in calls]


_BAD_LIST = re.compile(r"Invalid visible device index: |invalid literal for int\(\)|list index out of range")


@cause("bad-imported-list")
def _(found: Found, calls: list[str]) -> list[str]:
    """A program starts with a bad list of GPUs. TensorFlow keeps the rest of its ConfigProto; here it gets none of it.

    The call that raises is left out too.
    """
    raised = _raised(found, calls)
    return calls if raised is None else calls[1:raised] + calls[raised + 1 :]


def _raised(found: Found, calls: list[str]) -> int | None:
    """The call that raises on TensorFlow because of the program's list of GPUs."""
    if not calls[0].startswith("start("):
        return None
    answers = enumerate(found.ask(calls, found.gpus))
    return next((i for i, one in answers if one.value is None and _BAD_LIST.match(one.message)), None)


@excuse("bad-imported-list")
def _(found: Found) -> bool:
    """The call that raises: for an index too far below 0, TensorFlow's error is an IndexError."""
    if "IndexError" not in found.theirs.error or _raised(found, found.calls) != len(found.calls) - 1:
        return False
    return "ValueError" in found.ours.error and found.ours.message.startswith("Invalid visible device index: -")


def _taken(theirs: Outcome) -> bool:
    """Whether TensorFlow's setter accepts a value, except perhaps that it comes too late."""
    return theirs.value == "None" or ("RuntimeError" in theirs.error and "cannot be modified after" in theirs.message)


def _started(found: Found, setting: str) -> Outcome:
    """TensorFlow's result when it starts with this setting alone, on a machine with one GPU."""
    return found.ask([re.sub(r"\bg\d\b", "g0", setting), "facts()"], 1)[-1]


def _cannot_start(found: Found, setting: str) -> bool:
    """Whether protobuf rejects the setting's value."""
    started = _started(found, setting)
    return started.message.startswith("Value out of range") or bool({"TypeError", "OverflowError"} & set(started.error))


_ENTRY = re.compile(r"\bL\([^()]*\)")
_SET_LOGICAL = re.compile(r"\.set_(logical|virtual)_device_configuration\(")


@excuse("limit-range")
def _(found: Found) -> bool:
    """A limit that is out of range, which TensorFlow changes to another one."""
    call = found.calls[-1]
    refused = "ValueError" in found.ours.error and found.ours.message.startswith("memory_limit is")
    if not (refused and _taken(found.theirs) and _SET_LOGICAL.search(call)):
        return False
    return any(_out_of_range(found, entry) for entry in _ENTRY.findall(call))


def _out_of_range(found: Found, entry: str) -> bool:
    text = re.split(r"[(,)]", entry)[1]
    limit = eval(text, {"nan": math.nan, "inf": math.inf}) if text else None
    if not isinstance(limit, (int, float)) or 0 <= limit < 2**43:
        return False
    started = _started(found, f"config.set_logical_device_configuration(g0, [L({text})])")
    return (
        "OverflowError" in started.error or re.fullmatch(r"\[\((0|-\d+), False,\)\]", started.value or "") is not None
    )


@excuse("growth-type")
def _(found: Found) -> bool:
    setter = re.fullmatch(r"(experimental\.set_memory_growth)\(.*, ([^,]+)\)", found.calls[-1])
    refused = "TypeError" in found.ours.error and found.ours.message.startswith("Memory growth must be True or False")
    if setter is None or not refused or not _taken(found.theirs):
        return False
    return setter[2] == "None" or _cannot_start(found, f"{setter[1]}(g0, {setter[2]})")


@excuse("memory-info-argument")
def _(found: Found) -> bool:
    """TensorFlow's result is that for the text that the binding converts the argument to."""
    *before, call = found.calls
    query = re.fullmatch(
        r"(experimental\.(?:get_memory_info|get_memory_usage|reset_memory_stats))\((?:None|b('.*'))\)", call
    )
    if (
        query is None
        or "TypeError" not in found.ours.error
        or not found.ours.message.startswith("device must be a string")
    ):
        return False
    return found.ask([*before, f"{query[1]}({query[2] or repr('')})"], found.gpus)[-1] == found.theirs


_SETTERS = re.compile(r"\.set_(\w+_device_configuration|int\w+_threads|\w+_placement|experimental_options)\(")


_WRONG_TYPE = re.compile(r" must (be (True or False|an integer|a number of MiB|a list)|fit in 32 bits), but got ")


@excuse("wrong-type")
def _(found: Found) -> bool:
    """Gpuconf rejects at once what TensorFlow stores and then cannot start with.

    TensorFlow is started to confirm that.
    """
    call, ours = found.calls[-1], found.ours
    refused = _WRONG_TYPE.search(ours.message) is not None and bool({"TypeError", "ValueError"} & set(ours.error))
    if not (refused and _taken(found.theirs) and _SETTERS.search(call)):
        return False
    if _cannot_start(found, call):
        return True
    # If the entries of a list do not fit together, TensorFlow reports that before it checks their values.
    entries = _ENTRY.findall(call) if _SET_LOGICAL.search(call) else []
    return any(_cannot_start(found, f"config.set_logical_device_configuration(g0, [{entry}])") for entry in entries)


# A NUL or a lone surrogate, as shown by repr.
_NO_TEXT = re.compile(r"\\x00|\\ud[89a-f]")


@excuse("malformed-text")
def _(found: Found) -> bool:
    words = ("must not contain a NUL character", "is not valid text (it has a lone surrogate)")
    refused = "ValueError" in found.ours.error and any(each in found.ours.message for each in words)
    taken = found.theirs.value is not None or bool({"ValueError", "TypeError"} & set(found.theirs.error))
    return refused and taken and _NO_TEXT.search(found.calls[-1]) is not None


_NODE_NAMES = {
    "constant": "Const",
    "placeholder": "Placeholder",
    "matmul": "MatMul",
    "add": "Add",
    "add_n": "AddN",
    "identity": "Identity",
}


def _without_other_scopes(call: str, node: str) -> str:
    """The call that creates a graph, with the device scopes of one node only."""
    tree = ast.parse(call, mode="eval")
    assert isinstance(tree.body, ast.Call)
    assert isinstance(tree.body.args[0], ast.List)
    made: dict[str, int] = {}
    for line in tree.body.args[0].elts:
        assert isinstance(line, ast.Tuple)
        scopes, make, *_ = line.elts
        assert isinstance(scopes, ast.List)
        assert isinstance(make, ast.Lambda)
        assert isinstance(make.body, ast.Call)
        assert isinstance(make.body.func, ast.Name)
        name = _NODE_NAMES[make.body.func.id]
        count = made[name] = made.get(name, -1) + 1
        if node != (f"{name}_{count}" if count else name):
            scopes.elts = []
    return ast.unparse(tree)


@excuse("graph-messages")
def _(found: Found) -> bool:
    """Both report that a node cannot be placed:
    TensorFlow in its current words, each side for the first node that it reaches.
    """
    call, today = found.calls[-1], "Cannot assign a device for operation "
    theirs = re.match(rf"{today}(\w+): ", found.theirs.message)
    ours = re.match(rf"(?:Invalid argument: Cannot assign a device to node '|{today})(\w+)'?: ", found.ours.message)
    if not call.startswith("graph(") or theirs is None or ours is None or not _both_invalid(found):
        return False
    alone = found.theirs if theirs[1] == ours[1] else found.ask([_without_other_scopes(call, ours[1])])[-1]
    if found.ours.message.startswith(today):  # not TensorFlow 1's words
        return alone.message.splitlines()[0] == found.ours.message.splitlines()[0]
    return alone.message.startswith(f"{today}{ours[1]}: ")


def _both_invalid(found: Found) -> bool:
    return "InvalidArgumentError" in found.theirs.error and "InvalidArgumentError" in found.ours.error


@excuse("dumps-in-messages")
def _(found: Found) -> bool:
    """TensorFlow appends a dump of its own data structures."""
    words = re.match(r"(?s)Malformed device specification '.*?' in (eager op: Name: \w+|node: )", found.theirs.message)
    return words is not None and _both_invalid(found) and found.ours.message.startswith(words[0])


@excuse("int32-constants")
def _(found: Found) -> bool:
    """Only the memory of an int32 constant differs: the first CPU's, or that of the CPU it is on."""
    on = re.fullmatch(r"\('([\w/:]+/device:CPU:)([1-9])', '\1\2',\)", found.ours.value or "")
    if on is None or "constant([[1, 2]" not in found.calls[-1]:
        return False
    return found.theirs.value == f"('{on[1]}{on[2]}', '{on[1]}0',)"
