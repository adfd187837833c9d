# SPDX-License-Identifier: Apache-2.0
"""The marks ``gpu``, ``gpu_exclusive`` and ``gpu_leak``: what a test needs, and whether it is there."""

from __future__ import annotations

import operator
import re

import pytest

from .._core import sizes, texts
from .._typing import Any
from . import _ours
from ._options import MARKS, MarkError, is_plain, size, tolerance

NAMES = frozenset(("gpu", "gpu_exclusive", "gpu_leak", "gpu_peak"))
_FIXTURES = frozenset(("gpu", "gpus"))
_MOST_WARMUP = 1000

_COMPARISONS = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
    "": operator.ge,
}  # fmt: skip


class Need:
    """What a test needs of GPUs."""

    def __init__(self) -> None:
        self.n = 1
        self.free = 0
        self.capability: list[tuple[str, tuple[int, ...]]] = []
        self.exclusive = False
        self.warmup = 0  # runs before the one that counts
        self.allowed: int | None = None  # bytes that may stay; None: any
        self.peak: int | None = None  # bytes that may be in use at once on a GPU; None: any
        self.baseline = False  # whether the peak is compared with the one of the baseline's file
        self.tolerance = 0.0  # the part by which it may be higher

    def fits(self, capability: tuple[int, int]) -> bool:
        """Whether a compute capability is good enough."""
        return all(_COMPARISONS[sign](capability[: len(wanted)], wanted) for sign, wanted in self.capability)

    def __str__(self) -> str:
        text = "a GPU" if self.n == 1 else f"{self.n} GPUs"
        details = [f"{sizes_text(self.free)} free"] if self.free else []
        details += [
            f"compute capability {sign or '>='}{'.'.join(map(str, wanted))}" for sign, wanted in self.capability
        ]
        return text + (f" with {' and '.join(details)}" if details else "")


def sizes_text(count: int) -> str:
    """Return bytes as the reports of the core show them.

    >>> sizes_text(3145728), sizes_text(0)
    ('3.00MiB (3145728 bytes)', '0 bytes')
    """
    from .._core.table import human_bytes

    return f"{human_bytes(count)} ({count} bytes)" if count >= 1024 else f"{count} byte{'' if count == 1 else 's'}"


def amount(name: str, value: Any) -> int:
    """Return bytes like :func:`size`, but refuse a number that is too small for bytes to be meant."""
    found = size(name, value)
    if 0 < found < 256:
        raise MarkError(f"{name} is {texts.shown(value)}, which is {sizes_text(found)}{sizes.unit_hint(value, found)}")
    return found


def _capability(value: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Read conditions. A major version alone, as in ``"<9"``, compares with all of its minor ones."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    text = ".".join(map(str, value)) if isinstance(value, tuple) else value  # (9, 0), as PyTorch has it
    conditions = []
    parts = str(text).split(",")
    for part in parts:
        match = re.fullmatch(r"\s*(>=|<=|==|!=|>|<|)\s*(\d{1,3})(?:\.(\d{1,3}))?\s*", part)
        if match is None or not isinstance(text, str) or (len(parts) > 1 and not match[1]):  # "9,0" is no "9.0"
            raise MarkError(
                f"gpu(cc=...) must be text such as '>=8.0', '9' or '>=7.5,<9.0', but got {texts.shown(value)}"
            )
        conditions.append((match[1], tuple(int(number) for number in match.groups()[1:] if number)))
    return conditions


def _fill(need: Need, mark: pytest.Mark, foreign: bool) -> None:
    known = {"gpu": ("n", "free", "cc"), "gpu_exclusive": (), "gpu_leak": ("allow", "warmup"), "gpu_peak": ()}[
        mark.name
    ]
    if mark.name == "gpu_peak":
        try:
            _fill_peak(need, mark)
        except MarkError:
            if not foreign:
                raise
        return
    if mark.args and not foreign:
        takes = f"keywords only: {', '.join(known)}" if known else "no arguments"
        raise MarkError(f"{mark.name} takes {takes}; got {texts.shown(mark.args[0])}")
    for name, value in mark.kwargs.items():
        if name not in known:
            if foreign:
                continue  # the suite's own
            raise MarkError(
                f"{mark.name} has no {name!r}{': use ' + ', '.join(known) if known else ' and takes nothing'}"
            )
        if name == "n":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise MarkError(f"gpu(n=...) must be a number of GPUs, at least 1, but got {texts.shown(value)}")
            need.n = value
        elif name == "free":
            need.free = amount("gpu(free=...)", value)
        elif name == "cc":
            need.capability = _capability(value)
        elif name == "warmup":
            need.warmup = max(need.warmup, _warmup(mark.name, value))
        else:
            need.allowed = size("gpu_leak(allow=...)", value)


def _warmup(mark: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_WARMUP:
        raise MarkError(
            f"{mark}(warmup=...) must be a number of runs, at most {_MOST_WARMUP}, but got {texts.shown(value)}"
        )
    return value


def _fill_peak(need: Need, mark: pytest.Mark) -> None:
    given = {**dict(zip(("limit",), mark.args, strict=False)), **mark.kwargs}
    known = ("limit", "tolerance", "warmup")
    wrong = [texts.shown(value) for value in mark.args[1:]] + [repr(name) for name in given if name not in known]
    if wrong or (mark.args and "limit" in mark.kwargs):
        raise MarkError(
            f"gpu_peak takes a limit such as '1.2GiB', or tolerance=0.05; got {', '.join(wrong) or 'two limits'}"
        )
    need.warmup = max(need.warmup, _warmup("gpu_peak", given.get("warmup", 0)))
    need.peak = amount("gpu_peak", given["limit"]) if given.get("limit") is not None else None
    need.baseline = need.peak is None
    if "tolerance" not in given:
        return
    if need.peak is not None:
        raise MarkError("gpu_peak takes a limit or a tolerance for the baseline, not both")
    need.tolerance = tolerance("gpu_peak(tolerance=...)", given["tolerance"])


def machine_of(item: pytest.Item) -> str:
    """Return the machine that the mark ``gpu_process`` of a test names, "" if it names none. Raises MarkError."""
    for mark in item.iter_markers("gpu_process"):
        given = {**dict(zip(("machine",), mark.args, strict=False)), **mark.kwargs}
        machine = given.get("machine", "")
        wrong = len(mark.args) > 1 or given.keys() - {"machine"} or (mark.args and "machine" in mark.kwargs)
        if wrong or not isinstance(machine, str):
            shown = ", ".join(
                [*map(texts.shown, mark.args), *(f"{name}={texts.shown(value)}" for name, value in mark.kwargs.items())]
            )
            raise MarkError(f"gpu_process takes a machine to simulate such as '2xT4', or nothing; got {shown}")
        return machine
    return ""


_OWN = pytest.StashKey[frozenset[str]]()


def registered_by_suite(config: pytest.Config) -> frozenset[str]:
    """Return which of the marks the suite registers itself, in its configuration or a conftest."""
    if _OWN not in config.stash:
        lines = [line for line in config.getini("markers") if line not in MARKS]
        config.stash[_OWN] = NAMES & {re.split(r"[:( ]", line.strip(), maxsplit=1)[0] for line in lines}
    return config.stash[_OWN]


_NEED = pytest.StashKey["Need | None"]()
_USES = pytest.StashKey[bool]()


def need_of(item: pytest.Item) -> Need | None:
    """Return what a test needs, None if it has none of the marks and fixtures. Raises MarkError for an invalid mark.

    Marks are ours where the suite has opted in, and on a test with one of our fixtures.
    """
    if _NEED not in item.stash:
        item.stash[_NEED] = _need_of(item)
    return item.stash[_NEED]


def need_of_user(node: object) -> Need:
    """Return what a test needs that uses our fixtures, also if it requested them while it ran.

    Fails it for an invalid mark.
    """
    if not isinstance(node, pytest.Item):
        return Need()
    wrong = ""
    if not item_is_ours(node):
        node.stash[_USES] = True
        if _NEED in node.stash:
            del node.stash[_NEED]
    try:
        return need_of(node) or Need()
    except MarkError as error:
        wrong = str(error)
    pytest.fail(wrong, pytrace=False)


def item_is_ours(item: pytest.Item) -> bool:
    """Whether the marks of a test are ours."""
    return not is_plain(item.config) or item.stash.get(_USES, False) or bool(_ours.fixtures(item))


def _need_of(item: pytest.Item) -> Need | None:
    if not item_is_ours(item):
        return None
    marks = [mark for mark in item.iter_markers() if mark.name in NAMES]
    if not marks and _FIXTURES.isdisjoint(_ours.fixtures(item)):
        return None
    need = Need()
    own = registered_by_suite(item.config) if marks else frozenset()
    for mark in reversed(marks):  # the closest last
        _fill(need, mark, mark.name in own)
        if mark.name == "gpu_exclusive":
            need.exclusive = True
        if mark.name == "gpu_leak":
            need.allowed = need.allowed or 0
    return need


def requires_gpu(item: pytest.Item) -> bool:
    """Whether a test needs a GPU before its fixtures are set up, by its marks or by the fixtures ``gpu`` and ``gpus``.

    A mark that the suite registers itself says nothing about the GPUs that gpuconf finds (they may be another
    vendor's), unless it has arguments of ours or the run has opted in.
    """
    fixtures = _ours.fixtures(item)
    if "gpu_simulate" in fixtures:
        return False  # it brings its own
    if not _FIXTURES.isdisjoint(fixtures) and not _ours.simulates(item):
        return True
    own = registered_by_suite(item.config) if is_plain(item.config) else frozenset()
    return any(
        mark.name in ("gpu", "gpu_exclusive")
        and (mark.name not in own or not mark.kwargs.keys().isdisjoint(("n", "free", "cc")))
        for mark in item.iter_markers()
    )
