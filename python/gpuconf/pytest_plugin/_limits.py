# SPDX-License-Identifier: Apache-2.0
"""``gpu_peak``: compares the peak of a test with its limit, or with the baseline's file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from .._core import runtime
from .._core.files import replacing
from .._core.native import loaded
from .._core.stacks import Frame
from .._typing import Any
from ..machine.cards import visible_devices
from . import _pytorch
from ._leaks import Watch
from ._marks import Need, sizes_text
from ._options import is_plain, settings

SCHEMA = 1
_MOST_RECORDED_LINES = 200
_NO_LINE = ("", 0, "")  # of memory that no Python code allocated, as PyTorch's threads do in the backward pass
ENTRY = "gpuconf.baseline"  # the property of a report that carries a test's new entry from a worker


def place() -> str:
    """Return what a peak depends on, apart from the test: the models of the GPUs in use, and PyTorch's minor version
    if it is loaded.
    """
    names = _pytorch.device_names()
    if loaded() and runtime.initialized():
        ordinals = set(runtime.ordinals())
        names |= {device.name for device in visible_devices() if device.cuda_ordinal in ordinals}
    torch = getattr(sys.modules.get("torch"), "__version__", "")
    return ", ".join(sorted(names) + ([f"PyTorch {'.'.join(str(torch).split('.')[:2])}"] if torch else []))


class Baselines:
    """The file's content. Raises pytest.UsageError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tests: dict[str, dict[str, dict[str, Any]]] = _read(path)
        self.written: int | None = None  # how many tests of this run are in the file that it wrote

    def entry(self, test: str, where: str) -> dict[str, Any] | None:
        """Return the entry of a test."""
        return self._tests.get(test, {}).get(where)

    def update(self, entries: dict[str, dict[str, dict[str, Any]]], collected: set[str]) -> None:
        """Replace the entries of tests, remove those of tests that are gone, and write the file.

        A test is gone if its file is, or if the run has collected that file without it.
        """
        files = {_file_of(test) for test in collected}
        for test in list(self._tests):
            module = _file_of(test)
            if test not in collected and (module in files or not (self.path.parent / module).exists()):
                del self._tests[test]
        for test, by_place in entries.items():
            self._tests.setdefault(test, {}).update(by_place)
        if not self._tests and not self.path.exists():
            return
        ordered = {test: dict(sorted(found.items())) for test, found in sorted(self._tests.items())}
        with replacing(self.path, encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, "tests": ordered}, file, indent=1, ensure_ascii=False)
            file.write("\n")
        self.written = len(entries)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        schema, tests = found["schema"], found["tests"]
        if schema == SCHEMA:
            for by_place in tests.values():
                for entry in by_place.values():
                    if not isinstance(entry["peak_bytes"], int) or entry["peak_bytes"] < 0:
                        raise ValueError(f"peak_bytes is {entry['peak_bytes']!r}")
                    _sums(entry)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise pytest.UsageError(f"gpuconf: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = str(error) if isinstance(error, ValueError) else "its content is not what --gpuconf-update writes"
        what = f"{error} is missing" if isinstance(error, KeyError) else what
        told = f"gpuconf: {path.name} is damaged ({what}): restore it, or remove it and run with --gpuconf-update"
        raise pytest.UsageError(told) from None
    if schema != SCHEMA:
        raise pytest.UsageError(
            f"gpuconf: {path.name} has schema {schema!r}, and this version of gpuconf reads {SCHEMA}: update gpuconf"
        )
    return dict(tests)


_KEY = pytest.StashKey[Baselines]()


def of_run(config: pytest.Config) -> Baselines:
    """Return the content of a run's file."""
    if _KEY not in config.stash:
        config.stash[_KEY] = Baselines(settings(config).baseline)
    return config.stash[_KEY]


def check(config: pytest.Config) -> None:
    """Raise pytest.UsageError if the file cannot be read, or not be written, before any test runs."""
    if not is_plain(config):
        path = of_run(config).path
        if settings(config).update and not os.access(path if path.exists() else path.parent, os.W_OK):
            raise pytest.UsageError(f"--gpuconf-update cannot write {path}: no such folder, or no permission")


def new_entry(peak: int, at_peak: dict[int, Any], root: Path) -> dict[str, Any]:
    """Return an entry: a peak, and the lines that held the most of it."""
    rows = []
    for sums in at_peak.values():
        for (library, tag, site), (size, blocks) in sums.items():
            file, line, function = site or _NO_LINE
            rows.append([_relative(file, root), line, function, library, tag, size, blocks])
    rows.sort(key=lambda row: (-row[5], row[:3]))
    return {"peak_bytes": peak, **({"lines": rows[:_MOST_RECORDED_LINES]} if rows else {})}


def _relative(file: str, root: Path) -> str:
    return os.path.relpath(file, root) if file.startswith(f"{root}{os.sep}") else file


def changed_lines(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the lines that hold more than before, those that grew most first, and then those that hold less; [] if
    either entry has no lines.
    """
    from ..plans.recordings.difference import Difference

    if not old.get("lines") or not new.get("lines"):
        return []
    found = Difference(0, _sums(old), _sums(new))
    return [str(change) for change in found.changes if change.bytes_grown]


def _sums(entry: dict[str, Any]) -> dict[Any, tuple[int, int]]:
    sums: dict[Any, tuple[int, int]] = {}
    for file, line, function, library, tag, size, blocks in entry.get("lines", []):
        site = (str(file), int(line), str(function))
        sums[str(library), str(tag), None if site == _NO_LINE else site] = int(size), int(blocks)
    return sums


_MOST_LINES = 10


_COLLECTED = pytest.StashKey[set[str]]()


def collected(config: pytest.Config) -> set[str]:
    """Return the tests of this run, and of its workers, of the files that it has collected as a whole."""
    return config.stash.setdefault(_COLLECTED, set())


def note_collected(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the tests that there are, before any is deselected."""
    if settings(config).update and not config.getoption("lf", False):
        parts = {_file_of(Path(arg).name) for arg in config.args if "::" in arg}  # of these files only some tests
        collected(config).update(item.nodeid for item in items if _file_of(item.nodeid).rpartition("/")[2] not in parts)


def measures(config: pytest.Config, need: Need | None) -> bool:
    """Whether the peak of a test matters."""
    return settings(config).report or compares(config, need)


def compares(config: pytest.Config, need: Need | None) -> bool:
    """Whether the peak of a test has a limit or a baseline."""
    return settings(config).peak is not None or (need is not None and (need.baseline or need.peak is not None))


def look(item: pytest.Item, need: Need | None, watch: Watch) -> str:
    """Return why a test that has passed fails: its peak is too high, or has nothing to compare with. Return "" if it
    passes.
    """
    peak, chosen = watch.peaks.most, settings(item.config)
    limit = need.peak if need is not None and need.peak is not None else chosen.peak
    if limit is not None and peak > limit:
        text = (
            f"peak {sizes_text(peak)} of GPU memory is {_percent(peak, limit)} above the limit of {sizes_text(limit)}"
        )
        return _failure(item, text, _holders(watch))
    return _compared(item, need, watch) if need is not None and need.baseline else ""


def _compared(item: pytest.Item, need: Need, watch: Watch) -> str:
    config, chosen, peak = item.config, settings(item.config), watch.peaks.most
    where = place()
    entry = new_entry(peak, watch.at_peak, config.rootpath)
    if chosen.update:
        set_property(item, ENTRY, json.dumps([where, entry]))
        return ""
    old = of_run(config).entry(item.nodeid, where)
    if old is None and chosen.require_baseline:
        name = chosen.baseline.name
        return f"no baseline in {name} for this test on {where or 'this machine'}: --gpuconf-update writes it"
    if old is None:
        set_property(item, "gpuconf.no_baseline", where)
        return ""
    before = old["peak_bytes"]
    most = int(before * (1 + (need.tolerance or chosen.tolerance)))
    if peak <= most:
        return ""
    allowed = f" (at most {sizes_text(most)} with the tolerance)" if most > before else ""
    grown = f"{sizes_text(peak - before)}, {_percent(peak, before)}, above the baseline of {sizes_text(before)}"
    lines = [*changed_lines(old, entry), f"{where}; --gpuconf-update accepts the new peak"]
    return _failure(item, f"peak {sizes_text(peak)} of GPU memory is {grown}{allowed}", lines)


def _percent(peak: int, before: int) -> str:
    return f"{100 * (peak - before) / before:.1f} %" if before else "infinitely"


def _holders(watch: Watch) -> list[str]:
    """Return what holds the most at the peak."""
    rows = [(size, blocks, site) for sums in watch.at_peak.values() for (_, _, site), (size, blocks) in sums.items()]
    rows.sort(key=lambda row: (-row[0], str(row)))
    return [
        f"{sizes_text(size)} at {_line(site)}, {blocks} block{'' if blocks == 1 else 's'}"
        for size, blocks, site in rows
    ]


def _line(site: Frame | None) -> str:
    if site is None:
        return "no line of Python (a library's own thread, such as PyTorch's for the backward pass)"
    file, line, function = site
    return f"{file}:{line} ({function})"


def _failure(item: pytest.Item, text: str, lines: list[str]) -> str:
    set_property(item, "gpuconf.peak", text)
    return "\n  ".join([f"{text}:", *lines[:_MOST_LINES]])


def set_property(of: pytest.Item | pytest.TestReport, name: str, value: object) -> None:
    """Set a property of a test or a report, which a run before may have set."""
    of.user_properties[:] = [(key, old) for key, old in of.user_properties if key != name]
    of.user_properties.append((name, value))
